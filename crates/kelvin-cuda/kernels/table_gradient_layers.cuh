// Σ_rows ∂ log p(y|x,θ)/∂θ of networks of several hidden layers: chunks of rows, their products on tensor cores, as exact as f32.
//
//   H_l = max(H_{l−1} W_l + c_l, 0),  O = H V + b,  E = ∂ log p/∂O,  G = [H > 0] E Vᵀ,  G_{l−1} = [H_{l−1} > 0] G_l W_lᵀ
//   ∂W_l += H_{l−1}ᵀ G_l,  ∂c_l += Σ G_l,  ∂V += Hᵀ E,  ∂b += Σ E
//
// Weights and the chunk's values lie in shared memory, sums stay in registers until all chunks are done; then they go to global
// memory, a part from each share. G_l takes the place of H_l. An f32 number is the sum of two TF32 numbers but for its last two
// bits: three products for one (see product_tf32.cu). Tensor cores cut off what does not fit their sums, so that these are added
// to others, rounded to nearest, at least every 64 terms. The few outputs are computed in f32.
//
// Forward and backward a warp makes 32 rows of some units, in tiles of 16 × 8; of ∂W_l it makes some tiles of all its numbers.
// A share's last chunk has fewer rows: `num_rows`, a multiple of eight, of which those beyond the share have no gradient.
// Lane i has number c = i / 4 of eight rows or units, and q = i % 4 along the sum.

static_assert(CHUNK % 32 == 0 && WARPS % (CHUNK / 32) == 0, "each warp takes 32 rows");

#define ROW_WARPS (CHUNK / 32)
#define UNIT_WARPS (WARPS / ROW_WARPS)

constexpr int over(int count, int of) { return (count + of - 1) / of; }
constexpr int least(int a, int b) { return a < b ? a : b; }

// Threads that share out the units of a layer, and how many such there are.
constexpr int unit_threads(int l) { return width(l) <= 32 ? 32 : width(l) <= 64 ? 64 : width(l) <= 128 ? 128 : 256; }
constexpr int unit_parts(int l) { return THREADS / unit_threads(l); }

// Tiles of ∂W_l: 16 inputs by 8 units.
constexpr int tiles_down(int l) { return over(width(l - 1), 16); }
constexpr int tiles_across(int l) { return over(width(l), 8); }
constexpr int own_tiles(int l, int warps_down) {
    return over(tiles_down(l), warps_down) * over(tiles_across(l), WARPS / warps_down);
}
// Warps down them, such that none has more tiles than it must.
constexpr int warps_down(int l) {
    int best = 1;
    for (int down = 2; down <= WARPS; down *= 2) best = own_tiles(l, down) < own_tiles(l, best) ? down : best;
    return best;
}

// What a thread sums over all chunks for layers 1 to l, the last layer not among them.
template <int l>
struct LayerSums : LayerSums<l - 1> {
    static constexpr int DOWN = over(tiles_down(l), warps_down(l));
    static constexpr int ACROSS = over(tiles_across(l), WARPS / warps_down(l));
    float weights[DOWN][ACROSS][4];
    float bias;
};
template <>
struct LayerSums<0> {};

struct Sums : LayerSums<LAYERS - 1> {
    float output_weights[OUTPUTS];
    float output_bias;
};

// Where the values of a hidden layer lie in a chunk, and what follows them.
constexpr int place_of_values(int l) { return l <= 1 ? 0 : place_of_values(l - 1) + CHUNK * value_stride(l - 1); }
#define AT_OUTPUTS place_of_values(LAYERS)               // then their gradients
#define AT_PARTS (AT_OUTPUTS + CHUNK * OUTPUTS)          // sums of threads, for those of biases and output weights
#define AT_STAGED (AT_PARTS + THREADS * (LAYERS - 1 + OUTPUTS))  // rows, where they are read in place

