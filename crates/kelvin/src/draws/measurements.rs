//! What is measured at a draw.

/// What is measured at a draw.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measurements {
    /// U(θ).
    pub potential_energy: f64,
    /// ⟨θ, ∇E⟩/d.
    pub configurational_temperature: f64,
    /// Σ m²/M / d; none for samplers without momentum.
    pub kinetic_temperature: Option<f64>,
}
