//! Parses the command line.

use std::error::Error;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use redis::{
    Client, ClientTlsConfig, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, TlsCertificates,
};

use crate::web;
use crate::web::{Door, Seed};

pub const USAGE: &str = "\
usage: dehydrator-top [options] [url]
       dehydrator-top --web address:port [options] [url ...]

The url is redis://user:password@host:6379/0, rediss://host:6379 for TLS, host:6379, or
redis+unix:///path/to/socket?db=0; default redis://127.0.0.1:6379. The password can
also be in REDISCLI_AUTH.

  --every seconds     the refresh interval (default: 1)
  --version           print the version
  --cacert file       the CA of the server's certificate, in PEM. As in redis-cli, any
                      certificate of this CA is accepted, for any host name. Without
                      --cacert or --cacertdir, the certificate must be for the host
                      name, from a CA of the system
  --cacertdir folder  a folder of such files
  --cert file         a client certificate, in PEM
  --key file          its private key
  --insecure          do not check the server's certificate

In the terminal it shows one node of a cluster, and one database of a server. An ACL
user needs +info +scan +dehydrator.info and ~*, and +dehydrator.late to see the keys
that are overdue the longest, +dehydrator.schedules, and +xlen +llen for dead letters.

  --web address:port  serve a page instead, such as 127.0.0.1:8380. It shows all nodes
                      of a cluster, all databases, and several urls. For Sentinel:
                      redis-sentinel://user:password@host:26379,host:26379/name
                      (rediss-sentinel:// for TLS)
  --login             everybody logs in as a Redis user
  --token-file file   a browser must know the token in this file
  --user-header name  a proxy has authenticated the user, whom it names in this header.
                      Beyond loopback, one of these three is required
  --host name         a name by which browsers reach the page, besides localhost and IP
                      addresses. Can be repeated
  --log key           the stream that records each change (default: dehydrator:log),
                      or '' for none";

/// What the command line asks for.
pub enum Asked {
    Help,
    Version,
    View(Box<Options>),
}

pub struct Options {
    pub client: Client,
    pub every: Duration,
    /// The page to serve instead of the view in the terminal.
    pub web: Option<web::Options>,
}

/// The options of the page.
#[derive(Default)]
struct Page {
    address: Option<SocketAddr>,
    doors: Vec<Door>,
    hosts: Vec<String>,
    log: Option<String>,
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
    /// Parses the command line.
    pub fn parse(mut arguments: lexopt::Parser) -> Result<Asked, Box<dyn Error>> {
        use lexopt::prelude::*;

        let mut urls = Vec::new();
        let mut page = Page::default();
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
                Long("web") => {
                    let address = arguments.value()?.string()?;
                    let parsed = address.replace("localhost:", "127.0.0.1:").parse();
                    let error = "--web needs an address and a port, such as 127.0.0.1:8380";
                    page.address = Some(parsed.map_err(|_| error)?);
                }
                Long("login") => page.doors.push(Door::Login),
                Long("token-file") => {
                    page.doors.push(Door::token(&PathBuf::from(arguments.value()?))?);
                }
                Long("user-header") => {
                    page.doors.push(Door::header(&arguments.value()?.string()?)?);
                }
                Long("host") => page.hosts.push(arguments.value()?.string()?.to_lowercase()),
                Long("log") => page.log = Some(arguments.value()?.string()?),
                Short('h') | Long("help") => return Ok(Asked::Help),
                Short('V') | Long("version") => return Ok(Asked::Version),
                Value(value) if urls.is_empty() || page.address.is_some() => {
                    urls.push(value.string()?);
                }
                _ => return Err(argument.unexpected().into()),
            }
        }
        if urls.is_empty() {
            urls.push("redis://127.0.0.1:6379".into());
        }
        let seeds: Vec<_> = urls.iter().map(|url| seed(url, &tls)).collect::<Result<_, _>>()?;
        let web = page.options(&seeds)?;
        let client = match seeds.into_iter().next() {
            Some(Seed::Sentinel { .. }) if web.is_none() => {
                return Err("a url of Sentinel is for --web".into());
            }
            Some(Seed::Node(client) | Seed::Sentinel { template: client, .. }) => client,
            None => unreachable!("there is a default"),
        };
        Ok(Asked::View(Box::new(Self { client, every, web })))
    }
}

