//! Notes the commit the binary was built from, for provenance files.

use std::process::Command;

fn main() {
    let commit = Command::new("git").args(["rev-parse", "--short=12", "HEAD"]).output().ok();
    let commit =
        commit.filter(|output| output.status.success()).and_then(|output| String::from_utf8(output.stdout).ok());
    println!("cargo::rustc-env=KELVIN_COMMIT={}", commit.as_deref().map_or("unknown", str::trim));
    println!("cargo::rerun-if-changed=../../.git/HEAD");
    println!("cargo::rerun-if-changed=../../.git/refs/heads");
}
