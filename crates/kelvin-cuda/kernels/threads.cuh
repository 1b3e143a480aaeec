// Threads of a block, for kernels whose threads work together.

#include "gpu.cuh"

#define THREADS 256
