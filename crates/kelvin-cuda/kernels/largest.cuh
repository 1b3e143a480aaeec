// Which pixel of a cell has the largest number, for pools of maxima: the first that has it, and what is no number before all others.

#include "pack.cuh"

struct Largest {
    Pack value = {};
    // Four bits for each channel.
    u32 places = 0;
    // The pixel that comes next.
    u32 pixel = 0;

    // Looks at number i of this pixel; whether none before was as large.
    DEVICE bool takes(int i, float number) {
        const bool larger = pixel == 0 || number > value.of[i] || number != number;
        if (larger) value.of[i] = number, places = (places & ~(15u << 4 * i)) | pixel << 4 * i;
        return larger;
    }
};

// Whether a pixel of a cell has the largest number i.
DEVICE bool is_largest(u32 places, int i, u32 pixel) { return (places >> 4 * i & 15u) == pixel; }