// A number as two of TF32: the nearest one, and the first bits of what is left.
DEVICE void split(float number, u32& high, u32& low) {
    high = (__float_as_uint(number) + 0x1000u) & 0xFFFFE000u;
    low = __float_as_uint(number - __uint_as_float(high)) & 0xFFFFE000u;
}

// A number of each of several tiles of the first factor, then the second: [high or low].
template <int tiles>
struct FirstFactor {
    u32 numbers[2][tiles][4];
    // Rows c and c + 8 of a tile at two places along the sum.
    DEVICE void set(int tile, float first, float first_below, float second, float second_below) {
        const float all[4] = {first, first_below, second, second_below};
#pragma unroll
        for (int i = 0; i < 4; ++i) split(all[i], numbers[0][tile][i], numbers[1][tile][i]);
    }
};
template <int tiles>
struct SecondFactor {
    u32 numbers[2][tiles][2];
    DEVICE void set(int tile, float first, float second) {
        split(first, numbers[0][tile][0], numbers[1][tile][0]);
        split(second, numbers[0][tile][1], numbers[1][tile][1]);
    }
};

// The three products, small terms first.
template <int down, int across>
DEVICE void multiply(float (&sums)[down][across][4], const FirstFactor<down>& a, const SecondFactor<across>& b) {
#pragma unroll
    for (int term = 0; term < 3; ++term) {
#pragma unroll
        for (int m = 0; m < down; ++m) {
#pragma unroll
            for (int n = 0; n < across; ++n) {
                const u32(&second)[2] = b.numbers[term == 1][n];
                multiply_add_tf32(sums[m][n], a.numbers[term == 0][m], second[0], second[1]);
            }
        }
    }
}

template <int down, int across>
DEVICE void add_sums(float (&totals)[down][across][4], const float (&sums)[down][across][4]) {
#pragma unroll
    for (int i = 0; i < down * across * 4; ++i)
        totals[i / (4 * across)][i / 4 % across][i % 4] += sums[i / (4 * across)][i / 4 % across][i % 4];
}

// A warp's part of the product of a chunk's values (from the warp's first row on) and a layer's weights, TURNED: their transpose.
// Tiles of eight units from `first_tile` on; what lies beyond the last one stays 0.
template <int l, bool TURNED, int tiles>
DEVICE void multiply_values(float (&totals)[2][tiles][4], const float* values, const float* weights, int first_tile) {
    constexpr int stride = value_stride(TURNED ? l : l - 1), across = weight_stride(l);
    constexpr int depth = eights(width(TURNED ? l : l - 1)), units = eights(width(TURNED ? l - 1 : l));
    const int lane = threadIdx.x % 32, c = lane / 4, q = lane % 4;
    // Along the sum a lane has numbers 2q and 2q + 1 of eight, or q and q + 4: whatever comes from different banks.
    const float* a = values + c * stride + (TURNED ? q : 2 * q);
    const float* b = weights + (TURNED ? (8 * first_tile + c) * across + q : 2 * q * across + 8 * first_tile + c);
#pragma unroll 1
    for (int begin = 0; begin < depth; begin += 64) {
        float sums[2][tiles][4] = {};
#pragma unroll 2
        for (int k = begin; k < least(depth, begin + 64); k += 8) {
            FirstFactor<2> first;
            SecondFactor<tiles> second;
#pragma unroll
            for (int m = 0; m < 2; ++m) {
                const float* of_tile = a + 16 * m * stride;
                if constexpr (TURNED) {
                    first.set(m, of_tile[0], of_tile[8 * stride], of_tile[4], of_tile[8 * stride + 4]);
                } else {
                    const float2 above = *(const float2*)of_tile, below = *(const float2*)(of_tile + 8 * stride);
                    first.set(m, above.x, below.x, above.y, below.y);
                }
            }
#pragma unroll
            for (int n = 0; n < tiles; ++n) {
                const bool is_one = 8 * (first_tile + n) < units;
                const float* of_tile = is_one ? b + 8 * n * (TURNED ? across : 1) : b;
                second.set(n, of_tile[0], of_tile[TURNED ? 4 : across]);
            }
            multiply(sums, first, second);
            a += 8;
            b += TURNED ? 8 : 8 * across;
        }
        add_sums(totals, sums);
    }
}

