//! A doubtful result as a typed value: what was seen, why it matters, what to try.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize};

/// Which steps of a chain a measured temperature averages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reading {
    /// The ends of the cycles, where the step size is near 0 and draws are kept.
    CycleEnds,
    /// All steps after burn-in.
    AllSteps,
}

impl fmt::Display for Reading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::CycleEnds => "at the cycle ends",
            Self::AllSteps => "over all steps after burn-in",
        })
    }
}

/// What a share of held-out targets is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stated {
    /// The probability of a central predictive interval, which should hold as many targets.
    CentralInterval,
    /// The probability of a predictive quantile, below which as many targets should lie.
    Quantile,
}

/// Something about a result that its user should know before believing it.
///
/// ```
/// use kelvin::diagnostics::Warning;
/// let warning = Warning::ChainDiverged { label: "repetition 2, β = 300".into(), step: 1200 };
/// assert!(warning.to_string().starts_with("chain diverged: repetition 2, β = 300 left the finite numbers"));
/// ```
///
/// It is written with its name under `warning`. A number JSON cannot hold (∞, NaN) is written as null, read as NaN.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "warning", rename_all = "snake_case")]
pub enum Warning {
    /// The kinetic temperature is not the one asked for.
    MeasuredTemperatureOff {
        /// Which chain.
        label: String,
        /// The inverse temperature asked for.
        #[serde(deserialize_with = "number_or_nan")]
        target_beta: f64,
        /// The inverse of the mean kinetic temperature.
        #[serde(deserialize_with = "number_or_nan")]
        measured_beta: f64,
        /// Which steps were averaged.
        at: Reading,
    },
    /// The kept draws hold little independent information.
    FewEffectiveDraws {
        /// Which chains.
        label: String,
        /// Bulk effective sample size of the potential energy.
        #[serde(deserialize_with = "number_or_nan")]
        bulk_ess: f64,
        /// Draws kept in all.
        num_draws: usize,
    },
    /// Chains at one temperature have different potential energies.
    ChainsDisagree {
        /// Which chains.
        label: String,
        /// Rank-normalised split-R̂ of the potential energy.
        #[serde(deserialize_with = "number_or_nan")]
        rhat: f64,
    },
    /// The best inverse temperature is the first or the last of the grid.
    BetaAtGridEdge {
        /// The chosen inverse temperature.
        #[serde(deserialize_with = "number_or_nan")]
        beta: f64,
        /// What was to be best.
        metric: String,
    },
    /// Repetitions choose very different inverse temperatures.
    BetaUnstableOverSeeds {
        /// The chosen inverse temperatures, one a repetition.
        #[serde(deserialize_with = "numbers_or_nan")]
        betas: Vec<f64>,
    },
    /// A chain left the finite numbers and was stopped.
    ChainDiverged {
        /// Which chain.
        label: String,
        /// The step at which it was noticed.
        step: u64,
    },
    /// The step is so long that the discretisation heats the chain.
    StepSizeTooLarge {
        /// Which chain.
        label: String,
        /// The kinetic temperature over all steps, divided by the one the discretisation should show.
        #[serde(deserialize_with = "number_or_nan")]
        heating: f64,
    },
    /// The selector's validation score was still rising at its last checkpoint.
    SelectionNotConverged {
        /// The inverse temperature it gave.
        #[serde(deserialize_with = "number_or_nan")]
        beta: f64,
        /// How many checkpoints there were, the start counted; the last was the best.
        num_checkpoints: usize,
    },
    /// The search for β left the finite numbers before it looked at the validation rows again, and answers with its start.
    SelectionDiverged {
        /// From which start, counted from 1.
        start: u32,
        /// The step at which it was noticed.
        step: u64,
        /// The inverse temperature that it began with, and answers.
        #[serde(deserialize_with = "number_or_nan")]
        beta: f64,
    },
    /// The held-out likelihood has no best inverse temperature: it rises without end.
    BetaUnbounded {
        /// The bounded answer that was given.
        #[serde(deserialize_with = "number_or_nan")]
        beta: f64,
        /// Whether it rises towards larger β.
        larger_is_better: bool,
    },
    /// Draws that were weighted to stand for another distribution hardly overlap with it.
    FewEffectiveWeights {
        /// Which draws, and what they were to stand for.
        label: String,
        /// Effective sample size of the weights.
        #[serde(deserialize_with = "number_or_nan")]
        ess: f64,
        /// Draws that were weighted.
        num_draws: usize,
    },
    /// U still rose or fell over the second half of a warm-up, or hung together too much to tell.
    EnergyStillMoving {
        /// Which chain.
        label: String,
        /// By how much, along a straight line.
        #[serde(deserialize_with = "number_or_nan")]
        change: f64,
        /// Its standard error.
        #[serde(deserialize_with = "number_or_nan")]
        standard_error: f64,
        /// Effective sample size of what the line leaves; below 8 there is nothing to tell by.
        #[serde(deserialize_with = "number_or_nan")]
        effective: f64,
    },
    /// Sampling ended, as long as it may be, before predictions were known as well as asked for.
    TargetsMissed {
        /// Which chains.
        label: String,
        /// The targets that were missed, each with what was reached.
        missed: Vec<String>,
        /// How many times as many draws would reach them; NaN where that cannot be told.
        #[serde(deserialize_with = "number_or_nan")]
        draws_wanted: f64,
    },
    /// So few draws were averaged that the predictive density is still too low.
    FewDrawsBias {
        /// Which chains.
        label: String,
        /// How much the LPD of all draws exceeds that of halves of them, in nats.
        #[serde(deserialize_with = "number_or_nan")]
        gained: f64,
    },
    /// The step is too long for the largest curvature at states that the chains visit.
    StepBeyondCurvature {
        /// Which chains.
        label: String,
        /// h√λmax; a step is stable below 2.
        #[serde(deserialize_with = "number_or_nan")]
        ratio: f64,
    },
    /// Momenta have another temperature than the one asked for, and the step does not explain it: the chains are not at rest.
    NotInEquilibrium {
        /// Which chains.
        label: String,
        /// Mean kinetic temperature where the step is smallest, or over all steps that fit the curvature, over the one asked for.
        #[serde(deserialize_with = "number_or_nan")]
        heating: f64,
    },
    /// Log densities of training rows vary so much over draws that WAIC cannot be believed.
    UnsteadyRows {
        /// Which chains.
        label: String,
        /// The share of rows whose log density has a variance of more than 0.4.
        #[serde(deserialize_with = "number_or_nan")]
        share: f64,
    },
    /// Chains at one temperature predict different things at held-out rows.
    PredictionsDisagree {
        /// Which chains.
        label: String,
        /// Rank-normalised split-R̂ of the predictive mean, or of the probability of the true class: the median over rows.
        #[serde(deserialize_with = "number_or_nan")]
        median_rhat: f64,
        /// That of the worst row.
        #[serde(deserialize_with = "number_or_nan")]
        worst_rhat: f64,
        /// Rows that were looked at.
        num_rows: usize,
    },
    /// The momenta of some tensors do not have the temperature asked for.
    TensorTemperatureOff {
        /// Which chains.
        label: String,
        /// How many tensors.
        num_off: usize,
        /// Of how many.
        num_tensors: usize,
        /// The name of the one that is furthest off.
        tensor: String,
        /// Its mean kinetic temperature at the cycle ends, divided by the one asked for.
        #[serde(deserialize_with = "number_or_nan")]
        ratio: f64,
        /// The smallest ratio of a tensor of its size that has the right temperature.
        #[serde(deserialize_with = "number_or_nan")]
        low: f64,
        /// The largest.
        #[serde(deserialize_with = "number_or_nan")]
        high: f64,
    },
    /// Predictive intervals or quantiles hold another share of held-out targets than they state.
    CoverageOff {
        /// Whose predictions.
        label: String,
        /// What states the share.
        stated: Stated,
        /// The share stated, where it is furthest from the one observed.
        #[serde(deserialize_with = "number_or_nan")]
        nominal: f64,
        /// The share observed.
        #[serde(deserialize_with = "number_or_nan")]
        observed: f64,
        /// Held-out rows.
        num_rows: usize,
    },
    /// The chosen inverse temperature is so large that hardly any data ask for it.
    BetaVeryLarge {
        /// The chosen inverse temperature.
        #[serde(deserialize_with = "number_or_nan")]
        beta: f64,
    },
    /// The temperature divides a prior whose scales are learned, which has no tempered form.
    LearnedScalesTempered {
        /// The inverse temperatures other than 1 that were sampled so.
        #[serde(deserialize_with = "numbers_or_nan")]
        betas: Vec<f64>,
    },
    /// The predictive density is worse than one that ignores the inputs.
    WorseThanBaseRate {
        /// Whose predictions.
        label: String,
        /// Their mean log density of held-out targets.
        #[serde(deserialize_with = "number_or_nan")]
        lpd: f64,
        /// That of the training rows' class frequencies, or of the normal with their mean and variance.
        #[serde(deserialize_with = "number_or_nan")]
        base_lpd: f64,
        /// Whether targets are classes.
        classes: bool,
    },
    /// Rows to predict lie far outside of what was learned from.
    RowsOutsideTraining {
        /// How many rows.
        num_outside: usize,
        /// Of how many.
        num_rows: usize,
        /// The column that is furthest out, in widths of its training range.
        column: String,
        /// The value furthest out.
        #[serde(deserialize_with = "number_or_nan")]
        value: f64,
        /// The smallest value of that column in the training rows.
        #[serde(deserialize_with = "number_or_nan")]
        low: f64,
        /// The largest.
        #[serde(deserialize_with = "number_or_nan")]
        high: f64,
    },
}

