//! The page's answers, with real servers.

mod acts;
mod doors;
mod fleets;
mod rights;
mod shows;
mod stalls;

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use harness::{Server, until};
use serde_json::{Value, json};
use ureq::Agent;

/// A page that is served, and a client.
pub struct Page {
    child: Child,
    pub address: String,
    agent: Agent,
    /// Sent with each request.
    pub cookie: Option<String>,
}

impl Page {
    /// Serves a page for these servers.
    pub fn of(servers: &[&Server]) -> Self {
        let urls = servers.iter().map(|server| format!("redis://{}", node(server)));
        let urls: Vec<_> = urls.collect();
        Self::start(&urls.iter().map(String::as_str).collect::<Vec<_>>())
    }

    pub fn start(options: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dehydrator-top"));
        command.args(["--web", "127.0.0.1:0"]).args(options).stdout(Stdio::piped());
        let mut child = command.spawn().expect("a program");
        let mut line = String::new();
        let out = child.stdout.take().expect("piped");
        BufReader::new(out).read_line(&mut line).expect("a line");
        let address =
            line.split("http://").nth(1).expect("an address").trim().trim_end_matches('/');
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(Duration::from_secs(180)));
        Self { child, address: address.to_owned(), agent: config.build().into(), cookie: None }
    }

    /// Returns the status, the headers and the body of an answer.
    pub fn request(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> (u16, ureq::http::HeaderMap, String) {
        let mut request = ureq::http::Request::builder()
            .method(method)
            .uri(format!("http://{}/{path}", self.address));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if let Some(cookie) = &self.cookie {
            request = request.header("cookie", cookie);
        }
        let request = request.body(body.to_owned()).expect("a request");
        let mut response = self.agent.run(request).expect("an answer");
        let body = response.body_mut().with_config().limit(64 << 20).read_to_string();
        (response.status().as_u16(), response.headers().clone(), body.expect("text"))
    }

    pub fn try_get(&self, path: &str) -> (u16, Value) {
        let (status, _, body) = self.request("GET", path, &[], "");
        (status, serde_json::from_str(&body).unwrap_or(Value::Null))
    }

    pub fn get(&self, path: &str) -> Value {
        let (status, answer) = self.try_get(path);
        assert_eq!(status, 200, "{path}: {answer}");
        answer
    }

    pub fn try_post(&self, path: &str, body: &Value) -> (u16, Value) {
        let headers = [("content-type", "application/json"), ("x-dehydrator", "1")];
        let (status, _, body) = self.request("POST", path, &headers, &body.to_string());
        (status, serde_json::from_str(&body).unwrap_or(Value::Null))
    }

    pub fn post(&self, path: &str, body: &Value) -> Value {
        let (status, answer) = self.try_post(path, body);
        assert_eq!(status, 200, "{path} {body}: {answer}");
        answer
    }

    /// Waits for the end of a job.
    pub fn end_of(&self, answer: &Value) -> Value {
        let job = answer["job"].as_str().unwrap_or_else(|| panic!("no job: {answer}"));
        until("the job ends", || {
            let job = self.get(&format!("api/jobs/{job}"));
            (job["state"] != "running").then_some(job)
        })
    }

    /// Logs in, and keeps the cookie.
    pub fn log_in(&mut self, body: &Value) -> u16 {
        let headers = [("content-type", "application/json"), ("x-dehydrator", "1")];
        let (status, headers, _) = self.request("POST", "api/login", &headers, &body.to_string());
        if let Some(cookie) = headers.get("set-cookie") {
            let cookie = cookie.to_str().expect("text").to_owned();
            assert!(cookie.contains("HttpOnly; SameSite=Strict"), "{cookie}");
            self.cookie = cookie.split(';').next().map(str::to_owned);
        }
        status
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn node(server: &Server) -> String {
    format!("127.0.0.1:{}", server.port())
}

pub fn b64(bytes: impl AsRef<[u8]>) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

pub fn bytes(value: &Value) -> Vec<u8> {
    BASE64_URL_SAFE_NO_PAD.decode(value.as_str().expect("text")).expect("base64url")
}

/// Returns the query that names a queue.
pub fn named(server: &Server, key: impl AsRef<[u8]>) -> String {
    format!("node={}&db=0&key={}", node(server), b64(key))
}

/// Returns the body of a change.
pub fn change(
    server: &Server,
    key: impl AsRef<[u8]>,
    action: &str,
    args: Value,
    on: Value,
) -> Value {
    let queue = json!({ "node": node(server), "db": 0, "key_b64": b64(key) });
    json!({ "queue": queue, "action": action, "args": args, "on": on })
}