// Calls what is to be done with each pair of neighbouring numbers of a product of values and weights: place, unit, both numbers.
template <int stride, int units, int tiles, class Act>
DEVICE void for_each_pair(const float (&totals)[2][tiles][4], int first_tile, Act act) {
    const int lane = threadIdx.x % 32, c = lane / 4, q = lane % 4;
    const int first_row = threadIdx.x / 32 / UNIT_WARPS * 32 + c;
#pragma unroll
    for (int n = 0; n < tiles; ++n) {
        const int unit = 8 * (first_tile + n) + 2 * q;
        if (8 * (first_tile + n) >= units) break;
#pragma unroll
        for (int m = 0; m < 4; ++m) {
            const int i = m % 2 * 2;
            act((first_row + 8 * m) * stride + unit, unit, totals[m / 2][n][i], totals[m / 2][n][i + 1]);
        }
    }
}

// H_l from the values before it.
template <int l>
DEVICE void forward(const float* from, int num_rows, float* chunk, const Places& at) {
    constexpr int units = eights(width(l)), tiles = over(units / 8, UNIT_WARPS), stride = value_stride(l);
    const int warp = threadIdx.x / 32, first_tile = warp % UNIT_WARPS * tiles;
    if (8 * first_tile >= units || warp / UNIT_WARPS * 32 >= num_rows) return;
    float totals[2][tiles][4] = {};
    multiply_values<l, false>(totals, from + warp / UNIT_WARPS * 32 * value_stride(l - 1),
                              at.weights + place_of_layer(l), first_tile);
    float* to = chunk + place_of_values(l);
    const float* bias = at.weights + place_of_bias(l);
    for_each_pair<stride, units>(totals, first_tile, [&](int place, int unit, float first, float second) {
        *(float2*)(to + place) = make_float2(fmaxf(first + bias[unit], 0.0f), fmaxf(second + bias[unit + 1], 0.0f));
    });
}

// G_{l−1} in the place of H_{l−1}.
template <int l>
DEVICE void backward(int num_rows, float* chunk, const Places& at) {
    constexpr int units = eights(width(l - 1)), tiles = over(units / 8, UNIT_WARPS), stride = value_stride(l - 1);
    const int warp = threadIdx.x / 32, first_tile = warp % UNIT_WARPS * tiles;
    if (8 * first_tile >= units || warp / UNIT_WARPS * 32 >= num_rows) return;
    float totals[2][tiles][4] = {};
    multiply_values<l, true>(totals, chunk + place_of_values(l) + warp / UNIT_WARPS * 32 * value_stride(l),
                             at.weights + place_of_layer(l), first_tile);
    float* to = chunk + place_of_values(l - 1);
    for_each_pair<stride, units>(totals, first_tile, [&](int place, int, float first, float second) {
        const float2 hidden = *(const float2*)(to + place);
        *(float2*)(to + place) = make_float2(hidden.x > 0.0f ? first : 0.0f, hidden.y > 0.0f ? second : 0.0f);
    });
}