impl Warning {
    /// What kind of warning this is, in words.
    pub fn name(&self) -> &'static str {
        match self {
            Self::MeasuredTemperatureOff { .. } => "measured temperature off",
            Self::FewEffectiveDraws { .. } => "few effective draws",
            Self::ChainsDisagree { .. } => "chains disagree",
            Self::BetaAtGridEdge { .. } => "beta at grid edge",
            Self::BetaUnstableOverSeeds { .. } => "beta unstable over seeds",
            Self::ChainDiverged { .. } => "chain diverged",
            Self::StepSizeTooLarge { .. } => "step size too large",
            Self::SelectionNotConverged { .. } => "selection not converged",
            Self::SelectionDiverged { .. } => "selection diverged",
            Self::BetaUnbounded { .. } => "beta unbounded",
            Self::FewEffectiveWeights { .. } => "few effective weights",
            Self::EnergyStillMoving { .. } => "energy still moving",
            Self::TargetsMissed { .. } => "targets missed",
            Self::FewDrawsBias { .. } => "few draws bias",
            Self::StepBeyondCurvature { .. } => "step beyond curvature",
            Self::NotInEquilibrium { .. } => "not in equilibrium",
            Self::UnsteadyRows { .. } => "unsteady rows",
            Self::PredictionsDisagree { .. } => "predictions disagree",
            Self::TensorTemperatureOff { .. } => "tensor temperature off",
            Self::CoverageOff { .. } => "coverage off",
            Self::BetaVeryLarge { .. } => "beta very large",
            Self::LearnedScalesTempered { .. } => "learned scales tempered",
            Self::WorseThanBaseRate { .. } => "worse than base rate",
            Self::RowsOutsideTraining { .. } => "rows outside training",
        }
    }

    /// What was seen, with its numbers.
    pub fn seen(&self) -> String {
        match self {
            Self::MeasuredTemperatureOff { label, target_beta, measured_beta, at } => {
                let off = 100.0 * (measured_beta / target_beta - 1.0);
                format!(
                    "{label} was asked for β = {} and its momenta show β = {} {at} ({off:+.1} %).",
                    number(*target_beta),
                    number(*measured_beta)
                )
            }
            Self::FewEffectiveDraws { label, bulk_ess, num_draws } => {
                format!("the {num_draws} draws of {label} are worth {} independent ones.", number(*bulk_ess))
            }
            Self::ChainsDisagree { label, rhat } => {
                format!("R̂ of the potential energy of {label} is {}.", number(*rhat))
            }
            Self::BetaAtGridEdge { beta, metric } => {
                format!("the best {metric} of the grid is at its edge, β = {}.", number(*beta))
            }
            Self::BetaUnstableOverSeeds { betas } => {
                let list: Vec<String> = betas.iter().map(|&beta| number(beta)).collect();
                format!("the repetitions chose β = {}.", list.join(", "))
            }
            Self::ChainDiverged { label, step } => format!("{label} left the finite numbers at step {step}."),
            Self::StepSizeTooLarge { label, heating } => {
                format!("{label} runs {} times as hot as its step size and friction explain.", number(*heating))
            }
            Self::SelectionNotConverged { beta, num_checkpoints } => format!(
                "the last of {num_checkpoints} checkpoints had the best validation score, with β = {}.",
                number(*beta)
            ),
            Self::SelectionDiverged { start, step, beta } => format!(
                "the search for β from start {start} left the finite numbers at step {step}, before its first checkpoint; it answers \
                 β = {}.",
                number(*beta)
            ),
            Self::BetaUnbounded { beta, larger_is_better } => format!(
                "the held-out likelihood rises without end as β {}; β = {} has nearly all there is to gain.",
                if *larger_is_better { "grows" } else { "shrinks" },
                number(*beta)
            ),
            Self::FewEffectiveWeights { label, ess, num_draws } => {
                format!("the {num_draws} draws of {label} count for {} once they are weighted.", number(*ess))
            }
            Self::EnergyStillMoving { label, change, standard_error, effective } => format!(
                "the energy U of {label} changed by {} ± {} over the second half of its warm-up ({} effective readings).",
                number(*change),
                number(*standard_error),
                number(*effective)
            ),
            Self::TargetsMissed { label, missed, draws_wanted } => {
                let times = if draws_wanted.is_finite() {
                    format!("; about {} times as many draws would reach them", number(*draws_wanted))
                } else {
                    String::new()
                };
                format!("sampling at {label} ended before its targets: {}{times}.", missed.join(", "))
            }
            Self::FewDrawsBias { label, gained } => {
                format!("the SM LPD of all draws of {label} is {} nats above that of half of them.", number(*gained))
            }
            Self::StepBeyondCurvature { label, ratio } => {
                format!("h√λmax is {} where the chains of {label} ended.", number(*ratio))
            }
            Self::NotInEquilibrium { label, heating } => format!(
                "the momenta of {label} are {} times as hot as asked for, and a shorter step would not change it.",
                number(*heating)
            ),
            Self::UnsteadyRows { label, share } => format!(
                "the log density of {:.0} % of the training rows varies by more than 0.4 (variance) over the draws of {label}.",
                100.0 * share
            ),
            Self::PredictionsDisagree { label, median_rhat, worst_rhat, num_rows } => format!(
                "R̂ of what the chains of {label} predict is {} at the median of {num_rows} held-out rows, {} at the worst.",
                number(*median_rhat),
                number(*worst_rhat)
            ),
            Self::TensorTemperatureOff { label, num_off, num_tensors, tensor, ratio, low, high } => format!(
                "{num_off} of {num_tensors} tensors of {label} are off; the momenta of {tensor} have {} times the temperature asked \
                 for, where chance explains {} to {}.",
                number(*ratio),
                number(*low),
                number(*high)
            ),
            Self::CoverageOff { label, stated, nominal, observed, num_rows } => {
                let (nominal, observed) = (100.0 * nominal, 100.0 * observed);
                match stated {
                    Stated::CentralInterval => format!(
                        "the {nominal:.0} % intervals of {label} hold {observed:.0} % of the {num_rows} held-out targets."
                    ),
                    Stated::Quantile => format!(
                        "below the {nominal:.0} % quantiles of {label} lie {observed:.0} % of the {num_rows} held-out targets."
                    ),
                }
            }
            Self::BetaVeryLarge { beta } => format!("the search chose β = {}.", number(*beta)),
            Self::LearnedScalesTempered { betas } => {
                let list: Vec<String> = betas.iter().map(|&beta| number(beta)).collect();
                format!("at β = {} the temperature divides the prior too, whose scales are learned.", list.join(", "))
            }
            Self::WorseThanBaseRate { label, lpd, base_lpd, classes } => format!(
                "held-out LPD of {label} is {}, and {} for {} alone, whatever the inputs are.",
                number(*lpd),
                number(*base_lpd),
                if *classes { "the class frequencies" } else { "the targets' mean and variance" }
            ),
            Self::RowsOutsideTraining { num_outside, num_rows, column, value, low, high } => format!(
                "{num_outside} of {num_rows} rows lie far outside the training rows; the furthest has `{column}` = {}, where \
                 training rows have {} to {}.",
                number(*value),
                number(*low),
                number(*high)
            ),
        }
    }

    /// Why it matters.
    pub fn why(&self) -> &'static str {
        match self {
            Self::MeasuredTemperatureOff { .. } => {
                "the draws belong to another temperature than the one the result is labelled with, so a curve over β \
                 is shifted here."
            }
            Self::FewEffectiveDraws { .. } => {
                "averages over the draws, and the differences between temperatures they show, are noisier than the \
                 number of draws suggests."
            }
            Self::ChainsDisagree { .. } => {
                "values from 1 to 4 are normal for Bayesian neural networks, whose chains stay near different modes; \
                 this is beyond that, so some chain may not have settled at all."
            }
            Self::BetaAtGridEdge { .. } => {
                "the true best may lie outside the grid, so the reported gain is a lower bound."
            }
            Self::BetaUnstableOverSeeds { .. } => {
                "β̂ then depends on the start and the optimiser as much as on the data; in classification a rescaled \
                 last layer with a rescaled β is the same model, so only weight decay and the stopping point pin it."
            }
            Self::ChainDiverged { .. } => "its later draws do not exist; every average leaves this chain out.",
            Self::StepSizeTooLarge { .. } => {
                "the error of the discretisation acts as extra heat, most of all at high temperatures, where weights \
                 wander into steep places; the noise of minibatch gradients does at low ones."
            }
            Self::SelectionNotConverged { .. } => "a longer run would probably have ended at another β.",
            Self::SelectionDiverged { .. } => {
                "nothing was searched: this β is where it began, and its point estimate is an untrained network."
            }
            Self::BetaUnbounded { larger_is_better: true, .. } => {
                "every held-out row is predicted rightly (or without error), so these rows cannot say how sure to be."
            }
            Self::BetaUnbounded { larger_is_better: false, .. } => {
                "the outputs say nothing true about the held-out rows, so the best use of them is none."
            }
            Self::FewEffectiveWeights { .. } => {
                "the weighted average rests on a few draws, and its standard error cannot be trusted either."
            }
            Self::EnergyStillMoving { .. } => {
                "draws are kept from here on, and the first of them may belong to the way towards the posterior, not to the posterior."
            }
            Self::TargetsMissed { .. } => {
                "scores at this temperature have a Monte-Carlo error that is larger than asked for; differences say how large."
            }
            Self::FewDrawsBias { .. } => {
                "an average over few draws is a worse density than one over many: about as much is still missing."
            }
            Self::StepBeyondCurvature { .. } => {
                "a step is stable below 2 and right to a percent below 1.25; beyond 1.5 energies and predictions are biased."
            }
            Self::NotInEquilibrium { .. } => {
                "heat that the step does not explain comes from a landscape that the chain is still falling through: scores and \
                 temperatures are those of the way down."
            }
            Self::UnsteadyRows { .. } => {
                "WAIC and ν̂ are the first term of a series in that variance; here the terms left out count as well."
            }
            Self::PredictionsDisagree { .. } => {
                "chains may differ in their weights and still predict the same, but these do not: the average depends on which \
                 chains were run, and one chain alone understates the uncertainty."
            }
            Self::TensorTemperatureOff { .. } => {
                "the mean over all tensors can look right while one of them is sampled at another temperature than the result is \
                 labelled with."
            }
            Self::CoverageOff { .. } => {
                "stated probabilities do not come true on rows that no chain has seen; calibrated predictions fail this test \
                 less than once in a thousand runs."
            }
            Self::BetaVeryLarge { .. } => {
                "the tempered likelihood is then nearly certain of itself, which few data support; often the network memorised \
                 its rows, or the noise variance is far too large."
            }
            Self::LearnedScalesTempered { .. } => {
                "with its scales integrated out the prior has no power that is a prior of such scales: for β > 1 it pulls a whole \
                 tensor to next to nothing, and for β < 1 it cannot be normalised."
            }
            Self::WorseThanBaseRate { .. } => {
                "a prediction that never looks at its inputs would do better, so these predictions should not be used as they \
                 are."
            }
            Self::RowsOutsideTraining { .. } => {
                "the network extrapolates there, and its uncertainty is not that of rows like those it has seen."
            }
        }
    }

    /// What to try.
    pub fn try_this(&self) -> &'static str {
        match self {
            Self::MeasuredTemperatureOff { at: Reading::CycleEnds, .. } => {
                "lower the learning rate, take larger batches, or lengthen the cycles."
            }
            Self::MeasuredTemperatureOff { at: Reading::AllSteps, .. } => {
                "look at the cycle ends first, where draws are kept; if they are off too, lower the learning rate or \
                 take larger batches."
            }
            Self::FewEffectiveDraws { .. } => "lengthen the cycles, keep more draws, or run more chains.",
            Self::ChainsDisagree { .. } => {
                "lengthen the burn-in, look at the trace of the potential energy, and judge by held-out scores of each \
                 chain rather than by R̂ alone."
            }
            Self::BetaAtGridEdge { .. } => "widen the grid on that side.",
            Self::BetaUnstableOverSeeds { .. } => {
                "train the selector longer, report the spread beside β̂, or choose by validation score over a grid."
            }
            Self::ChainDiverged { .. } => {
                "lower the learning rate or the gradient clip, or ramp the temperature later."
            }
            Self::StepSizeTooLarge { .. } => "lower the learning rate, take larger batches, or use a preconditioner.",
            Self::SelectionNotConverged { .. } => "run the selector for more epochs.",
            Self::SelectionDiverged { .. } => "lower selection.learning_rate or selection.clip_norm.",
            Self::BetaUnbounded { larger_is_better: true, .. } => {
                "take more validation rows, or choose by the posterior's own score (a grid)."
            }
            Self::BetaUnbounded { larger_is_better: false, .. } => {
                "look at the training of the network before its temperature."
            }
            Self::FewEffectiveWeights { .. } => "keep more draws, or sample a chain at the temperature itself.",
            Self::EnergyStillMoving { .. } => {
                "allow more (--budget), or lengthen the burn-in of chains with a fixed one (sampler.burn_in)."
            }
            Self::TargetsMissed { .. } => "allow more (--budget), or accept the error that is shown.",
            Self::FewDrawsBias { .. } => "keep more draws (--budget), or go by TM, which few draws harm less.",
            Self::StepBeyondCurvature { .. } => {
                "let chains find their step (--sampler adaptive), or lower sampler.learning_rate by the square of this."
            }
            Self::NotInEquilibrium { .. } => {
                "allow more (--budget), on a large table take fewer rows a step, which costs less (--sampler adaptive with \
                 sampler.batch_size = 512), or lengthen a fixed burn-in (sampler.burn_in)."
            }
            Self::UnsteadyRows { .. } => {
                "go by the LPD of held-out rows instead; WAIC holds at larger β, or with more training rows."
            }
            Self::PredictionsDisagree { .. } => {
                "lengthen the burn-in and the chains, run more chains, and compare their held-out scores one by one."
            }
            Self::TensorTemperatureOff { .. } => {
                "lower the learning rate, take larger batches, or lengthen the cycles; `sampler.preconditioner = \"layerwise\"` \
                 gives tensors steps of their own."
            }
            Self::CoverageOff { .. } => {
                "compare SM with TM, choose β by coverage (`kelvin select --methods grid-coverage-tm`), or look for rows unlike \
                 the training rows."
            }
            Self::BetaVeryLarge { .. } => {
                "compare with a grid (`kelvin select`), look at the validation LPD along the search, and lower \
                 model.noise_variance in a regression."
            }
            Self::LearnedScalesTempered { .. } => {
                "set sampler.tempering = \"likelihood\", which leaves the prior as it is, or a prior of a fixed scale (model.prior = \
                 \"layerwise\")."
            }
            Self::WorseThanBaseRate { .. } => {
                "look at the other predictive model (SM or TM) and at β = 1, train longer, or choose β by validation LPD over a \
                 grid."
            }
            Self::RowsOutsideTraining { .. } => "check the units of that column, or train on rows that cover it.",
        }
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} Why: {} Try: {}", self.name(), self.seen(), self.why(), self.try_this())
    }
}

