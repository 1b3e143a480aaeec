//! The name that a mistyped name was meant to be.

/// The candidate most like `asked`, if one is like enough to be worth offering: the same but for case, one that it
/// begins (or that begins it), or a few slips of the keyboard away.
pub fn nearest_name<'a>(asked: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let asked = asked.trim().to_lowercase();
    let likeness = |candidate: &str| {
        let candidate = candidate.to_lowercase();
        let begins = asked.chars().count() >= 3 && candidate.starts_with(&asked)
            || candidate.chars().count() >= 3 && asked.starts_with(&candidate);
        let alike = strsim::normalized_damerau_levenshtein(&asked, &candidate);
        if begins { alike.max(0.9) } else { alike }
    };
    candidates
        .into_iter()
        .map(|candidate| (likeness(candidate), candidate))
        .filter(|(alike, _)| *alike >= 0.6)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_slips_and_beginnings_and_nothing_else() {
        let names = ["cement", "water", "age", "strength", "heating_load"];
        let nearest = |asked| nearest_name(asked, names);
        assert_eq!(nearest("strenght"), Some("strength"));
        assert_eq!(nearest("Cement"), Some("cement"));
        assert_eq!(nearest("heating"), Some("heating_load"));
        assert_eq!(nearest("aeg"), Some("age"));
        assert_eq!(nearest("zzz"), None);
        assert_eq!(nearest(""), None);
    }
}
