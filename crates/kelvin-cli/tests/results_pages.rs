//! The results pages say what the files beside them hold: `results/tables.py --check`, here and on a copy with a wrong cell.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::support::{Need, skipped};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Runs the check on a repository; `None`, said aloud, where there is no Python.
fn check(repository: &Path) -> Option<Output> {
    match Command::new("python3").arg(repository.join("results/tables.py")).arg("--check").output() {
        Ok(output) => Some(output),
        Err(error) => {
            skipped(Need::Python, &format!("python3: {error}"));
            None
        }
    }
}

#[test]
fn every_table_of_the_results_pages_is_what_its_files_say() {
    let Some(output) = check(&repository()) else { return };
    let (said, wrong) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{wrong}\n`python3 results/tables.py` writes them again");
    assert!(said.contains("agree with the files"), "{said}");
}

/// A digit is changed in a page, in a table of the paper's numbers beside ours, and in a summary.
#[test]
fn a_wrong_cell_is_found_and_named() {
    for (file, right, wrong) in [
        ("docs/src/results.md", "99.41 ± 0.05", "99.42 ± 0.05"),
        ("results/README.md", "| 9.95, 96.9, 812 |", "| 9.95, 96.9, 813 |"),
        ("results/beside_the_paper.md", "86.4 ± 4.5", "86.5 ± 4.5"),
        ("results/naval/summary.csv", "sgd,lpd_sm,1.36", "sgd,lpd_sm,1.46"),
    ] {
        let copy = tempfile::tempdir().unwrap();
        copy_texts(&repository().join("results"), &copy.path().join("results"));
        std::fs::create_dir_all(copy.path().join("docs/src")).unwrap();
        std::fs::copy(repository().join("docs/src/results.md"), copy.path().join("docs/src/results.md")).unwrap();
        let path = copy.path().join(file);
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains(right), "{file} has no `{right}`");
        std::fs::write(&path, text.replacen(right, wrong, 1)).unwrap();
        let Some(output) = check(copy.path()) else { return };
        let said = String::from_utf8_lossy(&output.stderr);
        let name = path.file_name().unwrap().to_str().unwrap();
        assert!(!output.status.success() && said.contains(name), "{file}: {said}");
    }
}

/// Tables and pages without their figures.
fn copy_texts(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let into = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy_texts(&path, &into);
        } else if path.extension().is_some_and(|ending| ["csv", "md", "py"].iter().any(|text| ending == *text)) {
            std::fs::copy(&path, into).unwrap();
        }
    }
}
