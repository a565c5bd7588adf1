//! Options of the command line for TLS.

use std::fs;
use std::path::Path;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use tempfile::TempDir;

use super::{SECOND, drawn_in, words};
use crate::model::Model;
use crate::options::{Asked, Options};
use crate::watch::Watch;
use harness::{self, Server};

type Ca = Issuer<'static, KeyPair>;

/// Creates a CA, and writes its certificate to the file.
fn ca(file: &Path) -> Ca {
    let mut params = CertificateParams::new(Vec::new()).expect("no names");
    params.distinguished_name.push(DnType::CommonName, file.display().to_string());
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().expect("a key");
    let certificate = params.self_signed(&key).expect("a certificate");
    fs::write(file, certificate.pem()).expect("a file");
    Issuer::new(params, key)
}

/// Writes a certificate for this name to a file, and its key to another, with different extensions.
fn certificate(ca: &Ca, name: &str, file: &Path) {
    let mut params = CertificateParams::new([name.to_owned()]).expect("a name");
    params.distinguished_name.push(DnType::CommonName, name);
    let key = KeyPair::generate().expect("a key");
    let certificate = params.signed_by(&key, ca).expect("a certificate");
    fs::write(file.with_extension("crt"), certificate.pem()).expect("a file");
    fs::write(file.with_extension("key"), key.serialize_pem()).expect("a file");
}

/// A server with TLS, whose certificate is for another host name, and the files needed to connect to it.
struct Secured {
    folder: TempDir,
    port: u16,
    _server: Server,
}

impl Secured {
    fn start(clients: &str) -> Self {
        let folder = TempDir::new().expect("a folder");
        let file = |name: &str| folder.path().join(name);
        let ours = ca(&file("ca.crt"));
        fs::create_dir(file("cas")).expect("a folder");
        fs::copy(file("ca.crt"), file("cas/ours.pem")).expect("a file");
        ca(&file("cas/other.pem"));
        ca(&file("other.crt"));
        certificate(&ours, "redis.example.org", &file("server"));
        certificate(&ours, "client", &file("client"));
        let path = |name: &str| file(name).display().to_string();
        let port = harness::free_port();
        let server = Server::start(&[
            "--tls-port",
            &port.to_string(),
            "--tls-cert-file",
            &path("server.crt"),
            "--tls-key-file",
            &path("server.key"),
            "--tls-ca-cert-file",
            &path("ca.crt"),
            "--tls-auth-clients",
            clients,
        ]);
        Self { folder, port, _server: server }
    }

    /// Returns the drawing for these options, in which names with a dot or a slash are files.
    fn drawn(&self, scheme: &str, options: &str) -> String {
        let file = |word: &str| self.folder.path().join(word).display().to_string();
        let is_file = |word: &str| word.contains('.') || word == "cas";
        let words_of = options.split_whitespace();
        let options = words_of.map(|word| if is_file(word) { file(word) } else { word.to_owned() });
        let url = format!("{scheme}://127.0.0.1:{}", self.port);
        let parser = lexopt::Parser::from_args(options.chain([url]));
        let Asked::View(options) = Options::parse(parser).expect("options") else {
            panic!("no view")
        };
        let (mut watch, mut model) = (Watch::new(options.client), Model::default());
        watch.refresh(&mut model, SECOND);
        words(&drawn_in(120, &model))
    }
}

#[test]
fn a_server_with_tls_is_trusted_by_its_ca_like_in_redis_cli() {
    let server = Secured::start("no");
    for options in
        ["--cacert ca.crt", "--cacertdir cas", "--insecure", "--cacert other.crt --cacertdir cas"]
    {
        let drawn = server.drawn("rediss", options);
        assert!(drawn.contains("dehydrators: 0"), "{options}: {drawn}");
    }
    for options in ["", "--cacert other.crt"] {
        let drawn = server.drawn("rediss", options);
        assert!(!drawn.contains("dehydrators: 0"), "{options}: {drawn}");
        assert!(drawn.contains("certificate") && drawn.contains("--cacert"), "{options}: {drawn}");
    }
    let drawn = server.drawn("redis", "");
    assert!(drawn.contains("rediss://"), "{drawn}");
}

#[test]
fn a_client_certificate_is_sent_if_the_server_requires_one() {
    let server = Secured::start("yes");
    let drawn = server.drawn("rediss", "--cacert ca.crt --cert client.crt --key client.key");
    assert!(drawn.contains("dehydrators: 0"), "{drawn}");
    let drawn = server.drawn("rediss", "--cacert ca.crt");
    assert!(drawn.contains("ertificate") && drawn.contains("--cert"), "{drawn}");
}

#[test]
fn a_plain_server_differs_from_one_with_tls() {
    let server = Server::start_with_port(&[]);
    let url = format!("rediss://127.0.0.1:{}", server.port());
    let options = Options::parse(lexopt::Parser::from_args(["--insecure", &url]));
    let Asked::View(options) = options.expect("options") else { panic!("no view") };
    let client = options.client;
    let (mut watch, mut model) = (Watch::new(client), Model::default());
    watch.refresh(&mut model, SECOND);
    let drawn = words(&drawn_in(120, &model));
    assert!(drawn.contains("redis:// for one without"), "{drawn}");
}

#[test]
fn a_server_is_named_by_its_host_and_port_too() {
    let options = Options::parse(lexopt::Parser::from_args(["localhost:7"])).expect("options");
    let Asked::View(options) = options else { panic!("no view") };
    assert_eq!(options.client.get_connection_info().addr().to_string(), "localhost:7");
}

#[test]
fn contradictory_options_are_refused() {
    let folder = TempDir::new().expect("a folder");
    fs::write(folder.path().join("empty"), "").expect("a file");
    let empty = folder.path().join("empty").display().to_string();
    let none = folder.path().join("none").display().to_string();
    for (options, expected) in [
        (&["--cacert", &none, "rediss://host"][..], "No such file"),
        (&["--cacert", &empty, "rediss://host"], "no certificate"),
        (&["--cacertdir", &empty, "rediss://host"], "Not a directory"),
        (&["--cert", &empty, "rediss://host"], "--key"),
        (&["--insecure", "redis://host"], "rediss://"),
        (&["--every", "0", "redis://host"], "--every"),
        (&["--sni", "host"], "--sni"),
        (&["redis://host", "redis://other"], "redis://other"),
    ] {
        let refused = Options::parse(lexopt::Parser::from_args(options)).err();
        let refused = refused.unwrap_or_else(|| panic!("{options:?} is taken")).to_string();
        assert!(refused.contains(expected), "{options:?}: {refused}");
    }
}