// Adds ∂W_l and ∂c_l of the chunk.
template <int l>
DEVICE void add_layer(const float* from, int num_rows, const float* chunk, LayerSums<l>& sums) {
    constexpr int stride = value_stride(l - 1), gradient_stride = value_stride(l);
    constexpr int DOWN = LayerSums<l>::DOWN, ACROSS = LayerSums<l>::ACROSS;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, c = lane / 4, q = lane % 4;
    const int first_down = warp % warps_down(l) * DOWN, first_across = warp / warps_down(l) * ACROSS;
    const float* gradient = chunk + place_of_values(l);
    // At most 2 × 4 tiles at a time; those beyond the last one are made of the first.
    constexpr int together_down = least(DOWN, 2), together_across = least(ACROSS, 4);
#pragma unroll
    for (int down = 0; down < DOWN; down += together_down) {
#pragma unroll
        for (int across = 0; across < ACROSS; across += together_across) {
            if (first_down + down >= tiles_down(l) || first_across + across >= tiles_across(l)) continue;
            const float* a = from + q * stride + 16 * (first_down + down) + c;
            const float* b = gradient + q * gradient_stride + 8 * (first_across + across) + c;
#pragma unroll 1
            for (int begin = 0; begin < num_rows; begin += 64) {
                float parts[together_down][together_across][4] = {};
#pragma unroll 2
                for (int r = begin; r < least(num_rows, begin + 64); r += 8) {
                    FirstFactor<together_down> first;
                    SecondFactor<together_across> second;
#pragma unroll
                    for (int m = 0; m < together_down; ++m) {
                        const float* of_tile = first_down + down + m < tiles_down(l) ? a + 16 * m : a;
                        first.set(m, of_tile[0], of_tile[8], of_tile[4 * stride], of_tile[4 * stride + 8]);
                    }
#pragma unroll
                    for (int n = 0; n < together_across; ++n) {
                        const float* of_tile = first_across + across + n < tiles_across(l) ? b + 8 * n : b;
                        second.set(n, of_tile[0], of_tile[4 * gradient_stride]);
                    }
                    multiply(parts, first, second);
                    a += 8 * stride;
                    b += 8 * gradient_stride;
                }
#pragma unroll
                for (int m = 0; m < together_down; ++m) {
#pragma unroll
                    for (int n = 0; n < together_across; ++n) {
                        if (down + m >= DOWN || across + n >= ACROSS) continue;
#pragma unroll
                        for (int i = 0; i < 4; ++i) sums.weights[down + m][across + n][i] += parts[m][n][i];
                    }
                }
            }
        }
    }
    const int unit = threadIdx.x % unit_threads(l);
    if (unit < width(l)) {
#pragma unroll 4
        for (int r = threadIdx.x / unit_threads(l); r < num_rows; r += unit_parts(l))
            sums.bias += gradient[r * gradient_stride + unit];
    }
}

// Eight lanes share an output.
DEVICE void chunk_outputs(int num_rows, float* chunk, const Places& at) {
    constexpr int stride = value_stride(LAYERS - 1);
    const float* hidden = chunk + place_of_values(LAYERS - 1);
    const int part = threadIdx.x % 8;
    for (int item = threadIdx.x / 8; item < num_rows * OUTPUTS; item += THREADS / 8) {
        const int r = item / OUTPUTS, output = item % OUTPUTS;
        const float* weights = at.weights + place_of_layer(LAYERS) + output * weight_stride(LAYERS);
        float sum = 0.0f;
#pragma unroll 4
        for (int k = part; k < eights(width(LAYERS - 1)); k += 8) sum = fmaf(hidden[r * stride + k], weights[k], sum);
#pragma unroll
        for (int distance = 4; distance > 0; distance /= 2) sum += __shfl_xor_sync(ALL_LANES, sum, distance);
        if (part == 0) chunk[AT_OUTPUTS + item] = sum + at.weights[place_of_bias(LAYERS) + output];
    }
}

