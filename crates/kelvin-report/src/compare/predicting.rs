//! Which model predicts, in sentences: what it is, what it learned from, and what else was tried.

use kelvin_study::findings::{Candidate, JudgedOn, Predicting, Trials, Tried};
use kelvin_study::number::fixed;

/// What `kelvin predict` uses, why, and how far behind the others are.
pub fn predicting_text(found: &Predicting) -> String {
    let rows = match found.judged_on {
        JudgedOn::Folds => format!("all {} rows, each held out once", found.num_judged),
        JudgedOn::Splits => format!("{} rows that splits held out", found.num_judged),
        JudgedOn::Validation => format!("the {} validation rows", found.num_judged),
    };
    let Some(best) = found.candidates.first() else { return String::new() };
    let why = match found.candidates.iter().find(|candidate| candidate.what == found.what) {
        Some(own) if own.what != best.what => format!(
            "it is {} nats a row behind the best, {}, with an error of {}, and simpler",
            fixed(own.behind, 3),
            best.what.label,
            fixed(own.error, 3)
        ),
        _ => "it scored best".into(),
    };
    let others = found.candidates.iter().filter(|candidate| candidate.what != found.what);
    let others: Vec<String> = others.map(|other| format!("{} {}", other.what.label, fixed(other.lpd, 3))).collect();
    let tried = if others.is_empty() { String::new() } else { format!(" Also tried: {}.", others.join("; ")) };
    format!(
        "`kelvin predict` uses {}, learned from {} rows: over {rows}, {why} (LPD {}).{tried}",
        found.what.label,
        found.num_rows,
        found.candidates.iter().find(|own| own.what == found.what).map_or("–".into(), |own| fixed(own.lpd, 3)),
    )
}

/// What was chosen by short chains, and how the others scored.
pub fn trials_text(found: &Trials) -> String {
    let what = match found.of {
        Tried::Likelihood => "How numbers scatter",
        Tried::Hidden => "Hidden layers",
        Tried::Beta => "Temperature",
    };
    let score = |candidate: &Candidate| {
        let behind = match candidate.behind == 0.0 {
            true => String::new(),
            false => format!(" ({} ± {} behind)", fixed(candidate.behind, 3), fixed(candidate.error, 3)),
        };
        format!("{} {}{behind}", candidate.what.label, fixed(candidate.lpd, 3))
    };
    let all: Vec<String> = found.candidates.iter().map(score).collect();
    let first = if found.of == Tried::Hidden { "first" } else { "simplest" };
    format!(
        "{what}: {}, the {first} within one standard error of the best. LPD of short chains at {} rows that they had not seen: {}.",
        found.chosen,
        found.num_judged,
        all.join("; ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use kelvin::predictive::PredictiveModel;
    use kelvin_study::findings::{HeldOutModel, ModelKind};

    #[test]
    fn the_model_its_rows_and_the_others_are_named() {
        let what = |kind, label: &str| HeldOutModel {
            kind,
            model: PredictiveModel::Standard,
            beta: None,
            label: label.into(),
        };
        let (one, network) = (what(ModelKind::Bayes, "β = 1"), what(ModelKind::Ensemble, "deep ensemble of 4"));
        let candidate = |what: &HeldOutModel, lpd, behind, error| Candidate { what: what.clone(), lpd, behind, error };
        let mut found = Predicting {
            what: one.clone(),
            judged_on: JudgedOn::Folds,
            num_judged: 1030,
            num_rows: 1030,
            candidates: vec![candidate(&network, -0.2, 0.0, 0.0), candidate(&one, -0.21, 0.01, 0.02)],
        };
        let text = predicting_text(&found);
        assert_eq!(
            text,
            "`kelvin predict` uses β = 1, learned from 1030 rows: over all 1030 rows, each held out once, it is 0.010 nats a row behind \
             the best, deep ensemble of 4, with an error of 0.020, and simpler (LPD −0.210). Also tried: deep ensemble of 4 −0.200."
        );
        let tried = Trials {
            of: Tried::Beta,
            judged_on: JudgedOn::Folds,
            num_judged: 412,
            chosen: "β = 1".into(),
            candidates: found.candidates.clone(),
        };
        assert_eq!(
            trials_text(&tried),
            "Temperature: β = 1, the simplest within one standard error of the best. LPD of short chains at 412 rows that they had not seen: \
             deep ensemble of 4 −0.200; β = 1 −0.210 (0.010 ± 0.020 behind)."
        );
        found.what = network;
        assert!(predicting_text(&found).contains("it scored best (LPD −0.200). Also tried: β = 1 −0.210."));
    }
}
