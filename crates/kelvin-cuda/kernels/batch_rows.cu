// The rows of each chain's next batch and what augmentation makes of them, one thread an image.
//
// Rows are those of a keyed order of the epoch, placements packed as flip·256 + top·16 + left. Writes 8 bytes an image.
// Specification: sampler/batches.rs (rows), random/permutation.rs, data/augment.rs, sampler/mass.rs.

#include "augment.cuh"
#include "chain.cuh"

struct BatchRowsArguments {
    const ChainCell* cells;
    // [chain][image] each.
    u32* rows;
    u32* placements;
    u64 seed;
    // 0 where every batch is all rows in their own order.
    u64 steps_per_epoch;
    // Below it an image is augmented; 0 where none is.
    u64 augmentation_threshold;
    // Whole epochs of names that an estimate of masses takes; 0 for a step.
    u64 mass_epochs;
    u32 num_examples;
    u32 batch_size;
    // Images of the batch that earlier passes took, and those of this pass.
    u32 first;
    u32 num_images;
};

extern "C" __global__ void batch_rows(const BatchRowsArguments arguments) {
    u32 chain = blockIdx.y, image = blockIdx.x * blockDim.x + threadIdx.x;
    if (image >= arguments.num_images) return;
    const ChainCell& cell = arguments.cells[chain];
    u32 position = arguments.first + image, row = position;
    Placement placement = plain_placement();
    u64 step = cell.step, steps = arguments.steps_per_epoch;
    if (steps != 0) {
        bool masses = arguments.mass_epochs != 0;
        if (masses) step = step / steps * arguments.mass_epochs * steps + cell.mass_batch;
        NoiseKey order = {arguments.seed, masses ? PRECONDITIONER : BATCH_ORDER, cell.id, step / steps};
        Permutation permutation = permutation_of(order, arguments.num_examples);
        row = permutation_at(permutation, (u32)(step % steps) * arguments.batch_size + position);
        NoiseKey key = {arguments.seed, masses ? PRECONDITIONER_AUGMENTATION : AUGMENTATION, cell.id, step};
        placement = placement_at(key, position, arguments.augmentation_threshold);
    }
    u64 to = (u64)chain * arguments.num_images + image;
    arguments.rows[to] = row;
    arguments.placements[to] = placement.flip << 8 | placement.top << 4 | placement.left;
}
