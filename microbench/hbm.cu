// Device memory: read, write, copy and triad. One unit is 16 bytes, the widest access of one thread.
//
// A block takes whole tiles of LOADS units a thread and holds LOADS accesses in flight before it uses the first: by
// Little's law bandwidth is what is in flight over latency. The grid may be small (each block walks over many tiles) or
// have a block for every tile; which is faster differs between cards, so both are tried. The last tile may be partial:
// a loop that skipped it would report more than the memory can do, and the checks would miss words.

typedef unsigned int word;
typedef unsigned long long wide;

struct Plain {
    template <typename Unit> static __device__ __forceinline__ Unit load(const Unit *from) { return *from; }
    template <typename Unit> static __device__ __forceinline__ void store(Unit *to, Unit v) { *to = v; }
};

struct Streaming {
    template <typename Unit> static __device__ __forceinline__ Unit load(const Unit *from) { return __ldcs(from); }
    template <typename Unit> static __device__ __forceinline__ void store(Unit *to, Unit v) { __stcs(to, v); }
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

// One rounding, so that the check below comes to the same bits.
__device__ __forceinline__ double2 multiplied(double2 b, double2 c, double scalar) {
    return make_double2(__fma_rn(scalar, c.x, b.x), __fma_rn(scalar, c.y, b.y));
}

template <typename Access, int LOADS>
__device__ __forceinline__ void triad(double2 *a, const double2 *b, const double2 *c, wide units, double scalar) {
    const wide tile = (wide)blockDim.x * LOADS;
    for (wide base = blockIdx.x * tile; base < units; base += gridDim.x * tile) {
        const wide at = base + threadIdx.x;
        if (base + tile <= units) {
            double2 v[LOADS], w[LOADS];
#pragma unroll
            for (int j = 0; j < LOADS; ++j) {
                v[j] = Access::load(b + at + (wide)j * blockDim.x);
                w[j] = Access::load(c + at + (wide)j * blockDim.x);
            }
#pragma unroll
            for (int j = 0; j < LOADS; ++j)
                Access::store(a + at + (wide)j * blockDim.x, multiplied(v[j], w[j], scalar));
        } else {
            for (wide i = at; i < units; i += blockDim.x)
                Access::store(a + i, multiplied(Access::load(b + i), Access::load(c + i), scalar));
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
#define TRIAD(name, Access, LOADS)                                                                                   \
    extern "C" __global__ void __launch_bounds__(1024)                                                               \
    triad_##name##_##LOADS(double2 *__restrict__ a, const double2 *__restrict__ b, const double2 *__restrict__ c,    \
                           wide units, float scalar) {                                                               \
        triad<Access, LOADS>(a, b, c, units, scalar);                                                                \
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
TRIAD(plain, Plain, 1)
TRIAD(plain, Plain, 2)
TRIAD(streaming, Streaming, 1)
TRIAD(streaming, Streaming, 2)
TRIAD(streaming, Streaming, 4)

// Counts the units that do not hold what write() puts there; simple on purpose, so that it shares no fault with it.
extern "C" __global__ void wrong(const uint4 *from, wide units, word seed, word factor, wide *count) {
    for (wide i = (wide)blockIdx.x * blockDim.x + threadIdx.x; i < units; i += (wide)gridDim.x * blockDim.x) {
        const uint4 v = from[i], w = pattern(i, seed, factor);
        if (v.x != w.x || v.y != w.y || v.z != w.z || v.w != w.w) atomicAdd(count, 1ull);
    }
}

// The same for triad(): counts the units of a that are not b + scalar c, bit for bit.
extern "C" __global__ void unequal(const double2 *a, const double2 *b, const double2 *c, wide units, float scalar,
                                   wide *count) {
    for (wide i = (wide)blockIdx.x * blockDim.x + threadIdx.x; i < units; i += (wide)gridDim.x * blockDim.x) {
        const double2 v = a[i];
        const wide x = __double_as_longlong(__fma_rn((double)scalar, c[i].x, b[i].x));
        const wide y = __double_as_longlong(__fma_rn((double)scalar, c[i].y, b[i].y));
        if (__double_as_longlong(v.x) != x || __double_as_longlong(v.y) != y) atomicAdd(count, 1ull);
    }
}

#if __CUDA_ARCH__ >= 900
// Copies by the bulk copy engine of each multiprocessor, through shared memory: one thread of a block asks for a piece,
// waits for it, and sends it on; no register holds what is on its way. A ROOM larger than the piece keeps down how many
// blocks, and so pieces, are on their way at one time.
__device__ __forceinline__ word place(const void *shared) { return (word)__cvta_generic_to_shared(shared); }

template <int BYTES, int ROOM>
__device__ __forceinline__ void bulk(char *to, const char *from, wide size) {
    __shared__ alignas(128) char room[ROOM];
    __shared__ alignas(8) wide full;
    if (threadIdx.x) return;
    const wide at = (wide)blockIdx.x * BYTES;
    const word bytes = (word)min((wide)BYTES, size - at);
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(place(&full)));
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(place(&full)), "r"(bytes) : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" //
                 ::"r"(place(room)), "l"(from + at), "r"(bytes), "r"(place(&full))
                 : "memory");
    for (word done = 0; !done;)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }"
                     : "=r"(done)
                     : "r"(place(&full))
                     : "memory");
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" //
                 ::"l"(to + at), "r"(place(room)), "r"(bytes)
                 : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

#define BULK(BYTES, ROOM)                                                                                            \
    extern "C" __global__ void __launch_bounds__(32)                                                                 \
    bulk_##BYTES##_##ROOM(char *to, const char *from, wide units) {                                                  \
        bulk<BYTES, ROOM>(to, from, 16 * units);                                                                     \
    }

BULK(8192, 32768)
BULK(16384, 32768)
#endif
