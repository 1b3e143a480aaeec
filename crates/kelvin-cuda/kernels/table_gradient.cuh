// Σ_rows ∂ log p(y|x,θ)/∂θ in one pass over the rows; weights and sums stay in registers.
//
// LANES lanes share a row, each with UNITS hidden units; a warp has 32/LANES such groups, and a group takes ROWS rows
// at a time: forward, sum over its lanes, gradient of the output, backward. A row is read from memory once.
// With one output the sums are those of kelvin's one_output.rs:
//   G_jk = Σ [on] e x_j,  C_k = Σ [on] e,  ∂v_k = Σ_j W_jk G_jk + c_k C_k;   ∂W_jk = v_k G_jk and ∂c_k = v_k C_k later.
// With several, g_k = [on] Σ_c e_c v_kc takes the place of e, and ∂v_kc = Σ h_k e_c is summed as it is.
// All sums run in a fixed order: rows of a group, groups of a warp, then (in update) the warps.

// values[q] of all lanes of a group → values[0] of each lane: the sum of row `own_row`.
DEVICE void sum_over_group(float (&values)[ROWS], int place) {
    int kept = ROWS;
#pragma unroll
    for (int distance = LANES / 2; distance > 0; distance /= 2) {
        if (kept > 1) {
            kept /= 2;
            const bool upper = (place & distance) != 0;
#pragma unroll
            for (int q = 0; q < ROWS / 2; ++q) {
                if (q < kept) {
                    const float sent = upper ? values[q] : values[q + kept];
                    const float own = upper ? values[q + kept] : values[q];
                    values[q] = own + __shfl_xor_sync(ALL_LANES, sent, distance);
                }
            }
        } else {
            values[0] += __shfl_xor_sync(ALL_LANES, values[0], distance);
        }
    }
}

// Rows of sums: inputs, bias, outputs.
#define SUMS (INPUTS + 1 + OUTPUTS)

// Writes this warp's sums over its rows; a barrier must follow.
DEVICE void add_gradient(const TableChainArguments& arguments, const RowsOfSteps& rows, Temper& temper,
                         const Places& at) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int group = lane / LANES, place = lane % LANES;
    constexpr int lanes_of_row = LANES / ROWS;
    const int own_row = place / lanes_of_row;
    const bool speaks_for_row = place % lanes_of_row == 0;
    constexpr int loaded = (INPUTS + 3) / 4 * 4;
    const float* origin = RowsOfSteps::origin(arguments, at);
    temper.read(at);

    float weights[SUMS][UNITS], output_bias[OUTPUTS];
#pragma unroll
    for (int j = 0; j < SUMS; ++j) load_floats(weights[j], at.weights + j * PADDED_HIDDEN + place * UNITS);
#pragma unroll
    for (int c = 0; c < OUTPUTS; ++c) output_bias[c] = at.weights[AT_OUTPUT_BIAS + c];
    float sums[SUMS][UNITS] = {}, bias_sums[OUTPUTS] = {};
    double log_beta_gradient = 0.0;

