//! The table of uncertainty on images of another set: entropy and mutual information, and how well each separates the sets.

use kelvin::predictive::{ByModel, ClassificationScores, Scores};
use kelvin_study::experiment::OutOfDistributionScores;
use kelvin_study::findings::Row;
use kelvin_study::number::fixed;

use crate::tables::table::{Alignment, Table};

/// Uncertainty on the test images and on those of another set, and how well it separates the two; nothing where no other set is named.
pub fn out_of_distribution_table(other: Option<&str>, rows: &[Row]) -> Option<Table> {
    let header = ["method", "of", "test", "other", "AUROC SM", "TM", "AUPR SM", "TM", "FPR95 SM", "TM"];
    let title = format!(
        "Uncertainty on test images and {}: entropy H, mutual information I (nats, SM), what they separate",
        other?
    );
    let mut table = Table::new(title, header);
    table.alignments[1] = Alignment::Left;
    for row in rows {
        let (Some(ByModel { standard, tempered }), Scores::Classification(test)) =
            (&row.out_of_distribution, &row.test)
        else {
            continue;
        };
        for of in Uncertainty::of_draws(row.num_draws) {
            let or_dash = |value: Option<f64>| value.map_or("–".into(), |value| fixed(value, 3));
            let mut cells = vec![row.label.clone(), of.symbol().into()];
            cells.extend([of.mean_of_test(&test.standard), of.mean(standard)].map(|value| fixed(value, 3)));
            let pairs = of.separation(standard).into_iter().zip(of.separation(tempered));
            cells.extend(pairs.flat_map(|(standard, tempered)| [or_dash(standard), or_dash(tempered)]));
            table.push(cells);
        }
    }
    Some(table)
}

/// What an image's uncertainty is measured by.
#[derive(Clone, Copy)]
pub enum Uncertainty {
    /// The entropy of the averaged probabilities.
    Entropy,
    /// The mutual information of label and parameters.
    MutualInformation,
}

impl Uncertainty {
    /// Those of so many draws: one draw cannot disagree, so that its mutual information says nothing.
    pub fn of_draws(num_draws: usize) -> &'static [Self] {
        if num_draws > 1 { &[Self::Entropy, Self::MutualInformation] } else { &[Self::Entropy] }
    }

    /// The letter that columns and files name it by.
    pub fn symbol(self) -> &'static str {
        match self {
            Self::Entropy => "H",
            Self::MutualInformation => "I",
        }
    }

    fn mean_of_test(self, test: &ClassificationScores) -> f64 {
        match self {
            Self::Entropy => test.mean_entropy,
            Self::MutualInformation => test.mean_mutual_information,
        }
    }

    /// The mean on images of the other set.
    pub fn mean(self, other: &OutOfDistributionScores) -> f64 {
        match self {
            Self::Entropy => other.mean_entropy,
            Self::MutualInformation => other.mean_mutual_information,
        }
    }

    /// AUROC, AUPR and FPR95.
    pub fn separation(self, other: &OutOfDistributionScores) -> [Option<f64>; 3] {
        match self {
            Self::Entropy => [other.entropy_auroc, other.entropy_aupr, other.entropy_fpr95],
            Self::MutualInformation => {
                [other.mutual_information_auroc, other.mutual_information_aupr, other.mutual_information_fpr95]
            }
        }
    }
}
