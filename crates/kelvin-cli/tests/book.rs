//! The book and the README: every command's page has its help as the program prints it, and every link leads somewhere.
//!
//! `KELVIN_WRITE_BOOK=1 cargo test -p kelvin-cli book` writes the help texts into the pages; without it they are compared.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use crate::support::PROGRAM;

const BEGIN: &str = "<!-- help: written by crates/kelvin-cli/tests/book.rs -->\n```text\n";
const END: &str = "```\n<!-- /help -->\n";

#[test]
fn every_command_has_a_page_with_its_help() {
    let overview = help(&["--help"]);
    let list = overview.split_once("Commands:\n").unwrap().1.split_once("\n\n").unwrap().0;
    let names =
        list.lines().filter_map(|line| line.strip_prefix("  ")?.split(' ').next().filter(|name| !name.is_empty()));
    let pages = repository().join("docs/src/commands");
    for name in names.filter(|&name| name != "help") {
        is_or_becomes(&pages.join(format!("{name}.md")), &help(&["help", name]));
    }
    is_or_becomes(&pages.join("overview.md"), &overview);
}

#[test]
fn every_link_of_the_book_and_the_readme_leads_somewhere() {
    let root = repository();
    let book = root.join("docs/src");
    let chapters: BTreeSet<PathBuf> = links(&read(&book.join("SUMMARY.md"))).map(|link| book.join(link)).collect();
    let mut broken = Vec::new();
    for chapter in &chapters {
        let text = with_includes(chapter);
        for link in links(&text) {
            let (target, place) = target_of(chapter, &text, &link);
            let is_page = target.extension().is_none_or(|ending| ending != "md") || chapters.contains(&target);
            if !(target.starts_with(&book) && is_page && place.is_found(&target)) {
                broken.push(format!("{}: {link}", shown(chapter)));
            }
        }
    }
    for name in ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "results/README.md"] {
        let page = root.join(name);
        let text = read(&page);
        for link in links(&text) {
            let (target, place) = target_of(&page, &text, &link);
            if !place.is_found(&target) {
                broken.push(format!("{name}: {link}"));
            }
        }
    }
    assert!(chapters.len() > 40, "SUMMARY.md lists {} chapters", chapters.len());
    assert!(
        broken.is_empty(),
        "links that lead nowhere, or to a page that SUMMARY.md does not list:\n{}",
        broken.join("\n")
    );
}

fn repository() -> PathBuf {
    flat(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
}

fn read(path: &Path) -> String {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", shown(path)));
    text.replace("\r\n", "\n")
}

fn shown(path: &Path) -> String {
    path.strip_prefix(repository()).unwrap_or(path).display().to_string()
}

/// What the program prints where there is no terminal, nobody's data and no chosen device.
fn help(arguments: &[&str]) -> String {
    let mut command = Command::new(PROGRAM);
    for name in ["KELVIN_DATA", "KELVIN_DEVICE", "COLUMNS"] {
        command.env_remove(name);
    }
    let output = command.args(arguments).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// Compares the help in a page, or writes it there.
fn is_or_becomes(path: &Path, help: &str) {
    let page = read(path);
    let parts = page.split_once(BEGIN).and_then(|(before, rest)| Some((before, rest.split_once(END)?)));
    let Some((before, (stored, after))) = parts else { panic!("{} has no place for its help", shown(path)) };
    if std::env::var_os("KELVIN_WRITE_BOOK").is_some() {
        std::fs::write(path, format!("{before}{BEGIN}{help}{END}{after}")).unwrap();
        return;
    }
    assert!(
        stored == help,
        "{} does not have the help that the program prints; run `KELVIN_WRITE_BOOK=1 cargo test -p kelvin-cli book` to write it again",
        shown(path)
    );
}

/// A page with the file that it consists of, as mdBook takes it in.
fn with_includes(page: &Path) -> String {
    let text = read(page);
    match text.trim().strip_prefix("{{#include ").and_then(|rest| rest.strip_suffix("}}")) {
        Some(path) => read(&flat(&page.parent().unwrap().join(path))),
        None => text,
    }
}

/// What links lead to inside the repository, outside of code.
fn links(text: &str) -> impl Iterator<Item = String> {
    let mut found = Vec::new();
    let mut is_code = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if !is_code {
            // Every other piece between backticks is code.
            let prose: String = line.split('`').step_by(2).collect();
            found.extend(prose.split("](").skip(1).filter_map(|rest| Some(rest.split_once(')')?.0.to_owned())));
        }
    }
    found.into_iter().filter(|link| !link.contains("://"))
}

/// A heading of a page, where a link names one.
struct Place {
    heading: Option<String>,
    /// The text that a link without a path is in.
    own_text: Option<String>,
}

impl Place {
    fn is_found(&self, target: &Path) -> bool {
        let Some(heading) = &self.heading else { return target.exists() };
        let text = self.own_text.clone().or_else(|| std::fs::read_to_string(target).ok()).unwrap_or_default();
        text.lines().filter_map(|line| line.strip_prefix('#')).any(|line| anchor(line) == *heading)
    }
}

fn target_of(page: &Path, text: &str, link: &str) -> (PathBuf, Place) {
    let (path, heading) = link.split_once('#').map_or((link, None), |(path, heading)| (path, Some(heading.to_owned())));
    if path.is_empty() {
        return (page.into(), Place { heading, own_text: Some(text.into()) });
    }
    (flat(&page.parent().unwrap().join(path)), Place { heading, own_text: None })
}

/// The name by which mdBook and others address a heading.
fn anchor(heading: &str) -> String {
    let kept = heading.trim_start_matches('#').trim().chars().filter_map(|letter| match letter {
        ' ' => Some('-'),
        _ if letter.is_alphanumeric() || "_-".contains(letter) => Some(letter),
        _ => None,
    });
    kept.flat_map(char::to_lowercase).collect()
}

/// The path without `..`, links of the file system left alone.
fn flat(path: &Path) -> PathBuf {
    let mut short = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(short.pop()),
            Component::CurDir => {}
            other => short.push(other),
        }
    }
    short
}
