//! Describes the machine that the figures were measured on.

use std::fs;
use std::process::Command;

fn field(file: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.split_once(':'))?;
    Some(line.1.trim().to_owned())
}

fn version(program: &str) -> String {
    let output = Command::new(program).arg("--version").output();
    output.map_or_else(
        |_| format!("{program} is not there"),
        |output| String::from_utf8_lossy(&output.stdout).trim().to_owned(),
    )
}

/// Returns the version of a crate in Cargo.lock.
fn crate_version(name: &str) -> String {
    let lock = include_str!("../Cargo.lock");
    let entry = format!("name = \"{name}\"\nversion = \"");
    let version = lock.split_once(&entry).and_then(|(_, rest)| rest.split_once('"'));
    format!("{name} {}", version.map_or("?", |(version, _)| version))
}

/// Returns one line of Markdown per property.
pub fn describe() -> String {
    let cpu = field("/proc/cpuinfo", "model name").unwrap_or_else(|| "unknown".into());
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let cache = fs::read_to_string("/sys/devices/system/cpu/cpu0/cache/index3/size");
    let cache = cache.map_or_else(|_| "unknown".into(), |size| size.trim().to_owned());
    let memory = field("/proc/meminfo", "MemTotal")
        .and_then(|size| size.split_whitespace().next()?.parse::<u64>().ok())
        .map_or(0, |kib| kib / (1 << 20));
    let crates = [
        "ahash",
        "hashbrown",
        "hierarchical_hash_wheel_timer",
        "tikv-jemallocator",
        "tokio",
        "tokio-util",
    ];
    let crates = crates.map(crate_version).join(", ");
    format!(
        "- {cpu}, {cores} cores, third-level cache {}, {memory} GiB of memory, Linux, 4 KiB pages\n\
         - {}; {crates}\n",
        cache,
        version("rustc"),
    )
}
