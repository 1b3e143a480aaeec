//! Tables as people have them, from the file to predictions: text, booleans, dates, missing cells, columns of no use.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;

use serde_json::Value;
use tempfile::TempDir;

use crate::support::{SHORT, command, kelvin, said};

/// Three kinds of birds, as measured on three islands, with an unnamed index, missing measurements and dates.
fn birds(folder: &Path) {
    let mut csv = String::from("\u{FEFF}\"\",species,island,bill,mass,sex,seen,tagged,note\r\n");
    for row in 0..90_usize {
        let kind = row * 7 % 3;
        let island = [["Torger", "Biscoe", "Dream"][row % 3], "Biscoe", "Dream"][kind];
        let wave = (row as f64 * 2.4).sin();
        let bill = if row == 11 { "NA".to_owned() } else { format!("{:.1}", 38.0 + 6.0 * kind as f64 + wave) };
        let mass =
            if row % 30 == 17 { String::new() } else { format!("{}", 3700 + 100 * (row % 7) + 600 * (kind / 2)) };
        let sex = if row % 13 == 5 { "NA" } else { ["male", "female"][row % 2] };
        let species = if row == 40 { "NA" } else { ["Adelie", "Chinstrap", "Gentoo"][kind] };
        let seen = format!("2008-{:02}-{:02}", 1 + row % 12, 1 + row % 28);
        let tagged = ["TRUE", "FALSE"][row / 2 % 2];
        writeln!(csv, "{},{species},{island},{bill},{mass},{sex},{seen},{tagged},bird number {row}\r", row + 1)
            .unwrap();
    }
    std::fs::write(folder.join("birds.csv"), csv).unwrap();
}

fn succeeds(folder: &Path, arguments: &[&str]) -> (String, String) {
    let output = kelvin(folder, arguments);
    assert_eq!(output.status.code(), Some(0), "kelvin {arguments:?}\n{:?}", said(&output));
    said(&output)
}

#[test]
fn a_raw_table_is_learned_from_and_predicted() {
    let folder = TempDir::new().unwrap();
    let here = folder.path();
    birds(here);
    let mut run = vec!["run", "--data", "birds.csv", "--target", "species", "--out", "run"];
    run.extend(SHORT);
    let (_, notes) = succeeds(here, &run);
    let notes = notes.split_whitespace().collect::<Vec<_>>().join(" ");
    for phrase in ["`column 1` counts the rows", "`note` names the rows", "1 of 90 rows have no `species`"] {
        assert!(notes.contains(phrase), "no `{phrase}` in {notes}");
    }
    let read = |name: &str| std::fs::read(here.join("run").join(name)).unwrap();
    let model: Value = serde_json::from_slice(&read("model.json")).unwrap();
    assert_eq!(model["feature_names"], serde_json::json!(["island", "bill", "mass", "sex", "seen", "tagged"]));
    let inputs = model["standardiser"]["features"].as_array().unwrap().len();
    assert_eq!(model["network"]["input"]["channels"].as_u64().unwrap() as usize, inputs);
    assert!(succeeds(here, &["verify", "run"]).0.contains("ok"));
    succeeds(here, &["export", "run", "--format", "csv"]);

    // Other columns, another order, standard input; a level that nobody has seen and cells that say nothing.
    let new = "tagged,mass,bill,island,sex,seen\nyes,3800,38,Torger,female,2008-05-05\n0,,NA,Elsewhere,,\n";
    let mut predict = command(here, &["predict", "run", "--input", "-"]).stdin(Stdio::piped()).spawn().unwrap();
    predict.stdin.take().unwrap().write_all(new.as_bytes()).unwrap();
    let (out, err) = said(&predict.wait_with_output().unwrap());
    assert!(out.starts_with("class,") && out.lines().count() == 3, "{out}\n{err}");
    let err = err.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(err.contains("`island` has levels that no training row has, taken for another level: Elsewhere"), "{err}");
    assert!(err.contains("1 row misses `seen`, which no training row does"), "{err}");

    std::fs::write(here.join("bad.csv"), "tagged,mass,bill,island,sex,seen\nperhaps,x,38,Dream,male,soon\n").unwrap();
    let output = kelvin(here, &["predict", "run", "--input", "bad.csv"]);
    let (out, err) = said(&output);
    assert!(output.status.code() == Some(1) && out.is_empty() && err.contains("3 cells cannot be used"), "{err}");
}

#[test]
fn kinds_that_are_asked_for_are_kept_with_the_run() {
    let folder = TempDir::new().unwrap();
    let here = folder.path();
    birds(here);
    let asked = ["--column", "column 1=drop", "--column", "tagged=text", "--column=seen=drop"];
    let mut run = vec!["run", "--data", "birds.csv", "--target", "mass", "--out", "run"];
    run.extend(asked.iter().chain(&SHORT));
    succeeds(here, &run);
    let settings = std::fs::read_to_string(here.join("run/experiment.toml")).unwrap();
    assert!(settings.contains("[data.columns]") && settings.contains("tagged = \"text\""), "{settings}");
    succeeds(here, &["run", "run/experiment.toml", "--out", "again", "--quiet"]);
    let chosen = |run: &str| std::fs::read(here.join(run).join("predictions/chosen.csv")).unwrap();
    assert_eq!(chosen("run"), chosen("again"));
    for (kind, phrase) in [
        ("taged=text", "did you mean `tagged`?"),
        ("mass=number", "`mass` is the target"),
        ("island=number", "`Biscoe` is not a number"),
        ("tagged=wort", "number, boolean, text, date, drop"),
        ("tagged", "write COLUMN=KIND"),
    ] {
        let output = kelvin(here, &["run", "--data", "birds.csv", "--target", "mass", "--column", kind]);
        let (_, err) = said(&output);
        assert!(output.status.code() != Some(0) && err.contains(phrase), "{kind}: {err}");
    }
}

#[test]
fn data_shows_what_columns_are_taken_for() {
    let folder = TempDir::new().unwrap();
    let here = folder.path();
    birds(here);
    let (out, _) = succeeds(here, &["data", "birds.csv", "--target", "species", "--column", "mass=drop"]);
    let of = |column: &str| {
        let line = out.lines().find(|line| line.starts_with(&format!(" {column} "))).unwrap_or_default();
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(of("column 1"), "column 1 left out counts the rows – –");
    assert_eq!(of("bill"), "bill number 37 to 51 1 2");
    assert_eq!(of("mass"), "mass left out asked for – –");
    assert_eq!(of("tagged"), "tagged boolean 51 % true – 1");
    assert!(of("species").starts_with("species target, classes 3 levels: ") && of("species").ends_with("1 –"), "{out}");
    assert!(of("seen").starts_with("seen date 2008-01-01 to 2008-12-"), "{out}");
    assert!(out.contains("note: column 1 has no name and is called `column 1`"), "{out}");
    let semicolons =
        std::fs::read_to_string(here.join("birds.csv")).unwrap().replace('.', "!").replace(',', ";").replace('!', ",");
    std::fs::write(here.join("european.csv"), semicolons).unwrap();
    let (out, _) = succeeds(here, &["data", "european.csv"]);
    assert!(
        out.contains("note: commas are decimal points in bill") && out.contains("cells are separated by `;`"),
        "{out}"
    );
}
