//! The table of an audit: what a sampler's chains and exact ones estimate at the same temperatures.

use kelvin_study::experiment::{AuditRow, SamplerEstimates};
use kelvin_study::number::significant;

use crate::tables::table::Table;

/// Two lines for each temperature: the run's sampler, and Metropolis-corrected HMC.
pub fn audit_table(name: &str, rows: &[AuditRow]) -> Table {
    let point = if rows.iter().all(|row| row.exact.is_accuracy) { "accuracy" } else { "MSE" };
    let title = format!(
        "{name} — audit: the run's chains beside Metropolis-corrected HMC (U: mean energy; LPD and {point} on the test rows; ± between chains)"
    );
    let mut table = Table::new(title, ["chains", "sampler", "U", "LPD SM", "LPD TM", point, "R̂ of U", "gradients"]);
    for row in rows {
        let line = |sampler: &str, found: &SamplerEstimates, gradients: String| {
            [
                row.label.clone(),
                sampler.into(),
                found.potential_energy.to_string(),
                found.lpd.standard.to_string(),
                found.lpd.tempered.to_string(),
                found.point_metric.to_string(),
                found.energy_rhat.map_or("–".into(), |rhat| format!("{rhat:.2}")),
                gradients,
            ]
        };
        table.push(line("run", &row.sampled, "–".into()));
        table.push(line("HMC", &row.exact, significant(row.hmc.num_gradients as f64, 2)));
    }
    table
}
