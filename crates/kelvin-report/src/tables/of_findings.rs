//! The tables of what was found, each with the name of its file.

use kelvin_study::findings::{Findings, Row, RunCommand};

use crate::tables::audit_table::audit_table;
use crate::tables::corruption_table::corruption_table;
use crate::tables::folds_table::folds_table;
use crate::tables::paper_tables::Sweep;
use crate::tables::run_table::run_table;
use crate::tables::table::Table;
use crate::tables::theory_table::{theory_lines, theory_table};
use crate::tables::uncertainty_table::out_of_distribution_table;

/// The tables of what was found, each with the name of its file; the first is the one to print.
pub fn tables_of(findings: &Findings) -> Vec<(&'static str, Table)> {
    if findings.command == RunCommand::Sweep {
        let sweep = Sweep::new(findings);
        let mut tables = vec![
            ("results", sweep.results()),
            ("kinetic_temperature", sweep.kinetic()),
            ("agreement", sweep.agreement(&findings.agreement)),
            ("wall_clock", sweep.wall_clock()),
        ];
        let other = findings.problem.out_of_distribution.as_deref();
        tables.extend(other.map(|other| ("out_of_distribution", sweep.out_of_distribution(other))));
        let corrupted = corruption_table(&sweep.methods(), Some(&sweep.what_is_shown()));
        tables.extend(corrupted.map(|table| ("corruptions", table)));
        let theory = theory_table(&findings.name, &theory_lines(findings));
        tables.extend(theory.map(|table| ("learning_theory", table)));
        return tables;
    }
    let title = format!("{} — scores on {} test rows", findings.name, findings.problem.test_rows);
    let mut tables = vec![("results", run_table(&title, &findings.rows))];
    let folds = findings
        .cross_validation
        .as_ref()
        .map(|found| ("cross_validation", folds_table(&findings.name, &findings.problem.target, found)));
    tables.extend(folds);
    tables.extend((!findings.audit.is_empty()).then(|| ("audit", audit_table(&findings.name, &findings.audit))));
    let other = out_of_distribution_table(findings.problem.out_of_distribution.as_deref(), &findings.rows);
    tables.extend(other.map(|table| ("out_of_distribution", table)));
    let methods: Vec<(String, Vec<&Row>)> = findings.rows.iter().map(|row| (row.label.clone(), vec![row])).collect();
    tables.extend(corruption_table(&methods, None).map(|table| ("corruptions", table)));
    tables
}
