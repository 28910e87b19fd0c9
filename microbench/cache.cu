// The second-level cache and the shared memory: read again and again, every word added up. 16 bytes are one unit.
//
// The sums are those of 32-bit words modulo 2^32: one instruction adds two words, so that adding up is not what is
// measured. Reads of shared memory are volatile in the machine's language too: it was seen to leave out the second read
// of a place that nobody writes, which "reads" four times what the banks can give, with the right sum.

typedef unsigned int word;
typedef unsigned long long wide;

__device__ __forceinline__ word total(uint4 v) { return v.x + v.y + v.z + v.w; }

__device__ __forceinline__ void add(word sum, word *sums, word slots) {
    for (int lane = 16; lane > 0; lane >>= 1) sum += __shfl_down_sync(0xFFFFFFFFu, sum, lane);
    if (threadIdx.x % 32 == 0) atomicAdd(&sums[blockIdx.x % slots], sum);
}

// Past the first-level cache, in which a part of the set would stay.
__device__ __forceinline__ uint4 far(const uint4 *from) {
    uint4 v;
    asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(from));
    return v;
}

__device__ __forceinline__ uint4 near(word at) {
    uint4 v;
    asm volatile("ld.volatile.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "r"(at));
    return v;
}

// The set is cut into slices, each of so many tiles, which lie alternately. Block by block the slices are dealt out, so
// that the blocks which run at one time read all of the set, and neighbours never the same line at the same time: those
// would be served together, which "reads" more than the multiprocessors can take.
template <int LOADS>
__device__ __forceinline__ void l2(const uint4 *from, word tiles, word slices, word passes, word *sums, word slots) {
    const word tile = blockDim.x * LOADS;
    word sum = 0;
    for (word pass = 0; pass < passes; ++pass) {
        const uint4 *at = from + (wide)(blockIdx.x % slices) * tile + threadIdx.x;
        for (word left = tiles; left > 0; --left, at += (wide)slices * tile) {
            uint4 v[LOADS];
#pragma unroll
            for (int j = 0; j < LOADS; ++j) v[j] = far(at + j * blockDim.x);
#pragma unroll
            for (int j = 0; j < LOADS; ++j) sum += total(v[j]);
        }
    }
    add(sum, sums, slots);
}

#define L2(LOADS)                                                                                                    \
    extern "C" __global__ void __launch_bounds__(1024)                                                               \
    l2_##LOADS(const uint4 *from, word tiles, word slices, word passes, word *sums, word slots) {                    \
        l2<LOADS>(from, tiles, slices, passes, sums, slots);                                                         \
    }

L2(1)
L2(4)
L2(8)

// Every block takes the set (ROOM units) into its shared memory once and reads it so many times. Neighbouring threads
// read neighbouring units: no two of a phase meet in one bank.
constexpr int ROOM = 2048;

template <int THREADS>
__device__ __forceinline__ void smem(const uint4 *from, word rounds, word *sums, word slots) {
    __shared__ uint4 room[ROOM];
    for (int i = threadIdx.x; i < ROOM; i += THREADS) room[i] = from[i];
    __syncthreads();
    const word at = (word)__cvta_generic_to_shared(room + threadIdx.x);
    word sum = 0;
#pragma unroll 4
    for (word round = 0; round < rounds; ++round) {
#pragma unroll
        for (int j = 0; j < ROOM / THREADS; ++j) sum += total(near(at + j * THREADS * 16));
    }
    add(sum, sums, slots);
}

#define SMEM(THREADS)                                                                                                \
    extern "C" __global__ void __launch_bounds__(THREADS)                                                            \
    smem_##THREADS(const uint4 *from, word rounds, word *sums, word slots) {                                         \
        smem<THREADS>(from, rounds, sums, slots);                                                                    \
    }

SMEM(256)
SMEM(512)
SMEM(1024)
