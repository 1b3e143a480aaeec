// Σ_rows ∂ log p(y|x,θ)/∂θ of networks with one output: forward in f32, backward on tensor cores, as exact as f32.
//
// The sums G_jk = Σ_rows [on] e x_j (see table_gradient.cuh) are products of a matrix of zeros and ones, which bf16
// holds exactly, and one of f32 numbers, which three bf16 numbers hold exactly: a = a₁ + a₂ + a₃. So three products of
// bf16 with f32 sums lose nothing that f32 arithmetic would keep.
//
// A warp takes 16 rows at a time, four for each of 4 groups of lanes (lane % 4); the 8 lanes of a group (lane / 4) have
// UNITS units each. That is the layout of the tensor cores' fragments: units on or off in a lane's own registers are a
// fragment of the first matrix, and the lane's own rows, one column each, are one of the second. Their product sums
// over the groups, and brings each lane the sums of its own units, two columns each. For 8 inputs and 64 units a warp
// issues about 490 instructions for 16 rows, instead of 770 without tensor cores.

#define TILES (UNITS / 2)                // of 16 units
#define COLUMN_TILES ((INPUTS + 7) / 8)  // of 8 inputs
#define BIAS_FITS (INPUTS % 8 != 0)      // the column after the last input is that of the bias
#define PRODUCTS (COLUMN_TILES + (BIAS_FITS ? 0 : 1))
#define SUMS (INPUTS + 1 + OUTPUTS)

static_assert(OUTPUTS == 1 && LANES == 8 && ROWS == 4 && UNITS % 2 == 0, "what this gradient is made for");

// A lane's units: four neighbours, and four more half of all units away, so that the lanes of a group read and write
// neighbouring banks.
DEVICE int place_of_unit(int place, int u) {
    return UNITS <= 4 ? place * UNITS + u : u / 4 * (4 * LANES) + place * 4 + u % 4;
}

DEVICE void load_units(float (&to)[UNITS], const float* row, int place) {
    constexpr int width = UNITS < 4 ? UNITS : 4;
#pragma unroll
    for (int u = 0; u < UNITS; u += width) {
        float part[width];
        load_floats(part, row + place_of_unit(place, u));
#pragma unroll
        for (int i = 0; i < width; ++i) to[u + i] = part[i];
    }
}

DEVICE void store_units(float* row, int place, const float (&from)[UNITS]) {
    constexpr int width = UNITS < 4 ? UNITS : 4;
#pragma unroll
    for (int u = 0; u < UNITS; u += width) {
        float part[width];
#pragma unroll
        for (int i = 0; i < width; ++i) part[i] = from[u + i];
        store_floats<width>(row + place_of_unit(place, u), part);
    }
}

// Two numbers as the sum of three pairs of bf16.
DEVICE void split(float low, float high, u32 (&pieces)[3]) {
#pragma unroll
    for (int piece = 0; piece < 3; ++piece) {
        pieces[piece] = pack_bf16(low, high);
        low -= low_bf16(pieces[piece]);
        high -= high_bf16(pieces[piece]);
    }
}

// values[q] of the eight lanes of a group → the sum of row q = lane / 8 in each lane.
DEVICE float sum_over_group(const float (&values)[4], int lane) {
    const bool upper = (lane & 16) != 0, odd = (lane & 8) != 0;
    float kept[2];
#pragma unroll
    for (int b = 0; b < 2; ++b) {
        const float sent = upper ? values[b] : values[2 + b];
        kept[b] = (upper ? values[2 + b] : values[b]) + __shfl_xor_sync(ALL_LANES, sent, 16);
    }
    const float sum = (odd ? kept[1] : kept[0]) + __shfl_xor_sync(ALL_LANES, odd ? kept[0] : kept[1], 8);
    return sum + __shfl_xor_sync(ALL_LANES, sum, 4);
}

// Writes this warp's sums over its rows; a barrier must follow.
DEVICE void add_gradient(const TableChainArguments& arguments, const RowsOfSteps& rows, Temper& temper,
                         const Places& at) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int group = lane % 4, place = lane / 4;
    const float* origin = RowsOfSteps::origin(arguments, at);
    temper.read(at);

    float weights[SUMS][UNITS];
#pragma unroll
    for (int j = 0; j < SUMS; ++j) load_units(weights[j], at.weights + j * PADDED_HIDDEN, place);
    const float output_bias = at.weights[AT_OUTPUT_BIAS];
    float sums[PRODUCTS][TILES][4] = {};
    float bias_sum = 0.0f;
    double log_beta_gradient = 0.0;

