//! The samplers that kernels exist for; the CPU may know more.

use kelvin::sampler::{Integrator, Motion};

/// Each at the number that `langevin.cu` and `table_chain.cu` have for it.
pub(crate) const SAMPLERS: [Integrator; 3] = [Integrator::Sghmc, Integrator::Baoa, Integrator::Sgld];

/// The kernels' number for a sampler.
///
/// # Panics
/// If it has none: [`check`] refuses it before anything is asked of a device.
pub(crate) fn kernel_number(integrator: Integrator) -> i64 {
    let number = SAMPLERS.iter().position(|&known| known == integrator);
    number.unwrap_or_else(|| panic!("no kernel moves chains by {integrator}")) as i64
}

/// Whether kernels can move chains so.
///
/// # Errors
/// What was asked for, what there is, and what to do.
pub(crate) fn check(motion: Motion<'_>) -> Result<(), String> {
    match motion {
        Motion::Sample(rule) if rule.warm_up.is_some() => Err(
            "its kernels do not find step size and masses of each chain (sampler.adapt): turn that off, or sample on the CPU \
             (--device cpu)"
                .into(),
        ),
        Motion::Sample(rule) if !SAMPLERS.contains(&rule.integrator) => {
            let known = SAMPLERS.map(|integrator| integrator.to_string()).join(", ");
            Err(format!(
                "the sampler {} (sampler.integrator) is none that its kernels have: they have {known}; take one of \
                 those, or sample on the CPU (--device cpu)",
                rule.integrator
            ))
        }
        Motion::Sample(_) | Motion::Search(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kelvin::sampler::{Langevin, WarmUp};

    #[test]
    fn chains_that_adapt_are_refused_with_what_to_do() {
        let warm_up = Some(WarmUp { num_steps: 10, friction: None });
        let rule = Langevin { warm_up, ..Langevin::new(Integrator::Baoa, 0.1, 0.9) };
        let said = check(Motion::Sample(&rule)).unwrap_err();
        assert!(said.contains("sampler.adapt") && said.contains("--device cpu"), "{said}");
    }

    #[test]
    fn what_has_no_kernel_is_refused_with_what_to_do() {
        for &integrator in Integrator::ALL {
            let rule = Langevin::new(integrator, 0.1, 0.9);
            match check(Motion::Sample(&rule)) {
                Ok(()) => assert_eq!(SAMPLERS[kernel_number(integrator) as usize], integrator),
                Err(said) => {
                    for phrase in [&format!("the sampler {integrator}"), "sghmc, baoa, sgld", "--device cpu"] {
                        assert!(said.contains(phrase), "no `{phrase}` in {said}");
                    }
                }
            }
        }
    }
}
