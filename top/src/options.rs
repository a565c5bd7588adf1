//! Parses the command line.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use redis::{
    Client, ClientTlsConfig, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, TlsCertificates,
};

pub const USAGE: &str = "\
usage: dehydrator-top [options] [url]

The url is redis://user:password@host:6379/0, rediss://host:6379 for TLS, or
redis+unix:///path/to/socket?db=0; default redis://127.0.0.1:6379. The password can
also be in REDISCLI_AUTH.

  --every seconds     the refresh interval (default: 1)
  --cacert file       the CA of the server's certificate, in PEM. As in redis-cli, any
                      certificate of this CA is accepted, for any host name. Without
                      --cacert or --cacertdir, the certificate must be for the host
                      name, from a CA of the system
  --cacertdir folder  a folder of such files
  --cert file         a client certificate, in PEM
  --key file          its private key
  --insecure          do not check the server's certificate

It shows one node of a cluster, and one database of a server. An ACL user needs
+info +scan +dehydrator.info and ~*, and +dehydrator.late to see the keys that are
overdue the longest.";

pub struct Options {
    pub client: Client,
    pub every: Duration,
}

/// The certificates of both sides, as in redis-cli.
#[derive(Default)]
struct Tls {
    ca: Option<PathBuf>,
    ca_folder: Option<PathBuf>,
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
    insecure: bool,
}

impl Options {
    /// Parses the command line. Returns `None` if it asks for help.
    pub fn parse(mut arguments: lexopt::Parser) -> Result<Option<Self>, Box<dyn Error>> {
        use lexopt::prelude::*;

        let mut url = None;
        let mut every = Duration::from_secs(1);
        let mut tls = Tls::default();
        while let Some(argument) = arguments.next()? {
            match argument {
                Long("every") => {
                    let seconds = arguments.value()?.parse::<f64>()?;
                    let range = 0.1..=3600.0;
                    every = Some(seconds)
                        .filter(|seconds| range.contains(seconds))
                        .map(Duration::from_secs_f64)
                        .ok_or("--every is from 0.1 to 3600 seconds")?;
                }
                Long("cacert") => tls.ca = Some(arguments.value()?.into()),
                Long("cacertdir") => tls.ca_folder = Some(arguments.value()?.into()),
                Long("cert") => tls.certificate = Some(arguments.value()?.into()),
                Long("key") => tls.key = Some(arguments.value()?.into()),
                Long("insecure") => tls.insecure = true,
                Short('h') | Long("help") => return Ok(None),
                Value(value) if url.is_none() => url = Some(value.string()?),
                _ => return Err(argument.unexpected().into()),
            }
        }
        let mut info = url.unwrap_or("redis://127.0.0.1:6379".into()).into_connection_info()?;
        if let (None, Ok(password)) =
            (info.redis_settings().password(), std::env::var("REDISCLI_AUTH"))
        {
            let settings = info.redis_settings().clone().set_password(password);
            info = info.set_redis_settings(settings);
        }
        Ok(Some(Self { client: tls.client(info)?, every }))
    }
}

impl Tls {
    fn client(self, info: ConnectionInfo) -> Result<Client, Box<dyn Error>> {
        let ConnectionAddr::TcpTls { host, port, .. } = info.addr().clone() else {
            if self.is_asked_for() {
                return Err("for TLS, the url must begin with rediss://".into());
            }
            return Ok(Client::open(info)?);
        };
        let address =
            ConnectionAddr::TcpTls { host, port, insecure: self.insecure, tls_params: None };
        let roots = self.roots()?;
        let names_count = roots.is_none();
        let client_tls = match (&self.certificate, &self.key) {
            (Some(certificate), Some(key)) => {
                Some(ClientTlsConfig { client_cert: read(certificate)?, client_key: read(key)? })
            }
            (None, None) => None,
            _ => return Err("--cert and --key go together".into()),
        };
        let certificates = TlsCertificates { client_tls, root_cert: roots };
        let built = Client::build_with_tls(info.set_addr(address), certificates)?;
        let mut info = built.get_connection_info().clone();
        let mut address = info.addr().clone();
        address.set_danger_accept_invalid_hostnames(!names_count);
        info = info.set_addr(address);
        Ok(Client::open(info)?)
    }

    fn is_asked_for(&self) -> bool {
        let files = [&self.ca, &self.ca_folder, &self.certificate, &self.key];
        self.insecure || files.into_iter().any(Option::is_some)
    }

    /// Returns the certificates of the given CAs, concatenated; `None` if none were given.
    fn roots(&self) -> Result<Option<Vec<u8>>, Box<dyn Error>> {
        let mut roots = Vec::new();
        if let Some(file) = &self.ca {
            roots.extend(read(file)?);
        }
        if let Some(folder) = &self.ca_folder {
            let entries = fs::read_dir(folder).map_err(|error| said(folder, &error))?;
            // In folders prepared for OpenSSL, each file also has a link. Reading a certificate twice does no harm.
            for file in entries.flatten().map(|entry| entry.path()).filter(|path| path.is_file()) {
                roots.extend(read(&file)?);
                roots.push(b'\n');
            }
        }
        if self.ca.is_none() && self.ca_folder.is_none() {
            return Ok(None);
        }
        let found = roots.windows(11).any(|bytes| bytes == b"-----BEGIN ");
        if found {
            Ok(Some(roots))
        } else {
            Err("no certificate in PEM format in the files of --cacert or --cacertdir".into())
        }
    }
}

fn read(file: &Path) -> Result<Vec<u8>, Box<dyn Error>> {
    fs::read(file).map_err(|error| said(file, &error))
}

fn said(path: &Path, error: &std::io::Error) -> Box<dyn Error> {
    format!("{}: {error}", path.display()).into()
}