/// Three significant digits, without trailing zeros.
fn number(value: f64) -> String {
    if !value.is_finite() || value == 0.0 {
        return value.to_string();
    }
    let magnitude = value.abs().log10().floor() as i32;
    if !(-4..6).contains(&magnitude) {
        return format!("{value:.2e}");
    }
    let text = format!("{value:.*}", usize::try_from(2 - magnitude).unwrap_or(0));
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_string() } else { text }
}

/// Reads a number that may be null: JSON has no NaN and writes it so.
pub fn number_or_nan<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Ok(Option::<f64>::deserialize(deserializer)?.unwrap_or(f64::NAN))
}

/// The same for lists.
pub fn numbers_or_nan<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<f64>, D::Error> {
    let numbers = Vec::<Option<f64>>::deserialize(deserializer)?;
    Ok(numbers.into_iter().map(|number| number.unwrap_or(f64::NAN)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one_of_each() -> Vec<Warning> {
        let label = || "chain 3".to_string();
        vec![
            Warning::MeasuredTemperatureOff {
                label: label(),
                target_beta: 100.0,
                measured_beta: 87.0,
                at: Reading::CycleEnds,
            },
            Warning::MeasuredTemperatureOff {
                label: label(),
                target_beta: 1.0,
                measured_beta: 0.9,
                at: Reading::AllSteps,
            },
            Warning::FewEffectiveDraws { label: label(), bulk_ess: 7.125, num_draws: 100 },
            Warning::ChainsDisagree { label: label(), rhat: 5.5 },
            Warning::BetaAtGridEdge { beta: 1000.0, metric: "validation LPD".into() },
            Warning::BetaUnstableOverSeeds { betas: vec![3.5, 20.0, 0.16] },
            Warning::ChainDiverged { label: label(), step: 12 },
            Warning::StepSizeTooLarge { label: label(), heating: 1.5 },
            Warning::SelectionNotConverged { beta: 4.0, num_checkpoints: 20 },
            Warning::SelectionDiverged { start: 2, step: 17, beta: 1.0 },
            Warning::BetaUnbounded { beta: 12.0, larger_is_better: true },
            Warning::BetaUnbounded { beta: 1e-3, larger_is_better: false },
            Warning::FewEffectiveWeights { label: "β = 3 as β = 5".into(), ess: 2.5, num_draws: 100 },
            Warning::EnergyStillMoving { label: label(), change: -30.5, standard_error: 4.0, effective: 22.0 },
            Warning::TargetsMissed {
                label: label(),
                missed: vec!["effective predictions (median row) 100 of 400".into()],
                draws_wanted: 4.0,
            },
            Warning::FewDrawsBias { label: label(), gained: 0.05 },
            Warning::StepBeyondCurvature { label: label(), ratio: 2.8 },
            Warning::NotInEquilibrium { label: label(), heating: 1.4 },
            Warning::UnsteadyRows { label: label(), share: 0.25 },
            Warning::PredictionsDisagree { label: label(), median_rhat: 1.2, worst_rhat: 3.0, num_rows: 103 },
            Warning::TensorTemperatureOff {
                label: label(),
                num_off: 1,
                num_tensors: 4,
                tensor: "dense1.bias".into(),
                ratio: 1.3,
                low: 0.9,
                high: 1.1,
            },
            coverage_off(Stated::CentralInterval),
            coverage_off(Stated::Quantile),
            Warning::BetaVeryLarge { beta: 128.0 },
            Warning::LearnedScalesTempered { betas: vec![0.3, 3.0] },
            Warning::WorseThanBaseRate { label: label(), lpd: -43.6, base_lpd: -0.69, classes: true },
            Warning::WorseThanBaseRate { label: label(), lpd: -3.0, base_lpd: -1.42, classes: false },
            Warning::RowsOutsideTraining {
                num_outside: 1,
                num_rows: 20,
                column: "age".into(),
                value: 1e9,
                low: 1.0,
                high: 365.0,
            },
        ]
    }

    fn coverage_off(stated: Stated) -> Warning {
        let label = "β̂* (TM)".to_string();
        Warning::CoverageOff { label, stated, nominal: 0.2, observed: 0.57, num_rows: 103 }
    }

    #[test]
    fn a_wrong_coverage_is_told_as_shares() {
        let interval = "the 20 % intervals of β̂* (TM) hold 57 % of the 103 held-out targets.";
        assert_eq!(coverage_off(Stated::CentralInterval).seen(), interval);
        let quantile = "below the 20 % quantiles of β̂* (TM) lie 57 % of the 103 held-out targets.";
        assert_eq!(coverage_off(Stated::Quantile).seen(), quantile);
    }

    #[test]
    fn every_warning_is_one_paragraph_with_three_texts() {
        for warning in one_of_each() {
            let text = warning.to_string();
            assert!(text.starts_with(warning.name()), "{text}");
            assert!(text.contains(" Why: ") && text.contains(" Try: ") && !text.contains('\n'), "{text}");
            assert!(!text.contains("  "), "{text}");
            for part in [warning.seen().as_str(), warning.why(), warning.try_this()] {
                assert!(part.ends_with('.') && part.len() > 20, "{part}");
            }
        }
    }

    #[test]
    fn the_measured_temperature_is_told_with_its_numbers() {
        assert_eq!(
            one_of_each()[0].to_string(),
            "measured temperature off: chain 3 was asked for β = 100 and its momenta show β = 87 at the cycle ends \
             (-13.0 %). Why: the draws belong to another temperature than the one the result is labelled with, so a \
             curve over β is shifted here. Try: lower the learning rate, take larger batches, or lengthen the cycles."
        );
    }

    #[test]
    fn json_round_trip_under_the_same_name() {
        for warning in one_of_each() {
            let json = serde_json::to_value(&warning).unwrap();
            assert_eq!(json["warning"], warning.name().replace(' ', "_"));
            assert_eq!(serde_json::from_value::<Warning>(json).unwrap(), warning);
        }
        let endless = Warning::ChainsDisagree { label: "all".into(), rhat: f64::INFINITY };
        let back: Warning = serde_json::from_str(&serde_json::to_string(&endless).unwrap()).unwrap();
        assert!(matches!(back, Warning::ChainsDisagree { rhat, .. } if rhat.is_nan()));
        let unstable = Warning::BetaUnstableOverSeeds { betas: vec![1.0, f64::INFINITY] };
        let back: Warning = serde_json::from_str(&serde_json::to_string(&unstable).unwrap()).unwrap();
        assert!(matches!(back, Warning::BetaUnstableOverSeeds { betas } if betas[0] == 1.0 && betas[1].is_nan()));
    }

    #[test]
    fn numbers_have_three_digits() {
        let texts = [0.1, 0.0163, 12.345, 100.0, 1000.0, 12345.6, 1e-7, f64::INFINITY, 0.0].map(number);
        assert_eq!(texts, ["0.1", "0.0163", "12.3", "100", "1000", "12346", "1.00e-7", "inf", "0"]);
    }
}
