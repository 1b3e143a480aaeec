// Where the parameters of a network of several hidden layers lie: in kelvin's order, and padded as products read them.
//
// Layer l of LAYERS leads from width(l − 1) to width(l) numbers. Its weights have a row for each of its inputs; rows start an odd
// number of fours apart, so that both the forward and the backward product read them from different banks. The last layer's
// weights have a row for each output.

constexpr int width(int l) {
    return l == 0 ? WIDTH_0 : l == 1 ? WIDTH_1 : l == 2 ? WIDTH_2 : l == 3 ? WIDTH_3 : WIDTH_4;
}
constexpr int eights(int count) { return (count + 7) / 8 * 8; }
// From one row of a layer's weights to the next.
constexpr int weight_stride(int l) { return l == LAYERS ? eights(width(l - 1)) : eights(width(l)) + 4; }
// From one row of a layer's values to the next: an odd number of eights.
constexpr int value_stride(int l) { return l == 0 ? STRIDE : 8 * ((width(l) + 7) / 8 | 1); }

// Parameters before a layer's: all of them for the layer after the last one.
constexpr int first_of_layer(int l) {
    return l <= 1 ? 0 : first_of_layer(l - 1) + (width(l - 2) + 1) * width(l - 1);
}
// The same among the padded ones.
constexpr int place_of_layer(int l) {
    return l <= 1 ? 0 : place_of_layer(l - 1) + eights(width(l - 2)) * weight_stride(l - 1) + eights(width(l - 1));
}
constexpr int place_of_bias(int l) {
    return place_of_layer(l) + (l == LAYERS ? OUTPUTS : eights(width(l - 1))) * weight_stride(l);
}

#define TENSORS (2 * LAYERS)
#define PARAMETERS first_of_layer(LAYERS + 1)
#define PADDED_PARAMETERS (place_of_bias(LAYERS) + (OUTPUTS + 3) / 4 * 4)

DEVICE int first_of_tensor(int tensor) {
    int first = PARAMETERS;
#pragma unroll
    for (int l = LAYERS; l > 0; --l) {
        if (tensor < 2 * l) first = first_of_layer(l + 1) - width(l);
        if (tensor < 2 * l - 1) first = first_of_layer(l);
    }
    return first;
}

DEVICE int tensor_of(int p) {
    int tensor = 0;
#pragma unroll
    for (int l = 1; l <= LAYERS; ++l) {
        if (p >= first_of_layer(l)) tensor = 2 * l - 2;
        if (p >= first_of_layer(l + 1) - width(l)) tensor = 2 * l - 1;
    }
    return tensor;
}

template <int l>
DEVICE int padded_place_from(int p) {
    if constexpr (l < LAYERS) {
        if (p >= first_of_layer(l + 1)) return padded_place_from<l + 1>(p);
    }
    constexpr int bias = first_of_layer(l + 1) - width(l);
    if (p >= bias) return place_of_bias(l) + p - bias;
    const int row = (p - first_of_layer(l)) / width(l), column = (p - first_of_layer(l)) % width(l);
    return place_of_layer(l) + (l < LAYERS ? row * weight_stride(l) + column : column * weight_stride(l) + row);
}

// Where a parameter lies among the padded ones.
DEVICE int padded_place(int p) { return padded_place_from<1>(p); }

// Where its gradient's sums lie.
DEVICE int place_of_sum(int p) { return p; }
