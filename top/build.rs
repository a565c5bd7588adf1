//! Builds the program again when a file of the page is added.

fn main() {
    println!("cargo::rerun-if-changed=web");
}
