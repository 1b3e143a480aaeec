//! `kelvin data`: each known data set, where it comes from, and whether the right file is here.

use std::path::Path;

use kelvin::data::{Presence, known_datasets};

use crate::output::print_result;

pub fn data(folder: Option<&Path>) -> anyhow::Result<()> {
    let mut text = String::new();
    for known in known_datasets() {
        let presence = match known.presence(folder)? {
            Presence::Embedded => "embedded in kelvin".to_owned(),
            Presence::Found(path) => format!("found, contents right: {}", path.display()),
            Presence::Wrong { path, found_sha256 } => {
                format!("WRONG CONTENTS in {} (sha256 {found_sha256}): fetch it again", path.display())
            }
            Presence::Missing => {
                let folder = folder
                    .map_or("the data folder (--data-dir DIR or KELVIN_DATA)".into(), |f| f.display().to_string());
                format!("missing: put {} into {folder}", known.file)
            }
        };
        text.push_str(&format!(
            "{} — {}\n    {}\n    {} rows, {} features, target {}\n    source: {}\n    cite: {}\n    licence: {}\n    sha256: {}\n\n",
            known.name,
            known.title,
            presence,
            known.num_rows,
            known.num_features,
            known.target,
            known.origin,
            known.citation,
            known.licence,
            known.sha256,
        ));
    }
    print_result(text.trim_end_matches('\n'))?;
    print_result("\n")
}
