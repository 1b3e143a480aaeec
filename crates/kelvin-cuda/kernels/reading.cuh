// How a value is read, how the gradient of a value comes back, and how it is handed on; one chain of a group each.
//
//   read        u = s·V + t of each channel where there is a norm, then max(u, 0) where there is a ReLU
//   upstream    dV = a·D + b·V + c of each channel where there is a norm, else D       (D: gradient of u, masked)
//   downstream  D ← x, or D + x; the last to write keeps it where u > 0 and puts 0 elsewhere
//
// Values lie as [chain][image][row][column][channel]. Specification: network/images/reading.rs.

#include "element.cuh"

struct Reading {
    const element* values;
    // [chain][4][channel]: s, t, mean, 1/√(variance + ε); null where there is no norm.
    const float* norm;
    // Numbers of an image, and of a pixel.
    u32 len;
    u32 channels;
    u32 relu;
    u32 num_images;
};

struct Upstream {
    const element* gradient;
    const element* values;
    // [chain][3][channel]: a, b, c; null where there is no norm.
    const float* slopes;
    u32 len;
    u32 channels;
    u32 num_images;
    u32 reserved;
};

struct Downstream {
    element* gradient;
    u32 adds;
    u32 masks;
};

// Number `at` of a chain's images after the norm, before the ReLU.
DEVICE float uncut(const Reading& from, u32 chain, u32 at) {
    float value = load_element(from.values, (u64)chain * from.num_images * from.len + at);
    if (from.norm) {
        const float* norm = from.norm + (u64)chain * 4 * from.channels + at % from.channels;
        value = fmaf(norm[0], value, norm[from.channels]);
    }
    return value;
}

// The same as readers see it; a number that is none stays none.
DEVICE float read_value(const Reading& from, u32 chain, u32 at) {
    float value = uncut(from, chain, at);
    return from.relu && value < 0.0f ? 0.0f : value;
}

// dV of number `at` of a chain's images.
DEVICE float upstream(const Upstream& of, u32 chain, u32 at) {
    u64 place = (u64)chain * of.num_images * of.len + at;
    float gradient = load_element(of.gradient, place);
    if (of.slopes) {
        const float* slopes = of.slopes + (u64)chain * 3 * of.channels + at % of.channels;
        float own = fmaf(slopes[of.channels], load_element(of.values, place), slopes[2 * of.channels]);
        gradient = fmaf(slopes[0], gradient, own);
    }
    return gradient;
}

// Hands `term` to D of number `at` of a chain's images of the value that was read.
DEVICE void downstream(const Downstream& to, const Reading& from, u32 chain, u32 at, float term) {
    u64 place = (u64)chain * from.num_images * from.len + at;
    if (to.adds) term += load_element(to.gradient, place);
    if (to.masks && from.relu && !(uncut(from, chain, at) > 0.0f)) term = 0.0f;
    store_element(to.gradient, place, term);
}
