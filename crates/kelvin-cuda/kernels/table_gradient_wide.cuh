// Σ_rows ∂ log p(y|x,θ)/∂θ of networks too large for registers: chunks of rows, each as small matrix products.
//
//   Z = X W + c,  H = max(Z, 0),  O = H V + b,  E = ∂ log p/∂O,  G = [Z > 0] E Vᵀ
//   ∂W += Xᵀ G,  ∂c += Σ G,  ∂V += Hᵀ E,  ∂b += Σ E
//
// Weights, sums and the chunk lie in shared memory. Each number of a product belongs to one thread, so all sums run in
// a fixed order. Products of inputs and units take 16 multiply-adds for two loads of 16 bytes.

// z of four rows for one unit at a time; neighbouring threads have neighbouring units.
DEVICE void chunk_hidden(const float* origin, const Places& at) {
    Chunk& chunk = *at.chunk;
    for (int item = threadIdx.x; item < CHUNK / 4 * HIDDEN; item += THREADS) {
        const int k = item % HIDDEN, r = item / HIDDEN * 4;
        float z[4];
#pragma unroll
        for (int q = 0; q < 4; ++q) z[q] = at.weights[INPUTS * PADDED_HIDDEN + k];
        for (int j = 0; j < INPUTS; ++j) {
            const float weight = at.weights[j * PADDED_HIDDEN + k];
#pragma unroll
            for (int q = 0; q < 4; ++q) z[q] = fmaf(origin[chunk.places[r + q] + j], weight, z[q]);
        }
#pragma unroll
        for (int q = 0; q < 4; ++q) chunk.hidden[r + q][k] = fmaxf(z[q], 0.0f);
    }
}

// Eight lanes share an output.
DEVICE void chunk_outputs(const Places& at) {
    Chunk& chunk = *at.chunk;
    const int part = threadIdx.x % 8;
    for (int item = threadIdx.x / 8; item < CHUNK * OUTPUTS; item += THREADS / 8) {
        const int r = item / OUTPUTS, c = item % OUTPUTS;
        const float* weights = at.weights + (INPUTS + 1 + c) * PADDED_HIDDEN;
        float sum = 0.0f;
        for (int k = part; k < HIDDEN; k += 8) sum = fmaf(chunk.hidden[r][k], weights[k], sum);
#pragma unroll
        for (int distance = 4; distance > 0; distance /= 2) sum += __shfl_xor_sync(ALL_LANES, sum, distance);
        if (part == 0) chunk.outputs[r][c] = sum + at.weights[AT_OUTPUT_BIAS + c];
    }
}

// The gradient of each row's outputs; zero beyond the last row. Returns the thread's share of ∂/∂ log β.
DEVICE double chunk_differentiate(const TableChainArguments& arguments, const float* origin, u32 first,
                                  const Temper& temper, const Places& at) {
    Chunk& chunk = *at.chunk;
    const int r = threadIdx.x;
    if (r >= CHUNK) return 0.0;
    float outputs[OUTPUTS];
    for (int c = 0; c < OUTPUTS; ++c) outputs[c] = chunk.outputs[r][c];
    const double part = differentiate(outputs, origin[chunk.places[r] + INPUTS], temper);
    const bool valid = first + r < arguments.batch_rows;
    for (int c = 0; c < OUTPUTS; ++c) chunk.outputs[r][c] = valid ? outputs[c] : 0.0f;
    return valid ? part : 0.0;
}

// The gradient of z.
DEVICE void chunk_backward(const Places& at) {
    Chunk& chunk = *at.chunk;
    for (int item = threadIdx.x; item < CHUNK * PADDED_HIDDEN; item += THREADS) {
        const int r = item / PADDED_HIDDEN, k = item % PADDED_HIDDEN;
        float sum = 0.0f;
        for (int c = 0; c < OUTPUTS; ++c) {
            sum = fmaf(chunk.outputs[r][c], at.weights[(INPUTS + 1 + c) * PADDED_HIDDEN + k], sum);
        }
        chunk.gradient[r][k] = k < HIDDEN && chunk.hidden[r][k] > 0.0f ? sum : 0.0f;
    }
}

// Adds the chunk's share to the sums, four inputs and four units at a time.
DEVICE void chunk_sums(const float* origin, const Places& at) {
    const Chunk& chunk = *at.chunk;
    constexpr int tiles_across = PADDED_HIDDEN / 4, tiles = (INPUTS + 3) / 4 * tiles_across;
    for (int tile = threadIdx.x; tile < tiles; tile += THREADS) {
        const int j = tile / tiles_across * 4, k = tile % tiles_across * 4;
        float sums[4][4] = {};
        for (int r = 0; r < CHUNK; ++r) {
            // What lies behind the inputs are the target and zeros: their sums are not kept.
            const float4 x = *(const float4*)(origin + chunk.places[r] + j);
            const float4 g = *(const float4*)&chunk.gradient[r][k];
            const float xs[4] = {x.x, x.y, x.z, x.w}, gs[4] = {g.x, g.y, g.z, g.w};
#pragma unroll
            for (int a = 0; a < 4; ++a) {
#pragma unroll
                for (int b = 0; b < 4; ++b) sums[a][b] = fmaf(xs[a], gs[b], sums[a][b]);
            }
        }
#pragma unroll
        for (int a = 0; a < 4; ++a) {
            if (j + a < INPUTS) {
#pragma unroll
                for (int b = 0; b < 4; ++b) at.sums[(j + a) * PADDED_HIDDEN + k + b] += sums[a][b];
            }
        }
    }
    for (int item = threadIdx.x; item < (1 + OUTPUTS) * HIDDEN; item += THREADS) {
        const int k = item % HIDDEN, c = item / HIDDEN - 1;
        float sum = 0.0f;
        for (int r = 0; r < CHUNK; ++r) {
            sum += c < 0 ? chunk.gradient[r][k] : chunk.hidden[r][k] * chunk.outputs[r][c];
        }
        at.sums[(INPUTS + 1 + c) * PADDED_HIDDEN + k] += sum;
    }
    for (int c = threadIdx.x; c < OUTPUTS; c += THREADS) {
        float sum = 0.0f;
        for (int r = 0; r < CHUNK; ++r) sum += chunk.outputs[r][c];
        at.sums[AT_OUTPUT_BIAS + c] += sum;
    }
}

// Writes the sums over all rows of the step; a barrier must follow.
DEVICE void add_gradient(const TableChainArguments& arguments, const RowsOfSteps& rows, Temper& temper,
                         const Places& at) {
    const float* origin = RowsOfSteps::origin(arguments, at);
    temper.read(at);
    double log_beta_gradient = 0.0;
    for (int i = threadIdx.x; i < PADDED_PARAMETERS; i += THREADS) at.sums[i] = 0.0f;
    for (u32 first = 0; first < rows.padded_rows; first += CHUNK) {
        if (threadIdx.x < CHUNK) at.chunk->places[threadIdx.x] = rows.place(arguments, at, first + threadIdx.x);
        __syncthreads();
        chunk_hidden(origin, at);
        __syncthreads();
        chunk_outputs(at);
        __syncthreads();
        log_beta_gradient += chunk_differentiate(arguments, origin, first, temper, at);
        __syncthreads();
        chunk_backward(at);
        __syncthreads();
        chunk_sums(origin, at);
        __syncthreads();
    }
    if (RULE == JOINT_ASCENT) {
        log_beta_gradient = warp_sum_of_doubles(log_beta_gradient);
        if (threadIdx.x % 32 == 0) at.scalars->log_beta_gradients[threadIdx.x / 32] = log_beta_gradient;
    }
}
