//! What the paper prints, to stand beside our own numbers: "Temperature Optimization for Bayesian Deep Learning" (UAI 2025).

use kelvin::predictive::PredictiveModel;

/// The inverse temperatures of the paper's grid.
pub const GRID: [f64; 9] = [0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0];

/// What the paper prints of one experiment. Lists of four are of SGD, β = 1, β̂* and the grid, in this order.
pub struct PaperNumbers {
    /// The preset that repeats it.
    pub preset: &'static str,
    /// What the paper calls it.
    pub name: &'static str,
    /// MSE × 10³ or accuracy in percent.
    pub point: [&'static str; 4],
    /// Test LPD of the standard model, mean ± SD, in nats.
    pub lpd_sm: [&'static str; 4],
    /// Test LPD of the tempered model, mean ± SD, in nats.
    pub lpd_tm: [&'static str; 4],
    /// Kinetic inverse temperature of five repetitions at each β of the grid, then at β̂*.
    pub kinetic: [[&'static str; 5]; 10],
    /// Split-R̂ of the log posterior at each β of the grid.
    pub rhat: [&'static str; 9],
    /// Wall-clock minutes of one repetition.
    pub minutes: [&'static str; 4],
}

impl PaperNumbers {
    /// The paper's numbers of this preset; none if it has none.
    pub fn of(preset: &str) -> Option<&'static Self> {
        PAPER.iter().find(|numbers| numbers.preset == preset)
    }

    /// Test LPD of one model, mean ± SD, in nats.
    pub fn lpd(&self, model: PredictiveModel) -> &[&'static str; 4] {
        match model {
            PredictiveModel::Standard => &self.lpd_sm,
            PredictiveModel::Tempered => &self.lpd_tm,
        }
    }

    /// Kinetic inverse temperature of a repetition, from 0, at a β of the grid, or at β̂* if `beta` is none.
    pub fn kinetic_at(&self, beta: Option<f64>, repetition: u32) -> Option<&'static str> {
        let line = match beta {
            Some(beta) => GRID.iter().position(|&at| at == beta)?,
            None => GRID.len(),
        };
        self.kinetic[line].get(repetition as usize).copied()
    }

    /// Split-R̂ at a β of the grid; none at any other.
    pub fn rhat_at(&self, beta: f64) -> Option<&'static str> {
        Some(self.rhat[GRID.iter().position(|&at| at == beta)?])
    }
}

/// The paper's comparison of ways to choose β, by method: accuracy in percent, test LPD of SM-PD, β.
pub struct PaperSelectors {
    /// The preset that repeats it.
    pub preset: &'static str,
    /// Guo et al., MAP, MLE.
    pub methods: [[&'static str; 3]; 3],
}

impl PaperSelectors {
    /// The paper's numbers of this preset; none if it has none.
    pub fn of(preset: &str) -> Option<&'static Self> {
        SELECTORS.iter().find(|numbers| numbers.preset == preset)
    }
}

const SELECTORS: [PaperSelectors; 2] = [
    PaperSelectors {
        preset: "cifar10",
        methods: [
            ["89.86 ± 0.2", "−0.317 ± 0.003", "1.75 ± 0.18"],
            ["89.89 ± 0.25", "−0.321 ± 0.010", "10.54 ± 9.60"],
            ["89.92 ± 0.25", "−0.317 ± 0.006", "10.44 ± 9.54"],
        ],
    },
    PaperSelectors {
        preset: "cifar10-da",
        methods: [
            ["90.47 ± 0.14", "−0.286 ± 0.004", "1.61 ± 0.05"],
            ["92.81 ± 0.27", "−0.232 ± 0.008", "14.28 ± 0.52"],
            ["92.81 ± 0.20", "−0.232 ± 0.007", "12.79 ± 3.06"],
        ],
    },
];

/// The six experiments, in the paper's order.
pub const PAPER: [PaperNumbers; 6] = [
    PaperNumbers {
        preset: "concrete",
        name: "Concrete",
        point: ["106 ± 20", "75 ± 7", "82 ± 4", "76 ± 8"],
        lpd_sm: ["−3.904 ± 1.000", "−0.506 ± 0.255", "−0.186 ± 0.049", "−0.216 ± 0.121"],
        lpd_tm: ["−0.319 ± 0.076", "−0.506 ± 0.255", "−0.13 ± 0.069", "0.019 ± 0.035"],
        kinetic: [
            ["0.08", "0.10", "0.09", "0.08", "0.09"],
            ["0.29", "0.30", "0.30", "0.30", "0.30"],
            ["1.00", "0.99", "0.99", "0.99", "1.00"],
            ["2.98", "2.95", "2.98", "2.98", "2.96"],
            ["9.87", "9.88", "9.87", "9.88", "9.90"],
            ["29.61", "29.28", "29.39", "28.93", "29.04"],
            ["95.81", "92.08", "92.25", "92.20", "91.28"],
            ["259.87", "248.86", "228.33", "221.00", "229.55"],
            ["547.10", "649.51", "503.20", "436.40", "446.14"],
            ["0.16", "0.17", "0.11", "0.08", "0.10"],
        ],
        rhat: ["1.26", "1.04", "1.54", "2.09", "2.79", "2.68", "2.83", "2.81", "3.97"],
        minutes: ["0.17", "0.20", "0.37", "1.76"],
    },
    PaperNumbers {
        preset: "energy",
        name: "Energy",
        point: ["1.7 ± 0.2", "2.1 ± 0.1", "1.6 ± 0.1", "1.4 ± 0.1"],
        lpd_sm: ["1.299 ± 0.011", "1.221 ± 0.005", "1.287 ± 0.009", "1.312 ± 0.003"],
        lpd_tm: ["1.75 ± 0.054", "1.22 ± 0.005", "1.78 ± 0.063", "1.85 ± 0.017"],
        kinetic: [
            ["0.08", "0.09", "0.09", "0.09", "0.09"],
            ["0.24", "0.29", "0.30", "0.26", "0.25"],
            ["1.00", "1.00", "0.99", "1.00", "0.99"],
            ["2.97", "3.00", "2.99", "2.99", "2.98"],
            ["9.94", "10.00", "9.97", "9.97", "9.97"],
            ["29.80", "29.85", "29.76", "29.91", "29.85"],
            ["99.07", "98.88", "97.94", "99.26", "98.51"],
            ["293.28", "293.13", "287.56", "289.86", "293.08"],
            ["939.37", "943.01", "875.31", "880.59", "958.23"],
            ["7.44", "4.86", "7.91", "4.12", "4.58"],
        ],
        rhat: ["1.19", "1.16", "1.09", "1.10", "1.30", "1.77", "2.38", "2.40", "2.87"],
        minutes: ["0.16", "0.19", "0.36", "1.74"],
    },
    PaperNumbers {
        preset: "naval",
        name: "Naval",
        point: ["0.149 ± 0.063", "0.045 ± 0.005", "0.032 ± 0.009", "0.027 ± 0.008"],
        lpd_sm: ["1.376 ± 0.003", "1.376 ± 0.000", "1.382 ± 0.000", "1.382 ± 0.001"],
        lpd_tm: ["2.95 ± 0.162", "1.38 ± 0.000", "3.16 ± 0.106", "3.71 ± 0.194"],
        kinetic: [
            ["0.10", "0.10", "0.10", "0.10", "0.10"],
            ["0.30", "0.30", "0.30", "0.30", "0.30"],
            ["1.00", "0.98", "1.00", "0.99", "0.99"],
            ["2.98", "2.95", "2.98", "2.95", "2.96"],
            ["9.82", "9.69", "9.89", "9.68", "9.78"],
            ["28.48", "28.64", "28.73", "27.61", "28.73"],
            ["84.76", "85.24", "85.66", "72.74", "87.84"],
            ["196.04", "207.08", "187.88", "133.78", "213.83"],
            ["346.19", "399.87", "286.99", "202.85", "432.83"],
            ["47.53", "44.12", "33.33", "42.88", "27.26"],
        ],
        rhat: ["1.82", "1.83", "1.94", "2.24", "2.78", "3.07", "3.25", "3.10", "3.20"],
        minutes: ["0.78", "1.40", "2.19", "12.64"],
    },
    PaperNumbers {
        preset: "mnist",
        name: "MNIST",
        point: ["99.05 ± 0.11", "99.28 ± 0.04", "99.38 ± 0.03", "99.32 ± 0.05"],
        lpd_sm: ["−0.076 ± 0.032", "−0.021 ± 0.000", "−0.018 ± 0.000", "−0.018 ± 0.000"],
        lpd_tm: ["−0.030 ± 0.003", "−0.021 ± 0.000", "−0.017 ± 0.000", "−0.017 ± 0.001"],
        kinetic: [
            ["0.10", "0.10", "0.10", "0.10", "0.10"],
            ["0.30", "0.30", "0.30", "0.30", "0.30"],
            ["1.00", "1.00", "1.00", "1.00", "1.00"],
            ["3.00", "3.00", "3.00", "3.00", "3.00"],
            ["9.99", "9.99", "9.99", "9.99", "9.99"],
            ["29.98", "29.98", "29.96", "29.96", "29.97"],
            ["99.87", "99.88", "99.83", "99.81", "99.86"],
            ["299.19", "299.19", "299.06", "298.99", "299.14"],
            ["992.38", "992.25", "991.97", "991.61", "991.98"],
            ["2.65", "2.68", "4.13", "3.58", "2.03"],
        ],
        rhat: ["1.07", "1.03", "1.02", "1.03", "1.14", "1.27", "1.27", "1.19", "1.16"],
        minutes: ["1.93", "18.83", "20.77", "169.51"],
    },
    PaperNumbers {
        preset: "cifar10",
        name: "CIFAR10",
        point: ["84.9 ± 3.4", "89.1 ± 0.3", "89.9 ± 0.2", "89.9 ± 0.2"],
        lpd_sm: ["−1.138 ± 0.306", "−0.333 ± 0.001", "−0.317 ± 0.006", "−0.319 ± 0.003"],
        lpd_tm: ["−0.55 ± 0.036", "−0.333 ± 0.001", "−0.719 ± 0.443", "−0.333 ± 0.001"],
        kinetic: [
            ["0.10", "0.10", "0.10", "0.10", "0.10"],
            ["0.30", "0.30", "0.30", "0.30", "0.30"],
            ["1.00", "1.00", "1.00", "1.00", "1.00"],
            ["2.99", "2.99", "2.99", "2.99", "2.99"],
            ["9.96", "9.96", "9.96", "9.96", "9.96"],
            ["29.77", "29.77", "29.77", "29.77", "29.77"],
            ["98.21", "98.20", "98.19", "98.15", "98.21"],
            ["285.58", "285.32", "285.15", "285.40", "285.24"],
            ["860.32", "857.79", "853.45", "853.14", "855.56"],
            ["21.04", "3.49", "3.44", "3.46", "20.48"],
        ],
        rhat: ["1.01", "1.02", "1.13", "1.17", "1.69", "1.42", "1.24", "1.19", "1.15"],
        minutes: ["27.90", "260.52", "288.42", "2344.15"],
    },
    PaperNumbers {
        preset: "cifar10-da",
        name: "CIFAR10 (DA)",
        point: ["91.9 ± 0.3", "88.4 ± 0.2", "92.8 ± 0.2", "92.8 ± 0.4"],
        lpd_sm: ["−1.234 ± 0.176", "−0.343 ± 0.002", "−0.232 ± 0.007", "−0.229 ± 0.004"],
        lpd_tm: ["−0.284 ± 0.004", "−0.343 ± 0.002", "−0.811 ± 0.221", "−0.279 ± 0.007"],
        kinetic: [
            ["0.10", "0.10", "0.10", "0.10", "0.10"],
            ["0.30", "0.30", "0.30", "0.30", "0.30"],
            ["1.00", "1.00", "1.00", "1.00", "1.00"],
            ["2.99", "2.99", "2.99", "2.99", "2.99"],
            ["9.92", "9.93", "9.92", "9.93", "9.93"],
            ["29.50", "29.59", "29.54", "29.55", "29.63"],
            ["96.34", "97.12", "96.58", "96.69", "97.34"],
            ["276.00", "280.62", "276.42", "276.79", "281.91"],
            ["775.48", "821.73", "792.92", "798.56", "844.81"],
            ["7.28", "13.93", "13.72", "14.17", "14.28"],
        ],
        rhat: ["1.04", "1.08", "1.07", "1.46", "1.99", "2.30", "2.29", "2.19", "2.38"],
        minutes: ["34.84", "327.12", "361.96", "2944.01"],
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stand_where_they_belong() {
        let energy = PaperNumbers::of("energy").unwrap();
        assert_eq!(energy.point[2], "1.6 ± 0.1");
        assert_eq!(energy.lpd(PredictiveModel::Tempered)[3], "1.85 ± 0.017");
        assert_eq!((energy.kinetic_at(Some(100.0), 2), energy.kinetic_at(None, 0)), (Some("97.94"), Some("7.44")));
        assert_eq!((energy.rhat_at(1000.0), energy.rhat_at(2.0)), (Some("2.87"), None));
        assert!(PaperNumbers::of("energy-quick").is_none());
        assert_eq!(
            PaperSelectors::of("cifar10-da").unwrap().methods[2],
            ["92.81 ± 0.20", "−0.232 ± 0.007", "12.79 ± 3.06"]
        );
    }
}
