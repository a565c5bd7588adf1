//! What the program says of itself.

use std::io;
use std::process::Command;

#[test]
fn help_ends_cleanly_when_nobody_reads_it() {
    let (reader, writer) = io::pipe().expect("a pipe");
    drop(reader);
    let mut top = Command::new(env!("CARGO_BIN_EXE_dehydrator-top"));
    let output = top.arg("--help").stdout(writer).output().expect("a program");
    assert!(output.status.success(), "{output:?}");
    assert!(output.stderr.is_empty(), "{output:?}");
}

#[test]
fn the_version_is_that_of_the_module() {
    let mut top = Command::new(env!("CARGO_BIN_EXE_dehydrator-top"));
    let output = top.arg("--version").output().expect("a program");
    assert!(output.status.success(), "{output:?}");
    let version = concat!("dehydrator-top ", env!("DEHYDRATOR_VERSION"), "\n");
    assert_eq!(String::from_utf8_lossy(&output.stdout), version);
}
