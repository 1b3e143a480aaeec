//! Configurational temperature: what the positions say the temperature is, ⟨θ, ∇U⟩ / d.
//!
//! Integration by parts under exp(−U/T) gives E⟨θ, ∇U⟩ = d·T, with no momentum in it, so this sees heating by gradient
//! noise and a wrong noise scale that the momenta hide. U is the untempered energy, prior included.

use thiserror::Error;

/// Positions and gradients that do not belong together.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum ConfigurationalError {
    /// Arrays of different lengths.
    #[error("{positions} positions but {gradients} gradients")]
    DifferentLengths {
        /// Length of θ.
        positions: usize,
        /// Length of ∇U.
        gradients: usize,
    },
    /// Nothing to average.
    #[error("a configurational temperature needs at least one parameter, tensor {tensor} has none")]
    NoParameters {
        /// The first empty tensor; 0 when there is nothing at all.
        tensor: usize,
    },
    /// Tensor sizes that do not add up to the parameters.
    #[error("the tensors hold {expected} parameters, {found} were given")]
    WrongLayout {
        /// How many were given.
        found: usize,
        /// The sum of the tensor sizes.
        expected: usize,
    },
}

/// ⟨θ, ∇U⟩ / d, summed in f64: its average over the chain is the temperature T when exp(−U/T) is sampled.
///
/// ```
/// let temperature = kelvin::diagnostics::configurational_temperature(&[1.0_f32, -2.0], &[0.5_f32, -1.0])?;
/// assert_eq!(temperature, 1.25);
/// # Ok::<(), kelvin::diagnostics::ConfigurationalError>(())
/// ```
///
/// # Errors
/// When the lengths differ or are 0.
pub fn configurational_temperature<F: Copy + Into<f64>>(
    positions: &[F],
    gradients: &[F],
) -> Result<f64, ConfigurationalError> {
    if positions.len() != gradients.len() {
        let (positions, gradients) = (positions.len(), gradients.len());
        return Err(ConfigurationalError::DifferentLengths { positions, gradients });
    }
    if positions.is_empty() {
        return Err(ConfigurationalError::NoParameters { tensor: 0 });
    }
    let product: f64 = positions.iter().zip(gradients).map(|(&theta, &gradient)| theta.into() * gradient.into()).sum();
    Ok(product / positions.len() as f64)
}

/// [`configurational_temperature`] of each tensor of a flat layout, in order.
///
/// # Errors
/// When the lengths differ, do not match the tensor sizes, or a tensor is empty.
pub fn configurational_temperatures<F: Copy + Into<f64>>(
    positions: &[F],
    gradients: &[F],
    tensor_sizes: &[usize],
) -> Result<Vec<f64>, ConfigurationalError> {
    let expected = tensor_sizes.iter().sum();
    if positions.len() != gradients.len() {
        let (positions, gradients) = (positions.len(), gradients.len());
        return Err(ConfigurationalError::DifferentLengths { positions, gradients });
    }
    if positions.len() != expected {
        return Err(ConfigurationalError::WrongLayout { found: positions.len(), expected });
    }
    if let Some(tensor) = tensor_sizes.iter().position(|&size| size == 0) {
        return Err(ConfigurationalError::NoParameters { tensor });
    }
    let mut start = 0;
    tensor_sizes
        .iter()
        .map(|&size| {
            let tensor = start..start + size;
            start += size;
            configurational_temperature(&positions[tensor.clone()], &gradients[tensor])
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quadratic_bowl_reads_its_second_moment() {
        // U = kθ²/2 with k = 4: ⟨θ, kθ⟩ / d = 4 · mean θ².
        let positions = [0.5, -0.5, 1.0];
        let gradients = positions.map(|theta| 4.0 * theta);
        assert_eq!(configurational_temperature(&positions, &gradients), Ok(2.0));
        assert_eq!(configurational_temperatures(&positions, &gradients, &[2, 1]), Ok(vec![1.0, 4.0]));
    }

    #[test]
    fn refuses_what_does_not_belong_together() {
        assert!(configurational_temperature(&[1.0], &[1.0, 2.0]).is_err());
        assert!(configurational_temperature::<f64>(&[], &[]).is_err());
        let expected = Err(ConfigurationalError::WrongLayout { found: 2, expected: 3 });
        assert_eq!(configurational_temperatures(&[1.0, 2.0], &[1.0, 2.0], &[3]), expected);
        let expected = Err(ConfigurationalError::NoParameters { tensor: 1 });
        assert_eq!(configurational_temperatures(&[1.0], &[1.0], &[1, 0]), expected);
    }

    #[test]
    fn a_broken_gradient_shows() {
        assert!(configurational_temperature(&[1.0, 1.0], &[f64::NAN, 1.0]).unwrap().is_nan());
    }
}
