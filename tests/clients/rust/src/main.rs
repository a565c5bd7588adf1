//! Probes of redis-rs and fred. The first argument selects one; for probes in general, see tests/clients/probe.rs.

mod fred;
mod redis;

use std::collections::HashMap;
use std::io::{BufRead, stdin};

/// The command line.
pub struct Settings {
    pub is_cluster: bool,
    pub port: u16,
    named: HashMap<String, String>,
}

impl Settings {
    fn from_command_line(mut words: impl Iterator<Item = String>) -> Self {
        let mode = words.next().expect("a mode");
        let port = words.next().expect("a port").parse().expect("a port");
        let named = words.map(|word| {
            let (name, value) = word.split_once('=').expect("a setting");
            (name.to_owned(), value.to_owned())
        });
        Self { is_cluster: mode == "cluster", port, named: named.collect() }
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        self.named.get(name).map(String::as_str)
    }

    pub fn timeout(&self) -> Option<std::time::Duration> {
        let seconds = self.get("timeout")?.parse().expect("seconds");
        Some(std::time::Duration::from_secs_f64(seconds))
    }
}

/// Prints the result of each line that it reads.
pub fn serve<E: std::fmt::Display>(
    version: &str,
    mut send: impl FnMut(&[&str]) -> Result<String, E>,
) {
    println!("ready {version}");
    for line in stdin().lock().lines() {
        let line = line.expect("text");
        match send(&line.split(' ').collect::<Vec<_>>()) {
            Ok(reply) => println!("ok {}", reply.replace('\n', " ")),
            Err(error) => println!("error {}", error.to_string().replace('\n', " ")),
        }
    }
}

fn main() {
    let mut words = std::env::args().skip(1);
    let library = words.next().expect("a library");
    let settings = Settings::from_command_line(words);
    match library.as_str() {
        "redis" => redis::sync(&settings),
        "redis-dropping" => redis::sync_dropping(&settings),
        "redis-async" => redis::multiplexed(&settings),
        "redis-manager" => redis::manager(&settings),
        "fred" => fred::client(&settings, false),
        "fred-blocking" => fred::client(&settings, true),
        _ => panic!("no library {library}"),
    }
}
