//! Activations on rows of numbers, forward and backward.
//!
//! ```text
//! relu   y = max(x, 0)                              y' = 1 where y > 0, else 0
//! tanh   y = tanh x                                 y' = 1 − y²
//! gelu   y = x·Φ(x)      Φ: the normal distribution  y' = Φ(x) + x·φ(x)
//! silu   y = x·σ(x)      σ(x) = 1/(1 + e^{−x})       y' = σ(x)·(1 + x·(1 − σ(x)))
//! ```
//! The slope of the first two is told by what they wrote, that of the others by what they read: they are not monotone.

use pulp::Simd;

use super::kernels::Number;
use super::layers::Activation;

impl Activation {
    /// Whether its slope is a function of what it read, and not of what it wrote.
    pub(super) fn reads_again(self) -> bool {
        matches!(self, Self::Gelu | Self::Silu)
    }
}

/// values = activation(values); a ReLU gives 0 for what is not a number.
#[inline(always)]
pub(super) fn activate<S: Simd, T: Number>(_: S, by: Activation, values: &mut [T]) {
    let zero = T::default();
    match by {
        Activation::Relu => values.iter_mut().for_each(|x| *x = if *x > zero { *x } else { zero }),
        Activation::Tanh => values.iter_mut().for_each(|x| *x = x.tanh::<S>()),
        Activation::Gelu => values.iter_mut().for_each(|x| *x = *x * x.normal::<S>().0),
        Activation::Silu => values.iter_mut().for_each(|x| *x = *x * x.logistic::<S>()),
    }
}

/// gradients = gradients · slopes. `known` is what the activation read where it [`reads_again`](Activation::reads_again), else what it wrote.
#[inline(always)]
pub(super) fn times_slope<S: Simd, T: Number>(_: S, by: Activation, known: &[T], gradients: &mut [T]) {
    let (zero, one) = (T::default(), T::from_f64(1.0));
    let pairs = gradients.iter_mut().zip(known);
    match by {
        Activation::Relu => pairs.for_each(|(g, &y)| *g = if y > zero { *g } else { zero }),
        Activation::Tanh => pairs.for_each(|(g, &y)| *g = *g - *g * (y * y)),
        Activation::Gelu => pairs.for_each(|(g, &x)| {
            let (below, density) = x.normal::<S>();
            *g = *g * (below + x * density);
        }),
        Activation::Silu => pairs.for_each(|(g, &x)| {
            let share = x.logistic::<S>();
            *g = *g * (share * (one + x * (one - share)));
        }),
    }
}