#pragma unroll 1
    for (u32 first = warp * (ROWS * GROUPS); first < arguments.batch_rows; first += SWEEP) {
        float x[ROWS][loaded], hidden[ROWS][UNITS], outputs[OUTPUTS][ROWS];
        // Groups of a warp take neighbouring rows: they lie in different banks.
#pragma unroll
        for (int q = 0; q < ROWS; ++q) {
            load_floats(x[q], origin + rows.place(arguments, at, first + q * GROUPS + group));
#pragma unroll
            for (int u = 0; u < UNITS; ++u) {
                float z = weights[INPUTS][u];
#pragma unroll
                for (int j = 0; j < INPUTS; ++j) z = fmaf(x[q][j], weights[j][u], z);
                hidden[q][u] = fmaxf(z, 0.0f);
            }
#pragma unroll
            for (int c = 0; c < OUTPUTS; ++c) {
                float sum = hidden[q][0] * weights[INPUTS + 1 + c][0];
#pragma unroll
                for (int u = 1; u < UNITS; ++u) sum = fmaf(hidden[q][u], weights[INPUTS + 1 + c][u], sum);
                outputs[c][q] = sum;
            }
        }

        float gradient[OUTPUTS];
        const u32 r = first + own_row * GROUPS + group;
        const float target = origin[rows.place(arguments, at, r) + INPUTS];
#pragma unroll
        for (int c = 0; c < OUTPUTS; ++c) {
            sum_over_group(outputs[c], place);
            gradient[c] = outputs[c][0] + output_bias[c];
        }
        const double part = differentiate(gradient, target, temper);
        const bool valid = r < arguments.batch_rows;
#pragma unroll
        for (int c = 0; c < OUTPUTS; ++c) gradient[c] = valid ? gradient[c] : 0.0f;
        if (valid && speaks_for_row) {
#pragma unroll
            for (int c = 0; c < OUTPUTS; ++c) bias_sums[c] += gradient[c];
            if (RULE == JOINT_ASCENT) log_beta_gradient += part;
        }

#pragma unroll
        for (int q = 0; q < ROWS; ++q) {
            float e[OUTPUTS];
#pragma unroll
            for (int c = 0; c < OUTPUTS; ++c) {
                e[c] = __shfl_sync(ALL_LANES, gradient[c], group * LANES + q * lanes_of_row);
            }
#pragma unroll
            for (int u = 0; u < UNITS; ++u) {
                float g = e[0];
                if (OUTPUTS > 1) {
                    g = 0.0f;
#pragma unroll
                    for (int c = 0; c < OUTPUTS; ++c) {
                        g = fmaf(e[c], weights[INPUTS + 1 + c][u], g);
                        sums[INPUTS + 1 + c][u] = fmaf(e[c], hidden[q][u], sums[INPUTS + 1 + c][u]);
                    }
                }
                g = hidden[q][u] > 0.0f ? g : 0.0f;
#pragma unroll
                for (int j = 0; j < INPUTS; ++j) sums[j][u] = fmaf(g, x[q][j], sums[j][u]);
                sums[INPUTS][u] += g;
            }
        }
    }

    if (OUTPUTS == 1) {
#pragma unroll
        for (int u = 0; u < UNITS; ++u) {
            float sum = weights[0][u] * sums[0][u];
#pragma unroll
            for (int j = 1; j <= INPUTS; ++j) sum = fmaf(weights[j][u], sums[j][u], sum);
            sums[INPUTS + 1][u] = sum;
        }
    }

    // Over the groups: each takes half of the other's units, as long as there are any.
    constexpr int shared_out = GROUPS < UNITS ? GROUPS : UNITS;
    constexpr int own_units = UNITS / shared_out;
    int first_unit = place * UNITS;
#pragma unroll
    for (int j = 0; j < SUMS; ++j) {
        int kept = UNITS;
#pragma unroll
        for (int distance = LANES; distance < 32; distance *= 2) {
            if (kept > 1) {
                kept /= 2;
                const bool upper = (lane & distance) != 0;
                if (j == 0) first_unit += upper ? kept : 0;
#pragma unroll
                for (int u = 0; u < UNITS / 2; ++u) {
                    if (u < kept) {
                        const float sent = upper ? sums[j][u] : sums[j][u + kept];
                        const float own = upper ? sums[j][u + kept] : sums[j][u];
                        sums[j][u] = own + __shfl_xor_sync(ALL_LANES, sent, distance);
                    }
                }
            } else {
                sums[j][0] += __shfl_xor_sync(ALL_LANES, sums[j][0], distance);
            }
        }
    }
    float* to = at.sums + warp * PADDED_PARAMETERS;
#pragma unroll
    for (int j = 0; j < SUMS; ++j) store_floats<own_units>(to + j * PADDED_HIDDEN + first_unit, sums[j]);
#pragma unroll
    for (int c = 0; c < OUTPUTS; ++c) {
        const float sum = warp_sum(bias_sums[c]);
        if (lane == 0) to[AT_OUTPUT_BIAS + c] = sum;
    }
    if (RULE == JOINT_ASCENT) {
        log_beta_gradient = warp_sum_of_doubles(log_beta_gradient);
        if (lane == 0) at.scalars->log_beta_gradients[warp] = log_beta_gradient;
    }
}
