// Where the sums of a convolution's products go: bias, what was there before and ReLUs on the way.

#include "conv_product_factors.cuh"

// The number of C's row `row` among those of the value, the kernel or the gradient that C is.
DEVICE u32 row_of_result(const Block& block, const ConvSizes& sizes, u32 row) {
    if (PRODUCT != INPUT || sizes.stride == 1) return row;
    const Pixel pixel = pixel_at(row, block.vertical, block.horizontal);
    const u32 y = block.vertical.first_line + sizes.stride * pixel.y,
              x = block.horizontal.first_line + sizes.stride * pixel.x;
    return (pixel.image * sizes.input_height + y) * sizes.input_width + x;
}

// The bias of a column, or 0.
DEVICE float bias_of(const ConvProductArguments& arguments, const Block& block, u32 chain, u32 column) {
    const bool has_one = PRODUCT == FORWARD && arguments.bias && column < block.columns;
    return has_one ? arguments.bias[chain * arguments.parameter_stride + block.result_column + column] : 0.0f;
}

#if WIDE_C

// Eight neighbouring numbers of C.
DEVICE void store_eight(const ConvProductArguments& arguments, u32 chain, u64 first, u32 at, uint4 chunk) {
#if PRODUCT == INPUT
    const Reading& input = arguments.input;
    uint4* const to = (uint4*)(arguments.to.gradient + (u64)chain * input.num_images * input.len + at);
    const bool masks = INPUT_RELU && arguments.to.masks;
    if (arguments.to.adds || masks) {
        Eight x = unpacked(chunk);
        if (arguments.to.adds) {
            const Eight before = unpacked(*to);
#pragma unroll
            for (int i = 0; i < 8; ++i) x.number[i] += before.number[i];
        }
        if (masks) {
            const Numbers<VALUE> from = numbers_of(input, chain, 0);
            // What the ReLU cut off is 0.
            const Eight read =
                eight_of(seen<VALUE>(load_wide(from.values + at), no_numbers(), from.of(at % input.channels)));
#pragma unroll
            for (int i = 0; i < 8; ++i) x.number[i] = read.number[i] > 0.0f ? x.number[i] : 0.0f;
        }
        chunk = packed(x);
    }
    *to = chunk;
#else
    *(uint4*)((bf16*)arguments.result + first + at) = chunk;
#endif
}

// Writes a warp's sums, sixteen bytes a lane.
DEVICE void store(const ConvProductArguments& arguments, const Block& block, u32 chain, u64 first, u32 warp_row,
                  u32 warp_column, int lane, const Sums& sums) {
#pragma unroll
    for (int m = 0; m < WARP_M; ++m) {
        const u32 row = block.first_row + warp_row + m * 16 + lane / 4 + (lane & 2 ? 8 : 0);
        const u32 own_row = row_of_result(block, arguments.sizes, row);
#pragma unroll
        for (int n = 0; n < WARP_N; n += 2) {
            const u32 column = block.first_column + warp_column + n * 8;
            u32 pairs[2][2];
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                const u32 own = column + i * 8 + 2 * (lane & 3);
                const float low = bias_of(arguments, block, chain, own),
                            high = bias_of(arguments, block, chain, own + 1);
                const float (&sum)[4] = sums.sum[m][n + i];
                pairs[0][i] = pack_bf16(sum[0] + low, sum[1] + high),
                pairs[1][i] = pack_bf16(sum[2] + low, sum[3] + high);
            }
            const uint4 chunk = gather_quad(pairs[0][0], pairs[0][1], pairs[1][0], pairs[1][1], lane);
            const u32 own_column = column + (lane & 1) * 8;
            if (row < block.rows && own_column < block.columns)
                store_eight(arguments, chain, first, own_row * block.result_stride + block.result_column + own_column,
                            chunk);
        }
    }
}

#else

// Writes a warp's sums number by number.
DEVICE void store(const ConvProductArguments& arguments, const Block& block, u32 chain, u64 first, u32 warp_row,
                  u32 warp_column, int lane, const Sums& sums) {
#pragma unroll
    for (int m = 0; m < 2 * WARP_M; ++m) {
        const u32 row = block.first_row + warp_row + m * 8 + lane / 4;
        if (row >= block.rows) continue;
        const u32 own_row = row_of_result(block, arguments.sizes, row);
#pragma unroll
        for (int n = 0; n < 2 * WARP_N; ++n) {
            const u32 column = block.first_column + warp_column + n / 2 * 8 + 2 * (lane & 3) + n % 2;
            if (column >= block.columns) continue;
            const float sum = sums.sum[m / 2][n / 2][m % 2 * 2 + n % 2] + bias_of(arguments, block, chain, column);
            const u32 at = own_row * block.result_stride + block.result_column + column;
#if PRODUCT == INPUT
            downstream(arguments.to, arguments.input, chain, at, sum);
#elif PRODUCT == FORWARD
            if (arguments.is_output) {
                ((float*)arguments.result)[first + at] = sum;
            } else {
                store_element((element*)arguments.result, first + at, sum);
            }
#else
            ((float*)arguments.result)[first + at] = sum;
#endif
        }
    }
}

#endif
