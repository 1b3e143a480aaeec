// The arguments of the products of matrices, one for each chain: C[m, n] = Σ_k A[m, k] B[k, n].

struct ProductArguments {
    const void* a;      // [chain] a_stride apart; rows of `depth`, or of `rows` if transposed
    const void* b;      // [chain] b_stride apart; rows of `columns`, or of `depth` if transposed
    void* c;            // [chain] c_stride apart; rows of `columns`
    const float* bias;  // [chain] bias_stride apart
    const void* mask;   // C is 0 where this is not above 0; laid out like C
    u64 a_stride;
    u64 b_stride;
    u64 c_stride;
    u64 bias_stride;
    u32 rows;
    u32 columns;
    u32 depth;
    u32 num_splits;      // parts of k, each with a C of its own: [chain][split]
    float* column_sums;  // [chain][split][column]: Σ_k B[k, n]
};
