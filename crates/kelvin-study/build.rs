//! Notes the commit that was built, for provenance files; `-dirty` where its sources differ from it.

use std::path::Path;
use std::process::Command;

/// What decides numbers, seen from this folder.
const SOURCES: [&str; 9] = [
    "build.rs",
    "src",
    "presets",
    "Cargo.toml",
    "../kelvin/src",
    "../kelvin/Cargo.toml",
    "../kelvin-cuda/src",
    "../../Cargo.toml",
    "../../Cargo.lock",
];

fn main() {
    let commit = git(&["rev-parse", "--short=12", "HEAD"]);
    let changes = git(&[&["status", "--porcelain", "--"][..], &SOURCES].concat());
    let mark = if changes.is_none_or(|changes| changes.is_empty()) { "" } else { "-dirty" };
    println!("cargo::rustc-env=KELVIN_COMMIT={}", commit.map_or("unknown".into(), |commit| commit + mark));

    // Git says where its files are: in a worktree `.git` is no folder. A path that is missing would rebuild every time.
    let of_git = ["HEAD", "refs/heads", "packed-refs"].map(|name| git(&["rev-parse", "--git-path", name]));
    for path in SOURCES.into_iter().map(String::from).chain(of_git.into_iter().flatten()) {
        if Path::new(&path).exists() {
            println!("cargo::rerun-if-changed={path}");
        }
    }
}

/// What git answers, or nothing where there is no git or no repository.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}