#pragma unroll 1
    for (u32 first = warp * 16; first < arguments.batch_rows; first += SWEEP) {
        // Row q of the lane is row 2 group + q%2 + 8 (q/2) of the sixteen.
        u32 places[4];
#pragma unroll
        for (int q = 0; q < 4; ++q) places[q] = rows.place(arguments, at, first + 2 * group + q % 2 + q / 2 * 8);
        float outputs[4];
        u32 is_on[TILES][4];
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            float on[2][UNITS];
#pragma unroll
            for (int b = 0; b < 2; ++b) {
                float x[(INPUTS + 3) / 4 * 4];
                load_floats(x, origin + places[2 * half + b]);
                float output = 0.0f;
#pragma unroll
                for (int u = 0; u < UNITS; ++u) {
                    float z = weights[INPUTS][u];
#pragma unroll
                    for (int j = 0; j < INPUTS; ++j) z = fmaf(x[j], weights[j][u], z);
                    output = fmaf(fmaxf(z, 0.0f), weights[INPUTS + 1][u], output);
                    on[b][u] = __saturatef(z * 3.0e38f);
                }
                outputs[2 * half + b] = output;
            }
#pragma unroll
            for (int u = 0; u < UNITS; ++u) is_on[u / 2][2 * half + u % 2] = pack_bf16(on[0][u], on[1][u]);
        }

        const u32 r = first + 2 * group + lane / 8 % 2 + lane / 16 * 8;
        const float target = origin[rows.place(arguments, at, r) + INPUTS];
        float gradient[1] = {sum_over_group(outputs, lane) + output_bias};
        const double part = differentiate(gradient, target, temper);
        const bool valid = r < arguments.batch_rows;
        const float own = valid ? gradient[0] : 0.0f;
        if (valid && place % 2 == 0) {
            bias_sum += own;
            if (RULE == JOINT_ASCENT) log_beta_gradient += part;
        }
        float e[4];
#pragma unroll
        for (int q = 0; q < 4; ++q) e[q] = __shfl_sync(ALL_LANES, own, 8 * q + group);

#pragma unroll
        for (int column_tile = 0; column_tile < COLUMN_TILES; ++column_tile) {
            const int column = 8 * column_tile + place;
            float ex[4];
#pragma unroll
            for (int q = 0; q < 4; ++q) {
                ex[q] = e[q];
                if (BIAS_FITS && column > INPUTS) ex[q] = 0.0f;
                if (column < INPUTS) ex[q] *= origin[places[q] + column];
            }
            u32 lower[3], upper[3];
            split(ex[0], ex[1], lower);
            split(ex[2], ex[3], upper);
#pragma unroll
            for (int piece = 0; piece < 3; ++piece) {
#pragma unroll
                for (int tile = 0; tile < TILES; ++tile) {
                    multiply_add(sums[column_tile][tile], is_on[tile], lower[piece], upper[piece]);
                }
            }
        }
        if (!BIAS_FITS) {
            // One more product: its columns are the three pieces of e.
            u32 lower[3], upper[3];
            split(e[0], e[1], lower);
            split(e[2], e[3], upper);
            const u32 low = place == 0 ? lower[0] : place == 1 ? lower[1] : place == 2 ? lower[2] : 0;
            const u32 high = place == 0 ? upper[0] : place == 1 ? upper[1] : place == 2 ? upper[2] : 0;
#pragma unroll
            for (int tile = 0; tile < TILES; ++tile) {
                multiply_add(sums[PRODUCTS - 1][tile], is_on[tile], low, high);
            }
        }
    }

    // Units 2 tile and 2 tile + 1 of the lane, columns 2 group and 2 group + 1 of a tile of columns.
    float* to = at.sums + warp * PADDED_PARAMETERS;
    float output_sums[UNITS] = {};
#pragma unroll
    for (int column_tile = 0; column_tile < COLUMN_TILES; ++column_tile) {
#pragma unroll
        for (int b = 0; b < 2; ++b) {
            const int column = 8 * column_tile + 2 * group + b;
            float of_column[UNITS], sum[UNITS];
#pragma unroll
            for (int u = 0; u < UNITS; ++u) sum[u] = sums[column_tile][u / 2][u % 2 * 2 + b];
            if (column < INPUTS + BIAS_FITS) {
                load_units(of_column, at.weights + column * PADDED_HIDDEN, place);
#pragma unroll
                for (int u = 0; u < UNITS; ++u) output_sums[u] = fmaf(of_column[u], sum[u], output_sums[u]);
                store_units(to + column * PADDED_HIDDEN, place, sum);
            }
        }
    }
    if (!BIAS_FITS) {
        float sum[UNITS];
#pragma unroll
        for (int u = 0; u < UNITS; ++u) {
            // The third piece is the neighbour's.
            const float own = sums[PRODUCTS - 1][u / 2][u % 2 * 2] + sums[PRODUCTS - 1][u / 2][u % 2 * 2 + 1];
            sum[u] = own + __shfl_xor_sync(ALL_LANES, own, 1);
            if (group == 0) output_sums[u] = fmaf(weights[INPUTS][u], sum[u], output_sums[u]);
        }
        if (group == 0) store_units(to + INPUTS * PADDED_HIDDEN, place, sum);
    }
#pragma unroll
    for (int u = 0; u < UNITS; ++u) {
        output_sums[u] += __shfl_xor_sync(ALL_LANES, output_sums[u], 1);
        output_sums[u] += __shfl_xor_sync(ALL_LANES, output_sums[u], 2);
    }
    if (group == 0) store_units(to + (INPUTS + 1) * PADDED_HIDDEN, place, output_sums);
    bias_sum = warp_sum(bias_sum);
    if (lane == 0) to[AT_OUTPUT_BIAS] = bias_sum;
    if (RULE == JOINT_ASCENT) {
        log_beta_gradient = warp_sum_of_doubles(log_beta_gradient);
        if (lane == 0) at.scalars->log_beta_gradients[warp] = log_beta_gradient;
    }
}
