//! The names of settings where one is asked for that does not exist: the nearest first, the rest by section.

use kelvin::data::nearest_name;
use kelvin_study::error::ExperimentError;

use crate::output::WrongFlags;
use kelvin_report::text::wrapped;

/// The error with its names in a useful order; any other error as it is.
pub fn with_names_in_order(error: ExperimentError) -> anyhow::Error {
    let ExperimentError::UnknownSetting { asked, known, .. } = &error else { return error.into() };
    let known: Vec<&str> = known.split(", ").collect();
    let near = nearest(asked, &known);
    let mut text = format!("there is no setting `{asked}`\n");
    if !near.is_empty() {
        let near: Vec<String> = near.iter().map(|name| format!("`{name}`")).collect();
        text += &format!("  did you mean {}?\n", near.join(" or "));
    }
    for names in by_section(&known) {
        text += &wrapped(&format!("  {}", names.join(", ")), "    ");
    }
    WrongFlags(text.trim_end().into()).into()
}

/// The name most like the asked one, or whose last part is most like its last part, and its namesakes of other sections.
fn nearest<'a>(asked: &str, known: &[&'a str]) -> Vec<&'a str> {
    let by_end = || nearest_name(last_part(asked), known.iter().map(|name| last_part(name)));
    let Some(end) = nearest_name(asked, known.iter().copied()).map(last_part).or_else(by_end) else {
        return Vec::new();
    };
    let mut near: Vec<&str> = known.iter().copied().filter(|name| last_part(name) == end).collect();
    let first = nearest_name(asked, near.iter().copied());
    near.sort_by_key(|name| Some(*name) != first);
    near
}

fn last_part(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

/// The names of each section together, in order of its first.
fn by_section<'a>(known: &[&'a str]) -> Vec<Vec<&'a str>> {
    let section = |name: &str| name.split_once('.').map(|(section, _)| section.to_owned());
    let mut sections: Vec<Vec<&str>> = Vec::new();
    for &name in known {
        match sections.iter_mut().find(|names| section(names[0]) == section(name)) {
            Some(names) => names.push(name),
            None => sections.push(vec![name]),
        }
    }
    sections
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_names_come_first_and_the_rest_by_section() {
        let known = "name, sampler.cycle, sampler.learning_rate, selection.learning_rate, sampler.draws".to_owned();
        let unknown = |asked: &str| {
            let (asked, known) = (asked.to_owned(), known.clone());
            with_names_in_order(ExperimentError::UnknownSetting { asked, known, suggestion: String::new() }).to_string()
        };
        let expected = "\
there is no setting `learning_rat`
  did you mean `sampler.learning_rate` or `selection.learning_rate`?
  name
  sampler.cycle, sampler.learning_rate, sampler.draws
  selection.learning_rate";
        assert_eq!(unknown("learning_rat"), expected);
        assert!(unknown("sampler.cicle").contains("did you mean `sampler.cycle`?"));
        assert!(
            unknown("selection.learning_rat").contains("mean `selection.learning_rate` or `sampler.learning_rate`?")
        );
        assert!(!unknown("zzz").contains("did you mean"));
    }
}
