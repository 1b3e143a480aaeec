//! The structures of `table_chain.cu`, field by field.

use bytemuck::{Pod, Zeroable};

use crate::gpu::device::Address;

/// Tensors that the structures have room for.
pub(super) const MOST_TENSORS: usize = 8;

/// Numbers of a step, the same for all chains; each has its own factors of them.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
pub(super) struct StepNumbers {
    pub drift: f64,
    pub noise_std: f64,
    pub kick: f64,
    pub keep: f64,
}

/// What a chain brings along.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub(super) struct TableChain {
    pub noise_factor: [f64; MOST_TENSORS],
    pub drift_factor: [f64; MOST_TENSORS],
    pub kick_factor: f64,
    pub keep_factor: f64,
    pub likelihood_weight: f64,
    pub log_beta: f64,
    pub log_beta_velocity: f64,
    pub id: u32,
    pub slot: u32,
}

/// What a launch says of a chain.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub(super) struct TableResult {
    pub squares: [f64; MOST_TENSORS],
    pub log_beta: f64,
    pub log_beta_velocity: f64,
    pub steps_done: u32,
    pub failed: u32,
}

/// The kernel's arguments.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub(super) struct TableChainArguments {
    pub rows: Address,
    pub steps: Address,
    pub chains: Address,
    pub results: Address,
    pub positions: Address,
    pub momenta: Address,
    pub squares: Address,
    pub noise: Address,
    pub sums: Address,
    pub clip_norm: f64,
    pub noise_variance: f64,
    pub momentum: f64,
    pub weight_decay: f64,
    pub seed: u64,
    pub first_step: u64,
    pub burn_in: u64,
    pub prior_precision: f32,
    pub num_steps: u32,
    pub num_rows: u32,
    pub batch_rows: u32,
    pub steps_per_epoch: u32,
    pub is_full: u32,
    pub clips_log_beta: u32,
    pub order_purpose: u32,
}
