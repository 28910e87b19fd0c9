// What the tensor cores of one multiprocessor do in a clock, from registers alone: no memory and no clock has a say.
//
// CHAINS independent products a warp, one after the other, WARPS warps on every multiprocessor, and the clock counter
// before and after. All operands are one, so every entry must come to the depth of the product times the rounds.

typedef unsigned int word;
typedef unsigned long long wide;

#if __CUDA_ARCH__ >= 800
constexpr int CHAINS = 8;

// Four registers of the sum, four of A (all entries one), two of B: what mma.sync takes of a thread for 16 x 8 x K.
#define FLOAT_PRODUCT(instruction)                                                                                   \
    static __device__ __forceinline__ void multiply(float *d, word one) {                                            \
        asm volatile(instruction " {%0, %1, %2, %3}, {%4, %4, %4, %4}, {%4, %4}, {%0, %1, %2, %3};"                  \
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                                                \
                     : "r"(one));                                                                                    \
    }

struct Half {
    typedef float Sum;
    static constexpr word ONE = 0x3C003C00u, DEPTH = 16;
    FLOAT_PRODUCT("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32")
};

struct Bfloat {
    typedef float Sum;
    static constexpr word ONE = 0x3F803F80u, DEPTH = 16;
    FLOAT_PRODUCT("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32")
};

struct Tensor {
    typedef float Sum;
    static constexpr word ONE = 0x3F800000u, DEPTH = 8;
    FLOAT_PRODUCT("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32")
};

struct Byte {
    typedef int Sum;
    static constexpr word ONE = 0x01010101u, DEPTH = 32;
    static __device__ __forceinline__ void multiply(int *d, word one) {
        asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %4, %4, %4}, {%4, %4}, "
                     "{%0, %1, %2, %3};"
                     : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
                     : "r"(one));
    }
};

template <typename Kind>
__device__ __forceinline__ void mma(word rounds, wide *cycles, word *wrong) {
    typename Kind::Sum d[CHAINS][4] = {};
    __syncthreads();
    const wide begun = clock64();
    for (word round = 0; round < rounds; ++round) {
#pragma unroll
        for (int chain = 0; chain < CHAINS; ++chain) Kind::multiply(d[chain], Kind::ONE);
    }
    __syncthreads();
    const wide ended = clock64();
    for (int i = 0; i < 4 * CHAINS; ++i)
        if (d[i / 4][i % 4] != (typename Kind::Sum)(Kind::DEPTH * rounds)) atomicAdd(wrong, 1u);
    if (threadIdx.x == 0) cycles[blockIdx.x] = ended - begun;
}

#define MMA(name, Kind)                                                                                              \
    extern "C" __global__ void __launch_bounds__(1024) mma_##name(word rounds, wide *cycles, word *wrong) {          \
        mma<Kind>(rounds, cycles, wrong);                                                                            \
    }

MMA(fp16, Half)
MMA(bf16, Bfloat)
MMA(tf32, Tensor)
MMA(int8, Byte)

#if __CUDA_ARCH__ >= 890 && __CUDACC_VER_MAJOR__ * 100 + __CUDACC_VER_MINOR__ >= 1204
struct Eight {
    typedef float Sum;
    static constexpr word ONE = 0x38383838u, DEPTH = 32;
    FLOAT_PRODUCT("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32")
};
MMA(fp8, Eight)
#endif
#endif

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
// Hopper's own products, of four warps at once with A and B in shared memory: mma.sync reaches a part of these alone.
#define WIDE_PRODUCT(instruction, ending)                                                                            \
    static __device__ __forceinline__ void multiply(float *d, wide ones) {                                           \
        asm volatile(instruction                                                                                     \
                     " {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, "  \
                     "%20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, %32, %32, 1, 1, "                 \
                     "1" ending ";"                                                                                  \
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),           \
                       "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]),       \
                       "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]),    \
                       "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]),    \
                       "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])                                            \
                     : "l"(ones));                                                                                   \
    }

struct WideHalf {
    static constexpr word ONE = 0x3C003C00u, DEPTH = 16;
    WIDE_PRODUCT("wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16", ", 0, 0")
};
struct WideBfloat {
    static constexpr word ONE = 0x3F803F80u, DEPTH = 16;
    WIDE_PRODUCT("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16", ", 0, 0")
};
struct WideTensor {
    static constexpr word ONE = 0x3F800000u, DEPTH = 8;
    WIDE_PRODUCT("wgmma.mma_async.sync.aligned.m64n64k8.f32.tf32.tf32", "")
};
struct WideEight {
    static constexpr word ONE = 0x38383838u, DEPTH = 32;
    WIDE_PRODUCT("wgmma.mma_async.sync.aligned.m64n64k32.f32.e4m3.e4m3", "")
};

constexpr int GROUP = 32;

template <typename Kind>
__device__ __forceinline__ void wgmma(word rounds, wide *cycles, word *wrong) {
    __shared__ alignas(1024) word ones[2048];
    for (int i = threadIdx.x; i < 2048; i += blockDim.x) ones[i] = Kind::ONE;
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    // Entries are all alike, so their order does not matter: any offsets within the room will do.
    const wide descriptor = (((wide)__cvta_generic_to_shared(ones) & 0x3FFFFu) >> 4) | (8ull << 16) | (16ull << 32);
    float d[32] = {};
    const wide begun = clock64();
    for (word round = 0; round < rounds; round += GROUP) {
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
        for (int i = 0; i < GROUP; ++i) Kind::multiply(d, descriptor);
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    }
    __syncthreads();
    const wide ended = clock64();
    for (int i = 0; i < 32; ++i)
        if (d[i] != (float)(Kind::DEPTH * rounds)) atomicAdd(wrong, 1u);
    if (threadIdx.x == 0) cycles[blockIdx.x] = ended - begun;
}

#define WGMMA(name, Kind)                                                                                            \
    extern "C" __global__ void __launch_bounds__(512) wgmma_##name(word rounds, wide *cycles, word *wrong) {         \
        wgmma<Kind>(rounds, cycles, wrong);                                                                          \
    }

WGMMA(fp16, WideHalf)
WGMMA(bf16, WideBfloat)
WGMMA(tf32, WideTensor)
WGMMA(fp8, WideEight)
#endif