// The gradient of each row's outputs; zero beyond the share's rows, of which so many are left. Returns the thread's part of
// ∂/∂ log β.
DEVICE double chunk_differentiate(const float* from, u32 rows_left, int num_rows, const Temper& temper, float* chunk) {
    const int r = threadIdx.x;
    if (r >= num_rows) return 0.0;
    float outputs[OUTPUTS];
#pragma unroll
    for (int c = 0; c < OUTPUTS; ++c) outputs[c] = chunk[AT_OUTPUTS + r * OUTPUTS + c];
    const double part = differentiate(outputs, from[r * STRIDE + INPUTS], temper);
    const bool valid = r < rows_left;
#pragma unroll
    for (int c = 0; c < OUTPUTS; ++c) chunk[AT_OUTPUTS + r * OUTPUTS + c] = valid ? outputs[c] : 0.0f;
    return valid ? part : 0.0;
}

// The gradient of the last hidden layer in the place of its values, and the last layer's sums.
DEVICE void chunk_last_layer(int num_rows, float* chunk, Sums& sums, const Places& at) {
    constexpr int l = LAYERS - 1, stride = value_stride(l);
    const float* gradients = chunk + AT_OUTPUTS;
    const int unit = threadIdx.x % unit_threads(l);
    if (unit < eights(width(l))) {
        float weights[OUTPUTS];
#pragma unroll
        for (int c = 0; c < OUTPUTS; ++c) {
            weights[c] = at.weights[place_of_layer(LAYERS) + c * weight_stride(LAYERS) + unit];
        }
        float* own = chunk + place_of_values(l) + unit;
#pragma unroll 4
        for (int r = threadIdx.x / unit_threads(l); r < num_rows; r += unit_parts(l)) {
            const float hidden = own[r * stride];
            float gradient = 0.0f;
#pragma unroll
            for (int c = 0; c < OUTPUTS; ++c) {
                const float e = gradients[r * OUTPUTS + c];
                gradient = fmaf(e, weights[c], gradient);
                sums.output_weights[c] = fmaf(hidden, e, sums.output_weights[c]);
            }
            own[r * stride] = hidden > 0.0f ? gradient : 0.0f;
        }
    }
    // The last threads: the first ones may have units.
    const int c = THREADS - 1 - threadIdx.x;
    if (c < OUTPUTS) {
#pragma unroll 8
        for (int r = 0; r < num_rows; ++r) sums.output_bias += gradients[r * OUTPUTS + c];
    }
}

template <int l>
DEVICE void forward_from(const float* rows, int num_rows, float* chunk, const Places& at) {
    forward<l>(l == 1 ? rows : chunk + place_of_values(l - 1), num_rows, chunk, at);
    __syncthreads();
    if constexpr (l < LAYERS - 1) forward_from<l + 1>(rows, num_rows, chunk, at);
}

template <int l>
DEVICE void backward_from(const float* rows, int num_rows, float* chunk, LayerSums<l>& sums, const Places& at) {
    add_layer<l>(l == 1 ? rows : chunk + place_of_values(l - 1), num_rows, chunk, sums);
    __syncthreads();
    if constexpr (l > 1) {
        backward<l>(num_rows, chunk, at);
        __syncthreads();
        backward_from<l - 1>(rows, num_rows, chunk, static_cast<LayerSums<l - 1>&>(sums), at);
    }
}

// Writes the weights' sums of layers 1 to l, and puts the biases' beside those of other threads.
template <int l>
DEVICE void write_layers(const LayerSums<l>& sums, float* to, float* parts) {
    constexpr int DOWN = LayerSums<l>::DOWN, ACROSS = LayerSums<l>::ACROSS;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, c = lane / 4, q = lane % 4;
    const int first_down = warp % warps_down(l) * DOWN, first_across = warp / warps_down(l) * ACROSS;
#pragma unroll
    for (int m = 0; m < 2 * DOWN; ++m) {
        const int from = 16 * first_down + 8 * m + c;
#pragma unroll
        for (int n = 0; n < ACROSS; ++n) {
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                const int unit = 8 * (first_across + n) + 2 * q + i;
                if (from < width(l - 1) && unit < width(l))
                    to[first_of_layer(l) + from * width(l) + unit] = sums.weights[m / 2][n][m % 2 * 2 + i];
            }
        }
    }
    parts[(l - 1) * THREADS + threadIdx.x] = sums.bias;
    if constexpr (l > 1) write_layers<l - 1>(static_cast<const LayerSums<l - 1>&>(sums), to, parts);
}

