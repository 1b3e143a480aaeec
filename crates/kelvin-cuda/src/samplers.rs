//! The samplers that kernels exist for; the CPU may know more.

use kelvin::sampler::{Integrator, Motion};

/// Those of any network, each at the number that `langevin.cu` has for it.
pub(crate) const OF_ANY_NETWORK: &[Integrator] = &[Integrator::Sghmc, Integrator::Baoa, Integrator::Sgld];
/// Those of tables, which `table_chain.cu` moves.
pub(crate) const OF_TABLES: &[Integrator] = &[Integrator::Sghmc, Integrator::Baoa, Integrator::Sgld, Integrator::Baoab];

/// Where a sampler lies in a list.
///
/// # Panics
/// If it is not there: [`check_tables`] and [`check_any_network`] refuse it before anything is asked of a device.
pub(crate) fn number_in(samplers: &[Integrator], integrator: Integrator) -> usize {
    let number = samplers.iter().position(|&known| known == integrator);
    number.unwrap_or_else(|| panic!("no kernel moves chains by {integrator}"))
}

/// Whether the kernels of tables can move chains so.
///
/// # Errors
/// What was asked for, what there is, and what to do.
pub(crate) fn check_tables(motion: Motion<'_>) -> Result<(), String> {
    match motion {
        Motion::Sample(rule) if rule.warm_up.is_some() && rule.integrator != Integrator::Baoab => Err(format!(
            "its kernels find step size and masses of each chain (sampler.adapt) for baoab alone, not for {}: set \
             sampler.integrator = \"baoab\", turn sampler.adapt off, or sample on the CPU (--device cpu)",
            rule.integrator
        )),
        Motion::Sample(rule) => check_integrator(rule.integrator, OF_TABLES, "its kernels"),
        Motion::Search(_) => Ok(()),
    }
}

/// Whether the kernels of any network can move chains so.
///
/// # Errors
/// What was asked for, what there is, and what to do.
pub(crate) fn check_any_network(motion: Motion<'_>) -> Result<(), String> {
    match motion {
        Motion::Sample(rule) if rule.warm_up.is_some() => Err(
            "its kernels find step size and masses of each chain (sampler.adapt) for tables and small networks of up to three \
             hidden layers of ReLUs alone: turn that off, or sample on the CPU (--device cpu)"
                .into(),
        ),
        Motion::Sample(rule) => check_integrator(rule.integrator, OF_ANY_NETWORK, "its kernels for this network"),
        Motion::Search(_) => Ok(()),
    }
}

fn check_integrator(asked: Integrator, known: &[Integrator], whose: &str) -> Result<(), String> {
    if known.contains(&asked) {
        return Ok(());
    }
    let known = known.iter().map(Integrator::to_string).collect::<Vec<_>>().join(", ");
    Err(format!(
        "the sampler {asked} (sampler.integrator) is none that {whose} have: they have {known}; take one of those, or sample \
         on the CPU (--device cpu)"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use kelvin::sampler::{Langevin, WarmUp};

    #[test]
    fn chains_adapt_on_tables_by_baoab_and_are_refused_elsewhere_with_what_to_do() {
        let warm_up = Some(WarmUp { num_steps: 10, friction: None });
        let adaptive = |integrator| Langevin { warm_up, ..Langevin::new(integrator, 0.1, 0.9) };
        assert_eq!(check_tables(Motion::Sample(&adaptive(Integrator::Baoab))), Ok(()));
        for said in [
            check_tables(Motion::Sample(&adaptive(Integrator::Baoa))).unwrap_err(),
            check_any_network(Motion::Sample(&adaptive(Integrator::Baoab))).unwrap_err(),
        ] {
            assert!(said.contains("sampler.adapt") && said.contains("--device cpu"), "{said}");
        }
    }

    #[test]
    fn what_has_no_kernel_is_refused_with_what_to_do() {
        for &integrator in Integrator::ALL {
            let rule = Langevin::new(integrator, 0.1, 0.9);
            let motion = Motion::Sample(&rule);
            for (checked, known, listed) in [
                (check_tables(motion), OF_TABLES, "sghmc, baoa, sgld, baoab"),
                (check_any_network(motion), OF_ANY_NETWORK, "sghmc, baoa, sgld"),
            ] {
                match checked {
                    Ok(()) => assert_eq!(known[number_in(known, integrator)], integrator),
                    Err(said) => {
                        for phrase in [&format!("the sampler {integrator}"), listed, "--device cpu"] {
                            assert!(said.contains(phrase), "no `{phrase}` in {said}");
                        }
                    }
                }
            }
        }
    }
}
