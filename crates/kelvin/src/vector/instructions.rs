//! Which vector instructions the hot loops run with: the widest this processor has, or those that `KELVIN_VECTOR` names.
//!
//! All but [`Instructions::Scalar`] have fused multiply-adds and give the same bits: sums run in sixteen lanes whatever
//! the width of a vector. Scalar code rounds twice in a multiply-add, since one rounding would be a library call for each
//! number; it is right, but slow, and its last bits are its own.

use std::fmt;
use std::sync::atomic::{AtomicU8, Ordering};

use pulp::{Simd, WithSimd};
use thiserror::Error;

/// The environment variable that names the instructions to use.
pub const ENVIRONMENT_VARIABLE: &str = "KELVIN_VECTOR";

/// A set of vector instructions that hot loops are compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Instructions {
    /// Sixteen numbers at a time (x86-64-v4).
    Avx512 = 1,
    /// Eight numbers at a time, with fused multiply-adds (x86-64-v3).
    Avx2,
    /// Four numbers at a time (aarch64).
    Neon,
    /// One number at a time.
    Scalar,
}

/// Why instructions cannot be used.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum InstructionsError {
    /// The name belongs to no set of instructions.
    #[error("{ENVIRONMENT_VARIABLE}={found} names no vector instructions\n  this processor has: {available}")]
    Unknown {
        /// The name that was given.
        found: String,
        /// What the processor has.
        available: String,
    },
    /// The processor lacks these instructions.
    #[error(
        "{ENVIRONMENT_VARIABLE}={asked} asks for vector instructions that this processor does not have\n  this processor has: {available}"
    )]
    Missing {
        /// What was asked for.
        asked: Instructions,
        /// What the processor has.
        available: String,
    },
}

/// The instructions in use, or 0 before the first use.
static IN_USE: AtomicU8 = AtomicU8::new(0);

impl Instructions {
    const ALL: [Self; 4] = [Self::Avx512, Self::Avx2, Self::Neon, Self::Scalar];

    /// The name that `KELVIN_VECTOR`, provenance and benchmarks use.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Avx512 => "avx512",
            Self::Avx2 => "avx2",
            Self::Neon => "neon",
            Self::Scalar => "scalar",
        }
    }

    /// Those with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|instructions| instructions.name() == name)
    }

    /// Numbers in a vector.
    pub const fn lanes(self) -> usize {
        match self {
            Self::Avx512 => 16,
            Self::Avx2 => 8,
            Self::Neon => 4,
            Self::Scalar => 1,
        }
    }

    /// Whether a multiply-add rounds once. All that do give the same bits.
    pub const fn has_fused_multiply_add(self) -> bool {
        !matches!(self, Self::Scalar)
    }

    /// Whether this processor has them.
    pub fn is_available(self) -> bool {
        #[cfg(target_arch = "x86_64")]
        match self {
            Self::Avx512 => return pulp::x86::V4::try_new().is_some(),
            Self::Avx2 => return pulp::x86::V3::try_new().is_some(),
            Self::Neon | Self::Scalar => {}
        }
        #[cfg(target_arch = "aarch64")]
        if self == Self::Neon {
            return pulp::aarch64::Neon::try_new().is_some();
        }
        self == Self::Scalar
    }

    /// All that this processor has, widest first.
    pub fn available() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(|instructions| instructions.is_available())
    }

    /// The widest that this processor has.
    pub fn widest() -> Self {
        Self::available().next().unwrap_or(Self::Scalar)
    }

    /// Those that hot loops run with.
    ///
    /// # Panics
    /// If `KELVIN_VECTOR` names some that this processor does not have. Programs ask [`Instructions::check_environment`] first.
    #[inline]
    pub fn in_use() -> Self {
        match IN_USE.load(Ordering::Relaxed) {
            1 => Self::Avx512,
            2 => Self::Avx2,
            3 => Self::Neon,
            4 => Self::Scalar,
            _ => Self::first_use(),
        }
    }

    #[cold]
    fn first_use() -> Self {
        let instructions = Self::check_environment().unwrap_or_else(|error| panic!("{error}"));
        IN_USE.store(instructions as u8, Ordering::Relaxed);
        instructions
    }

    /// What the environment asks for: the widest, unless `KELVIN_VECTOR` names others.
    pub fn check_environment() -> Result<Self, InstructionsError> {
        match std::env::var_os(ENVIRONMENT_VARIABLE) {
            None => Ok(Self::widest()),
            Some(name) if name.is_empty() => Ok(Self::widest()),
            Some(name) => Self::asked(&name.to_string_lossy()),
        }
    }

    fn asked(name: &str) -> Result<Self, InstructionsError> {
        match Self::from_name(name) {
            None => Err(InstructionsError::Unknown { found: name.into(), available: Self::available_names() }),
            Some(asked) => asked.checked(),
        }
    }

    fn checked(self) -> Result<Self, InstructionsError> {
        if self.is_available() {
            Ok(self)
        } else {
            Err(InstructionsError::Missing { asked: self, available: Self::available_names() })
        }
    }

    fn available_names() -> String {
        Self::available().map(Self::name).collect::<Vec<_>>().join(", ")
    }

    /// Lets all hot loops of this process run with these from now on; workspaces made before go on with them.
    pub fn use_from_now_on(self) -> Result<(), InstructionsError> {
        IN_USE.store(self.checked()? as u8, Ordering::Relaxed);
        Ok(())
    }
}

