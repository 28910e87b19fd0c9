// Device memory: read, write and copy. One unit is 16 bytes, the widest access of one thread.
//
// A block takes whole tiles of LOADS units a thread and holds LOADS accesses in flight before it uses the first: by
// Little's law bandwidth is what is in flight over latency. The grid may be small (each block walks over many tiles) or
// have a block for every tile; which is faster differs between cards, so both are tried. The last tile may be partial:
// a loop that skipped it would report more than the memory can do, and the checks would miss words.

typedef unsigned int word;
typedef unsigned long long wide;

struct Plain {
    static __device__ __forceinline__ uint4 load(const uint4 *from) { return *from; }
    static __device__ __forceinline__ void store(uint4 *to, uint4 v) { *to = v; }
};

struct Streaming {
    static __device__ __forceinline__ uint4 load(const uint4 *from) { return __ldcs(from); }
    static __device__ __forceinline__ void store(uint4 *to, uint4 v) { __stcs(to, v); }
};

__device__ __forceinline__ wide total(uint4 v) { return (wide)v.x + v.y + v.z + v.w; }

// The words that are written: they differ from place to place, and can be computed again to count the wrong ones.
__device__ __forceinline__ uint4 pattern(wide unit, word seed, word factor) {
    word x = seed + (word)unit * 4u * factor;
    return make_uint4(x, x + factor, x + 2u * factor, x + 3u * factor);
}

template <typename Access, int LOADS>
__device__ __forceinline__ void read(const uint4 *from, wide units, wide *sums, word slots) {
    const wide tile = (wide)blockDim.x * LOADS;
    wide sum = 0;
    for (wide base = blockIdx.x * tile; base < units; base += gridDim.x * tile) {
        const wide at = base + threadIdx.x;
        if (base + tile <= units) {
            uint4 v[LOADS];
#pragma unroll
            for (int j = 0; j < LOADS; ++j) v[j] = Access::load(from + at + (wide)j * blockDim.x);
#pragma unroll
            for (int j = 0; j < LOADS; ++j) sum += total(v[j]);
        } else {
            for (wide i = at; i < units; i += blockDim.x) sum += total(Access::load(from + i));
        }
    }
    for (int lane = 16; lane > 0; lane >>= 1) sum += __shfl_down_sync(0xFFFFFFFFu, sum, lane);
    __shared__ wide warps[32];
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (word warp = 1; warp < blockDim.x / 32; ++warp) sum += warps[warp];
        atomicAdd(&sums[blockIdx.x % slots], sum);
    }
}

template <typename Access, int LOADS>
__device__ __forceinline__ void write(uint4 *to, wide units, word seed, word factor) {
    const wide tile = (wide)blockDim.x * LOADS;
    for (wide base = blockIdx.x * tile; base < units; base += gridDim.x * tile) {
        const wide at = base + threadIdx.x;
        if (base + tile <= units) {
#pragma unroll
            for (int j = 0; j < LOADS; ++j) {
                const wide i = at + (wide)j * blockDim.x;
                Access::store(to + i, pattern(i, seed, factor));
            }
        } else {
            for (wide i = at; i < units; i += blockDim.x) Access::store(to + i, pattern(i, seed, factor));
        }
    }
}

template <typename Access, int LOADS>
__device__ __forceinline__ void copy(uint4 *to, const uint4 *from, wide units) {
    const wide tile = (wide)blockDim.x * LOADS;
    for (wide base = blockIdx.x * tile; base < units; base += gridDim.x * tile) {
        const wide at = base + threadIdx.x;
        if (base + tile <= units) {
            uint4 v[LOADS];
#pragma unroll
            for (int j = 0; j < LOADS; ++j) v[j] = Access::load(from + at + (wide)j * blockDim.x);
#pragma unroll
            for (int j = 0; j < LOADS; ++j) Access::store(to + at + (wide)j * blockDim.x, v[j]);
        } else {
            for (wide i = at; i < units; i += blockDim.x) Access::store(to + i, Access::load(from + i));
        }
    }
}

#define READ(name, Access, LOADS)                                                                                    \
    extern "C" __global__ void __launch_bounds__(1024)                                                               \
    read_##name##_##LOADS(const uint4 *from, wide units, wide *sums, word slots) {                                   \
        read<Access, LOADS>(from, units, sums, slots);                                                               \
    }
#define WRITE(name, Access, LOADS)                                                                                   \
    extern "C" __global__ void __launch_bounds__(1024)                                                               \
    write_##name##_##LOADS(uint4 *to, wide units, word seed, word factor) {                                          \
        write<Access, LOADS>(to, units, seed, factor);                                                               \
    }
#define COPY(name, Access, LOADS)                                                                                    \
    extern "C" __global__ void __launch_bounds__(1024)                                                               \
    copy_##name##_##LOADS(uint4 *__restrict__ to, const uint4 *__restrict__ from, wide units) {                      \
        copy<Access, LOADS>(to, from, units);                                                                        \
    }

READ(plain, Plain, 4)
READ(plain, Plain, 8)
READ(streaming, Streaming, 2)
READ(streaming, Streaming, 4)
READ(streaming, Streaming, 8)
WRITE(plain, Plain, 1)
WRITE(plain, Plain, 2)
WRITE(plain, Plain, 8)
WRITE(streaming, Streaming, 1)
WRITE(streaming, Streaming, 2)
COPY(plain, Plain, 1)
COPY(plain, Plain, 2)
COPY(streaming, Streaming, 1)
COPY(streaming, Streaming, 2)
COPY(streaming, Streaming, 8)

// Counts the units that do not hold what write() puts there; simple on purpose, so that it shares no fault with it.
extern "C" __global__ void wrong(const uint4 *from, wide units, word seed, word factor, wide *count) {
    for (wide i = (wide)blockIdx.x * blockDim.x + threadIdx.x; i < units; i += (wide)gridDim.x * blockDim.x) {
        const uint4 v = from[i], w = pattern(i, seed, factor);
        if (v.x != w.x || v.y != w.y || v.z != w.z || v.w != w.w) atomicAdd(count, 1ull);
    }
}
