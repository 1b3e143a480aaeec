// Convolutions of every channel by a kernel of its own: sizes, and how they are read. A thread takes WIDTH channels of a STRIP of pixels
// side by side, so that what it reads serves several of them.
//
// Defines: STRIP (of the kernel that includes this), KERNEL (its width), STRIDE, ABOVE and LEFT (zero rows above and columns to the left
// of the image).

#include "pixel_sums.cuh"

// Pixels of the input that a strip of the output sees.
constexpr int SPAN = (STRIP - 1) * STRIDE + KERNEL;

struct DepthwiseSizes {
    u32 input_height;
    u32 input_width;
    u32 output_height;
    u32 output_width;
    u32 channels;
    u32 num_images;
};

DEVICE u32 strips_of(u32 width) { return (width + STRIP - 1) / STRIP; }

// The first pixel of a strip of all images, and a thread's first channel there.
struct Place {
    u32 x, y, image, channel;
};

DEVICE Place place_of(u32 number, u32 height, u32 width, u32 channels) {
    const u32 units = channels / WIDTH, strips = strips_of(width);
    const u32 strip = number / units, line = strip / strips, image = line / height;
    return {(strip - line * strips) * STRIP, line - image * height, image, (number - strip * units) * WIDTH};
}

// Weights of neighbouring channels.
DEVICE Pack load_weights(const element* kernel, u32 tap, u32 channels, u32 channel) {
    return load_pack(kernel, (u64)tap * channels + channel);
}

// sum += a b.
DEVICE void multiply_add(Pack& sum, const Pack& a, const Pack& b) {
#pragma unroll
    for (int i = 0; i < WIDTH; i++) sum.of[i] = fmaf(a.of[i], b.of[i], sum.of[i]);
}

// What readers see of the pixels of a line from `x` on, of which `width` are there: `body(column, value)` for each of SPAN that is. All
// are asked for before any is used.
template <class Body>
DEVICE void for_span(const Reading& input, const NormPack& norm, u64 line, u32 x, u32 width, const Body& body) {
    RawPack raw[SPAN] = {};
#pragma unroll
    for (int column = 0; column < SPAN; column++) {
        // To the left of the image it wraps around.
        if (x + column < width) raw[column] = load_raw(input.values, line + (u64)(x + column) * input.channels);
    }
#pragma unroll
    for (int column = 0; column < SPAN; column++) {
        if (x + column >= width) continue;
        Pack value = normed(norm, pack_of(raw[column]));
        if (input.relu) {
#pragma unroll
            for (int i = 0; i < WIDTH; i++) value.of[i] = value.of[i] < 0.0f ? 0.0f : value.of[i];
        }
        body(column, value);
    }
}

// a, b and c of a thread's channels.
struct SlopePack {
    bool has_norm;
    Pack a, b, c;

    DEVICE SlopePack(const Upstream& of, u32 chain, u32 channel) {
        has_norm = of.slopes != nullptr;
        if (!has_norm) return;
        const float* const slopes = of.slopes + (u64)chain * 3 * of.channels + channel;
        a = load_coefficients(slopes), b = load_coefficients(slopes + of.channels),
        c = load_coefficients(slopes + 2 * of.channels);
    }
};

// dV of COUNT pixels of a line from `x` on, of which `width` are there; 0 where there is none. All is asked for before any is used.
template <int COUNT>
DEVICE void load_gradients(Pack (&to)[COUNT], const Upstream& of, const SlopePack& slopes, u64 line, u32 x, u32 width) {
    RawPack gradient[COUNT] = {}, value[COUNT] = {};
#pragma unroll
    for (int i = 0; i < COUNT; i++) {
        if (x + i >= width) continue;
        gradient[i] = load_raw(of.gradient, line + (u64)(x + i) * of.channels);
        if (slopes.has_norm) value[i] = load_raw(of.values, line + (u64)(x + i) * of.channels);
    }
#pragma unroll
    for (int i = 0; i < COUNT; i++) {
        to[i] = pack_of(gradient[i]);
        if (!slopes.has_norm || x + i >= width) continue;
        const Pack own = pack_of(value[i]);
#pragma unroll
        for (int k = 0; k < WIDTH; k++)
            to[i].of[k] = fmaf(slopes.a.of[k], to[i].of[k], fmaf(slopes.b.of[k], own.of[k], slopes.c.of[k]));
    }
}