// The sum of what the threads of a unit put side by side.
template <int l>
DEVICE float sum_of_parts(const float* parts, int unit) {
    float sum = 0.0f;
#pragma unroll
    for (int part = 0; part < unit_parts(l); ++part) sum += parts[part * unit_threads(l) + unit];
    return sum;
}

// Adds what threads put side by side for the biases of layers 1 to l.
template <int l>
DEVICE void write_biases(float* to, const float* parts) {
    const int unit = threadIdx.x;
    if (unit < width(l)) {
        to[first_of_layer(l + 1) - width(l) + unit] = sum_of_parts<l>(parts + (l - 1) * THREADS, unit);
    }
    if constexpr (l > 1) write_biases<l - 1>(to, parts);
}

DEVICE void write_sums(const Sums& sums, float* to, float* parts) {
    constexpr int l = LAYERS - 1;
    write_layers<l>(sums, to, parts);
#pragma unroll
    for (int c = 0; c < OUTPUTS; ++c) parts[(l + c) * THREADS + threadIdx.x] = sums.output_weights[c];
    const int output = THREADS - 1 - threadIdx.x;
    if (output < OUTPUTS) to[PARAMETERS - OUTPUTS + output] = sums.output_bias;
    __syncthreads();
    write_biases<l>(to, parts);
    for (int item = threadIdx.x; item < width(l) * OUTPUTS; item += THREADS) {
        const int unit = item / OUTPUTS, c = item % OUTPUTS;
        to[first_of_layer(LAYERS) + item] = sum_of_parts<l>(parts + (l + c) * THREADS, unit);
    }
}

// Writes the sums over all rows of the block's shares; a barrier must follow.
DEVICE void add_gradient(const TableChainArguments& arguments, const RowsOfSteps& rows, Temper& temper,
                         const Places& at) {
    temper.read(at);
#pragma unroll 1
    for (int own = 0; own < OWN_SHARES; ++own) {
        const u32 end = rows.end_of_share(own);
        Sums sums = {};
        double log_beta_gradient = 0.0;
#pragma unroll 1
        for (u32 first = rows.begin_of_share(own); first < end; first += CHUNK) {
#if ROW_PLACE == IN_PLACE
            float* staged = at.chunk + AT_STAGED;
            for (int item = threadIdx.x; item < CHUNK * (STRIDE / 4); item += THREADS) {
                const int r = item / (STRIDE / 4), i = item % (STRIDE / 4) * 4;
                copy_async(staged + r * STRIDE + i, arguments.rows + rows.place(arguments, at, first + r) + i, true);
            }
            copy_async_commit();
            rows.wait();
            __syncthreads();
            const float* from = staged;
#else
            const float* from = at.rows + rows.place(arguments, at, first);
#endif
            const int num_rows = least(CHUNK, eights((int)(end - first)));
            forward_from<1>(from, num_rows, at.chunk, at);
            chunk_outputs(num_rows, at.chunk, at);
            __syncthreads();
            log_beta_gradient += chunk_differentiate(from, end - first, num_rows, temper, at.chunk);
            __syncthreads();
            chunk_last_layer(num_rows, at.chunk, sums, at);
            __syncthreads();
            backward_from<LAYERS - 1>(from, num_rows, at.chunk, sums, at);
        }
        write_sums(sums, at.sums + own * PARAMETERS, at.chunk + AT_PARTS);
        if (RULE == JOINT_ASCENT) {
            log_beta_gradient = warp_sum_of_doubles(log_beta_gradient);
            if (threadIdx.x % 32 == 0) tell_blocks(at.log_beta_gradient(own), log_beta_gradient);
        }
        __syncthreads();
    }
}
