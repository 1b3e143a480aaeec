// Convolution of 3×3 from 32 or 64 channels to as many by wgmma: the same as conv_forward.cu for the
// layers it serves.
//
// The tile's input and the weights lie in shared memory as planes of chunks (conv_planes.cuh), and are read by the
// products from there; a warpgroup multiplies squares of 64 pixels by all weights. Tiles lie in two rooms: while the
// products of one run, the one before it is written and the next is put into its place.
//
// Bytes and the last block's work: as in conv_forward.cu. Specification: kelvin::network::images (convolution.rs,
// reading.rs, batch_norm.rs).
//
// Defines: those of conv_forward; POOL 1, no ADD_BIAS, STRIP.

#include "conv_forward_arguments.cuh"
#include "conv_planes.cuh"
#include "conv_sum.cuh"

namespace {

static_assert(POOL == 1 && !ADD_BIAS && !STRIP && FILTERS % 32 == 0, "not served here");

constexpr int X_ROOM = CHUNKS * PLANE;
// Parts of a pixel's filters of which a thread has one chunk each.
constexpr int PARTS = FILTERS / 32;

// Begins the products of this warpgroup's squares.
DEVICE void begin_squares(float (&y)[OWN_SQUARES][FILTERS / 2], const uint4* x, const uint4* weights, int group) {
    const u64 w = operand<Major::across>(weights, 128, WEIGHT_PLANE * 16);
#pragma unroll
    for (int i = 0; i < OWN_SQUARES; ++i) {
        const Square square(group * OWN_SQUARES + i);
        const uint4* const first = x + in_plane(square.image, square.row - 1, square.column - 1);
        const u64 a = operand<Major::k>(first, PLANE * 16, PITCH * 16);
#pragma unroll
        for (int tap = 0; tap < TAPS; ++tap) {
#pragma unroll
            for (int k = 0; k < CHANNELS / 16; ++k)
                multiply_add_async<Major::k, Major::across>(
                    y[i], a + (tap / KERNEL * PITCH + tap % KERNEL + 2 * k * PLANE), w + (tap * TAP_ROOM + 16 * k),
                    tap + k > 0);
        }
    }
}

// Writes a square's outputs.
DEVICE void write_square(const float (&y)[FILTERS / 2], int number, bf16* output, int at, u32 num_images, int warp,
                         int lane) {
    const Square square(number);
    if (TILE_IMAGES > 1 && first_image(at) + square.image >= (int)num_images) return;
    // The pixels of a tile follow each other in memory.
    const u32 pixel = (u32)at * TILE_PIXELS + (square.image * TILE_ROWS + square.row + warp % 4 * 2) * OUT_W +
                      square.column + (lane >> 2);
    uint4* const to = (uint4*)output + pixel * FILTER_CHUNKS + (lane & 3);
#pragma unroll
    for (int i = 0; i < 2 * PARTS; ++i) {
        // A chunk of every 32 filters, of two rows of pixels.
        const int part = i / 2, below = i % 2;
        u32 pairs[4];
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            const int first = (part * 4 + j) * 4 + below * 2;
            pairs[j] = pack_bf16(y[first], y[first + 1]);
        }
        to[below * OUT_W * FILTER_CHUNKS + part * 4] = gather_quad(pairs[0], pairs[1], pairs[2], pairs[3], lane);
    }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(WARPS * 32, BLOCKS)
    conv_forward_wide(const ConvForwardArguments arguments) {
    SHARED_MEMORY(shared);
    uint4* const tiles = (uint4*)shared;  // two rooms
    uint4* const stage = tiles + 2 * X_ROOM;
    uint4* const weights = stage + staged_pixels(NEIGHBOURS) * CHUNKS;
    float* const scale = (float*)(weights + TAPS * TAP_ROOM);
    float* const shift = scale + CHANNELS;
    Arrival* const arrival = (Arrival*)(shift + (SUM_INPUT ? 3 : 1) * CHANNELS);

    const int thread = threadIdx.x, lane = thread & 31, warp = __shfl_sync(0xFFFFFFFFu, thread >> 5, 0);
    const int group = warp / 4;
    const u32 chain = blockIdx.y, num_images = arguments.num_images;
    const u64 pixels = (u64)chain * num_images * (OUT_H * OUT_W);
    const bf16* const input = arguments.input + pixels * CHANNELS;
    bf16* const output = arguments.output + pixels * FILTERS;

    const int first = blockIdx.x * arguments.tiles_per_block;
    const int last = min(first + (int)arguments.tiles_per_block, tiles_of(num_images));
    auto ask = [&](int at) {
        if (thread != 0 || at >= last) return;
        expect_bytes(arrival, bytes_of_rows<CHUNKS, NEIGHBOURS>(at, num_images));
        stage_rows<CHUNKS, NEIGHBOURS>(stage, input, at, num_images, arrival);
        for_runs<TILE_ROWS, OUT_H, OUT_W * CHUNKS>(at, first_row(at), num_images, [&](int, long long place, u32 bytes) {
            if (SUM_INPUT) prefetch_run((const uint4*)(arguments.other + pixels * CHANNELS) + place, bytes);
        });
    };
    if (thread == 0) prepare_arrival(arrival);
    ask(first);

    copy_weights_to_planes(weights, arguments.weights + chain * arguments.parameter_stride, thread,
                           [](int channel) { return channel; });
    prepare_coefficients(scale, arguments, chain, thread);
    zero_room(tiles, 2 * X_ROOM, thread);

    auto room = [&](int at) { return tiles + (at - first) % 2 * X_ROOM; };
    auto place = [&](int at) {
        if (at < last) {
            wait_arrival(arrival, (at - first) % 2);
            place_x<NEIGHBOURS, 1>(room(at), stage, scale, shift, at, num_images, thread,
                                   InputSum(arguments, pixels * CHANNELS, scale, thread));
        }
        show_to_products();
    };
    // Σ y and Σ y² of this thread's filters, over all of its pixels.
    float sum[FILTERS / 4] = {}, squares[FILTERS / 4] = {};
    float done[OWN_SQUARES][FILTERS / 2];
    auto finish = [&](int at) {
#pragma unroll
        for (int i = 0; i < OWN_SQUARES; ++i) {
            write_square(done[i], group * OWN_SQUARES + i, output, at, num_images, warp, lane);
            // Of images that there are not, all numbers are 0.
#pragma unroll
            for (int j = 0; j < FILTERS / 4; ++j) {
                const float above = done[i][j / 2 * 4 + j % 2], below = done[i][j / 2 * 4 + 2 + j % 2];
                sum[j] += above + below;
                squares[j] = fmaf(above, above, fmaf(below, below, squares[j]));
            }
        }
    };
    copy_async_commit();
    copy_async_wait<0>();
    __syncthreads();
    place(first);
    __syncthreads();
    ask(first + 1);
    for (int at = first; at < last; ++at) {
        float y[OWN_SQUARES][FILTERS / 2];
        begin_products();
        begin_squares(y, room(at), weights, group);
        commit_products();
        if (at > first) finish(at - 1);
        place(at + 1);
        first_warp_waits(warp, THREADS);
        ask(at + 2);
        wait_products<0>();
#pragma unroll
        for (int i = 0; i < OWN_SQUARES; ++i) {
            settle(y[i]);
#pragma unroll
            for (int j = 0; j < FILTERS / 2; ++j) done[i][j] = y[i][j];
        }
        __syncthreads();
    }
    finish(last - 1);

    if (STATISTICS) {
        float2* const sums = (float2*)shared;  // [warp][filter]
        __syncthreads();
#pragma unroll
        for (int j = 0; j < FILTERS / 4; ++j) {
            const float s = column_sum(sum[j]), q = column_sum(squares[j]);
            if (lane < 4) sums[warp * FILTERS + j / 2 * 8 + 2 * lane + j % 2] = make_float2(s, q);
        }
        __syncthreads();
        const float count = (float)pixels_between(first, last, num_images);
        for (int f = thread; f < FILTERS; f += THREADS) {
            float s = 0.0f, q = 0.0f;
            for (int w = 0; w < WARPS; ++w) s += sums[w * FILTERS + f].x, q += sums[w * FILTERS + f].y;
            const float mean = s / count;
            arguments.parts[((u64)chain * gridDim.x + blockIdx.x) * FILTERS + f] =
                make_float2(mean, fmaxf(q - s * mean, 0.0f));
        }
        if (FINISH && arguments.finish.norm && is_last_block(arguments.tickets + chain, gridDim.x, (u32*)shared))
            finish_norm(arguments.finish, chain, nullptr, true);
    }
}
