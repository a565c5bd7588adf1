//! Builds the program again when a file of the page is added, and tells it the version of the module, which it is released with.

use std::fs;

const MODULE: &str = "../Cargo.toml";

fn main() {
    println!("cargo::rerun-if-changed=web");
    println!("cargo::rerun-if-changed={MODULE}");
    let manifest = fs::read_to_string(MODULE).expect("the module's manifest");
    let version =
        manifest.lines().find_map(|line| line.strip_prefix("version = \"")?.strip_suffix('"'));
    println!("cargo::rustc-env=DEHYDRATOR_VERSION={}", version.expect("the module's version"));
}
