//! Which chains and which weights of a run are exported.

use kelvin::network::{Layout, Tensor};
use kelvin_study::error::{Result, StudyError, refused};

use kelvin_study::findings::{ChainFindings, Findings, Method};
use kelvin_study::number::significant;

/// Tensors of more numbers are exported by name only.
const MOST_NUMBERS: usize = 1024;

/// The chains of a run that are exported, all with the same number of draws.
pub struct Selection<'f> {
    /// The chains, in the order of their repetitions.
    pub chains: Vec<&'f ChainFindings>,
    /// The draws that each chain kept.
    pub num_draws: usize,
    /// Sentences for the user: which chains were left out, and why.
    pub notes: Vec<String>,
}

impl<'f> Selection<'f> {
    /// The chains of a method, of a β, or at β̂* if neither is given.
    ///
    /// # Errors
    /// If no chain fits, several β fit, or the chains kept no draws.
    pub fn new(findings: &'f Findings, method: Option<Method>, beta: Option<f64>) -> Result<Self> {
        let method = method.or(beta.is_none().then(|| findings.shown_method()));
        // β = 1 of a sweep is one of its grid.
        let is_of = |chain: &ChainFindings, method: Method| {
            chain.method == method || method == Method::Bayes && chain.method == Method::Grid && chain.beta == 1.0
        };
        let of_method = findings.chains.iter().filter(|chain| method.is_none_or(|method| is_of(chain, method)));
        let near = |chain: &&ChainFindings| beta.is_none_or(|beta| (chain.beta / beta - 1.0).abs() < 1e-6);
        let mut found: Vec<&ChainFindings> = of_method.filter(near).collect();
        let several = method != Some(Method::Chosen) && found.iter().any(|chain| chain.beta != found[0].beta);
        if found.is_empty() || several {
            let question = if several { "several β fit" } else { "no chains are of what --method and --beta ask for" };
            return Err(StudyError::WrongQuestion(format!("{question}; name one of: {}", choices(findings))));
        }
        // Where a grid holds β = 1 and a run samples it besides, these are other chains.
        if let Some(first) = found.first().map(|chain| chain.method) {
            found.retain(|chain| chain.method == first);
        }
        let num_draws = found.iter().map(|chain| chain.potential_energy.len()).max().unwrap_or(0);
        if num_draws == 0 {
            return Err(refused(format!("the chains of {} kept no draws; there is nothing to export", found[0].label)));
        }
        let mut notes = Vec::new();
        found.retain(|chain| {
            let (own, whole) = (chain.potential_energy.len(), chain.potential_energy.len() == num_draws);
            if !whole {
                let why = chain.diverged_at.map_or(String::new(), |step| format!(": it diverged at step {step}"));
                notes.push(format!("{} is left out, with {own} of {num_draws} draws{why}", chain.label));
            }
            whole
        });
        Ok(Self { chains: found, num_draws, notes })
    }

    /// The name of files of these chains, without ending: "chosen", "beta-0.3", ….
    pub fn name(&self) -> String {
        match self.chains[0].method {
            Method::Grid => format!("beta-{}", self.chains[0].beta),
            other => other.name().to_owned(),
        }
    }
}

/// What may be asked for.
fn choices(findings: &Findings) -> String {
    let mut choices: Vec<String> = Vec::new();
    for chain in &findings.chains {
        let choice = match chain.method {
            Method::Grid => format!("--method grid --beta {}", chain.beta),
            other => format!("--method {}", other.name()),
        };
        if !choices.contains(&choice) {
            choices.push(choice);
        }
    }
    choices.join(", ")
}

/// The tensors asked for: `all`, `none`, names, or those of at most 1024 numbers if nothing is asked.
///
/// # Errors
/// If there is no tensor of a name.
pub fn tensors(layout: &Layout, asked: &[String]) -> Result<Vec<Tensor>> {
    let all = layout.tensors();
    match asked {
        [] => Ok(all.iter().filter(|tensor| tensor.range.len() <= MOST_NUMBERS).cloned().collect()),
        [word] if word == "all" => Ok(all.to_vec()),
        [word] if word == "none" => Ok(Vec::new()),
        names => names
            .iter()
            .map(|name| {
                all.iter().find(|tensor| tensor.name == *name).cloned().ok_or_else(|| {
                    let known: Vec<&str> = all.iter().map(|tensor| tensor.name.as_str()).collect();
                    StudyError::WrongQuestion(format!(
                        "--weights: there is no tensor `{name}`\n  tensors: {}",
                        known.join(", ")
                    ))
                })
            })
            .collect(),
    }
}

/// The inverse temperatures of some chains, separated by commas.
pub fn betas(chains: &[&ChainFindings]) -> String {
    let mut betas: Vec<String> = chains.iter().map(|chain| significant(chain.beta, 3)).collect();
    betas.dedup();
    betas.join(", ")
}
