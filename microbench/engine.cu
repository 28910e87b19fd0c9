// What every benchmark needs beside its own work: a gate that holds the stream back, stamps of time and clock, random
// data, and a checksum. 16 bytes are one unit; sizes are whole units.

typedef unsigned int word;
typedef unsigned long long wide;

__device__ __forceinline__ wide now() {
    wide nanoseconds;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(nanoseconds));
    return nanoseconds;
}

// Mixes all bits of a number (the finaliser of splitmix64: Steele, Lea, Flood, OOPSLA 2014).
__device__ __forceinline__ wide mix(wide x) {
    x += 0x9E3779B97F4A7C15ull;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
    return x ^ (x >> 31);
}

__device__ __forceinline__ wide first() { return (wide)blockIdx.x * blockDim.x + threadIdx.x; }
__device__ __forceinline__ wide stride() { return (wide)gridDim.x * blockDim.x; }

// Holds the stream until the host raises flag[0], so that the cost of enqueuing lies before the timed window. Gives up
// after its patience and says so in flag[1]: a sample that was not held back is no sample.
extern "C" __global__ void gate(volatile word *flag, wide patience) {
    wide begun = now();
    while (flag[0] == 0) {
        if (now() - begun > patience) {
            flag[1] = 1;
            return;
        }
    }
}

// Stores time in nanoseconds and the clock counter of every multiprocessor that a block lands on. The counters of two
// multiprocessors are unrelated: compare each with itself.
extern "C" __global__ void stamp(wide *slots, word room) {
    word at;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(at));
    if (threadIdx.x == 0 && at < room) {
        slots[2 * at] = now();
        slots[2 * at + 1] = clock64();
    }
}

// Random bits. factor 0 and seed 0 give zeros.
extern "C" __global__ void fill_bits(uint4 *to, wide units, wide seed, wide factor) {
    for (wide i = first(); i < units; i += stride()) {
        wide low = mix(seed ^ (2 * i)) * factor, high = mix(seed ^ (2 * i + 1)) * factor;
        to[i] = make_uint4((word)low, (word)(low >> 32), (word)high, (word)(high >> 32));
    }
}

__device__ __forceinline__ unsigned short half_of(float x) {
    unsigned short bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
    return bits;
}

__device__ __forceinline__ unsigned short bfloat_of(float x) {
    word bits = __float_as_uint(x);
    return (unsigned short)((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
}

// Two numbers of a normal distribution with deviation `scale` (Box, Muller, 1958).
__device__ __forceinline__ float2 normal(wide i, wide seed, float scale) {
    wide bits = mix(seed ^ i);
    float u = ((float)(word)(bits >> 40) + 1.0f) * 5.9604645e-8f;
    float angle = (float)(word)(bits & 0xFFFFFFu) * 3.7450704e-7f;
    float radius = scale * sqrtf(-2.0f * __logf(u));
    return make_float2(radius * __cosf(angle), radius * __sinf(angle));
}

// Random numbers of a normal distribution, two a step; scale 0 gives zeros.
extern "C" __global__ void fill_float(float2 *to, wide pairs, wide seed, float scale) {
    for (wide i = first(); i < pairs; i += stride()) to[i] = normal(i, seed, scale);
}

extern "C" __global__ void fill_half(ushort2 *to, wide pairs, wide seed, float scale) {
    for (wide i = first(); i < pairs; i += stride()) {
        float2 made = normal(i, seed, scale);
        to[i] = make_ushort2(half_of(made.x), half_of(made.y));
    }
}

extern "C" __global__ void fill_bfloat(ushort2 *to, wide pairs, wide seed, float scale) {
    for (wide i = first(); i < pairs; i += stride()) {
        float2 made = normal(i, seed, scale);
        to[i] = make_ushort2(bfloat_of(made.x), bfloat_of(made.y));
    }
}

// Adds to sums[0] every 32-bit word, and to sums[1] every word mixed with its place: two arrays with equal second sums
// hold the same words in the same order.
extern "C" __global__ void checksum(const uint4 *from, wide units, wide *sums) {
    wide plain = 0, placed = 0;
    for (wide i = first(); i < units; i += stride()) {
        uint4 v = from[i];
        plain += (wide)v.x + v.y + v.z + v.w;
        placed += mix(((wide)v.y << 32 | v.x) ^ mix(2 * i)) + mix(((wide)v.w << 32 | v.z) ^ mix(2 * i + 1));
    }
    for (int lane = 16; lane > 0; lane >>= 1) {
        plain += __shfl_down_sync(0xFFFFFFFFu, plain, lane);
        placed += __shfl_down_sync(0xFFFFFFFFu, placed, lane);
    }
    if (threadIdx.x % 32 == 0) {
        atomicAdd(&sums[0], plain);
        atomicAdd(&sums[1], placed);
    }
}
