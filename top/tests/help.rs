//! The help, printed to a pipe whose reader has closed it.

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
