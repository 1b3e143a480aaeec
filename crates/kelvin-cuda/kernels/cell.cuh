// What the device knows of a chain beside its numbers.

#include "gpu.cuh"

struct ChainCell {
    // What the sum of gradients is multiplied by: −w for an energy, 1 for an ascent.
    double gradient_scale;
    // w: what the log-likelihood of a batch counts for.
    double likelihood_weight;
    // The power that the likelihood is raised to is its exponential, which kernels take: a host's may differ in the last bit.
    double log_power;
    double log_beta;
    double log_beta_velocity;
    // The norm that was compared with the limit at the last step.
    double norm;
    u64 step;
    // Readings of the kinetic temperature among the sums.
    u64 num_readings;
    u32 id;
    // 0 while it moves, 1 if it was stopped, 2 if it left the finite numbers.
    u32 stopped;
    // The next row of its table of step numbers.
    u32 row;
    // The next batch of an estimate of masses.
    u32 mass_batch;
};