impl fmt::Display for Instructions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// Runs a job inside a function compiled for the instructions in use: the way that hot loops start.
#[inline]
pub(crate) fn dispatch<J: WithSimd>(job: J) -> J::Output {
    match Vectors::in_use() {
        Some(vectors) => vectors.run(job),
        None => Simd::vectorize(pulp::Scalar, job),
    }
}

/// The same for jobs that are made of vectors, which nobody starts where there are none: they need not be compiled for that.
///
/// # Panics
/// If scalar instructions are in use.
#[inline]
pub(crate) fn dispatch_vectors<J: WithSimd>(job: J) -> J::Output {
    Vectors::in_use().expect("a job that is made of vectors is started where there are vectors").run(job)
}

/// Proof that the processor has the instructions in use.
enum Vectors {
    #[cfg(target_arch = "x86_64")]
    Avx512(pulp::x86::V4),
    #[cfg(target_arch = "x86_64")]
    Avx2(pulp::x86::V3),
    #[cfg(target_arch = "aarch64")]
    Neon(pulp::aarch64::Neon),
}

impl Vectors {
    #[inline]
    fn in_use() -> Option<Self> {
        match Instructions::in_use() {
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx512 => pulp::x86::V4::try_new().map(Self::Avx512),
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx2 => pulp::x86::V3::try_new().map(Self::Avx2),
            #[cfg(target_arch = "aarch64")]
            Instructions::Neon => pulp::aarch64::Neon::try_new().map(Self::Neon),
            _ => None,
        }
    }

    #[inline]
    fn run<J: WithSimd>(self, job: J) -> J::Output {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512(simd) => Simd::vectorize(simd, job),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(simd) => Simd::vectorize(simd, job),
            #[cfg(target_arch = "aarch64")]
            Self::Neon(simd) => Simd::vectorize(simd, job),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for instructions in Instructions::ALL {
            assert_eq!(Instructions::from_name(instructions.name()), Some(instructions));
        }
        assert_eq!(Instructions::from_name("AVX2"), None);
    }

    #[test]
    fn unknown_and_missing_instructions_are_refused_with_what_there_is() {
        let error = Instructions::asked("avx1024").unwrap_err().to_string();
        assert!(error.contains("KELVIN_VECTOR=avx1024") && error.contains("this processor has: "), "{error}");
        let missing = if cfg!(target_arch = "x86_64") { Instructions::Neon } else { Instructions::Avx2 };
        let error = missing.use_from_now_on().unwrap_err().to_string();
        assert!(error.contains(missing.name()) && error.contains("scalar"), "{error}");
    }

    /// The width that jobs see.
    struct Lanes;

    impl WithSimd for Lanes {
        type Output = usize;

        #[inline(always)]
        fn with_simd<S: Simd>(self, _: S) -> usize {
            S::F32_LANES
        }
    }

    #[test]
    fn jobs_run_with_the_instructions_in_use() {
        assert_eq!(dispatch(Lanes), Instructions::in_use().lanes());
        assert_eq!(Instructions::in_use(), Instructions::check_environment().unwrap());
    }

    /// Speed must not rot in silence: where there is AVX2 with fused multiply-adds, or NEON, nothing runs one by one.
    #[test]
    fn processors_with_vectors_use_them() {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma") {
            assert!(Instructions::widest().lanes() >= 8, "{}", Instructions::widest());
        }
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx512f") && std::arch::is_x86_feature_detected!("avx512vl") {
            assert_eq!(Instructions::widest(), Instructions::Avx512);
        }
        #[cfg(target_arch = "aarch64")]
        assert_eq!(Instructions::widest(), Instructions::Neon);
    }
}