impl Page {
    /// Returns the options of the page, if one is asked for.
    fn options(self, seeds: &[Seed]) -> Result<Option<web::Options>, Box<dyn Error>> {
        let Some(address) = self.address else {
            if self.doors.is_empty() && self.hosts.is_empty() && self.log.is_none() {
                return Ok(None);
            }
            return Err("--login, --token-file, --user-header, --host and --log need --web".into());
        };
        let mut doors = self.doors.into_iter();
        let door = doors.next().unwrap_or(Door::Open);
        if doors.next().is_some() {
            return Err("give only one of --login, --token-file and --user-header".into());
        }
        if matches!(door, Door::Open) && !address.ip().is_loopback() {
            let error = format!(
                "{address} can be reached from other machines: give --login, --token-file or --user-header too, \
                 or listen on 127.0.0.1"
            );
            return Err(error.into());
        }
        let log = self.log.unwrap_or("dehydrator:log".into());
        let log = (!log.is_empty()).then(|| log.into_bytes());
        Ok(Some(web::Options { address, door, hosts: self.hosts, log, seeds: seeds.to_vec() }))
    }
}

/// Reads a url: of a node, or of Sentinels as `redis-sentinel://user:password@host:port,host:port/name/db`.
fn seed(url: &str, tls: &Tls) -> Result<Seed, Box<dyn Error>> {
    let schemes = [("redis-sentinel://", "redis://"), ("rediss-sentinel://", "rediss://")];
    let found = schemes.iter().find_map(|(ours, plain)| Some((url.strip_prefix(ours)?, *plain)));
    let Some((rest, scheme)) = found else {
        // `host:port` alone, as for other programs.
        let url = if url.contains("://") { url.to_owned() } else { format!("redis://{url}") };
        return Ok(Seed::Node(tls.client(with_password(url.into_connection_info()?))?));
    };
    let error = "a url of Sentinel is redis-sentinel://host:port,host:port/name";
    let (authority, path) = rest.split_once('/').ok_or(error)?;
    let (service, db) = path.split_once('/').unwrap_or((path, "0"));
    let (user, hosts) = match authority.rsplit_once('@') {
        Some((user, hosts)) => (format!("{user}@"), hosts),
        None => (String::new(), authority),
    };
    if service.is_empty() || hosts.is_empty() {
        return Err(error.into());
    }
    let client = |user: &str, host: &str| -> Result<Client, Box<dyn Error>> {
        let port = if host.rsplit(']').next().is_some_and(|end| end.contains(':')) {
            ""
        } else {
            ":26379"
        };
        let url = format!("{scheme}{user}{host}{port}/{db}");
        tls.client(url.as_str().into_connection_info()?)
    };
    let sentinels = hosts.split(',').map(|host| client("", host)).collect::<Result<_, _>>()?;
    let first = hosts.split(',').next().unwrap_or(hosts);
    let template = client(&user, first)?;
    let info = with_password(template.get_connection_info().clone());
    Ok(Seed::Sentinel { sentinels, service: service.to_owned(), template: Client::open(info)? })
}

/// Adds the password of the environment, if there is no other.
fn with_password(info: ConnectionInfo) -> ConnectionInfo {
    match (info.redis_settings().password(), std::env::var("REDISCLI_AUTH")) {
        (None, Ok(password)) => {
            let settings = info.redis_settings().clone().set_password(password);
            info.set_redis_settings(settings)
        }
        _ => info,
    }
}

impl Tls {
    fn client(&self, info: ConnectionInfo) -> Result<Client, Box<dyn Error>> {
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
