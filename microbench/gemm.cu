// What matrix products need beside the library: random operands of the types that the engine does not fill, and the
// comparison of many results with one.

typedef unsigned int word;
typedef unsigned long long wide;

// Mixes all bits of a number (the finaliser of splitmix64: Steele, Lea, Flood, OOPSLA 2014).
__device__ __forceinline__ wide mix(wide x) {
    x += 0x9E3779B97F4A7C15ull;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
    return x ^ (x >> 31);
}

__device__ __forceinline__ wide first() { return (wide)blockIdx.x * blockDim.x + threadIdx.x; }
__device__ __forceinline__ wide stride() { return (wide)gridDim.x * blockDim.x; }

// Two numbers of a normal distribution with deviation `scale` (Box, Muller, 1958).
__device__ __forceinline__ float2 normal(wide i, wide seed, float scale) {
    wide bits = mix(seed ^ i);
    float u = ((float)(word)(bits >> 40) + 1.0f) * 5.9604645e-8f;
    float angle = (float)(word)(bits & 0xFFFFFFu) * 3.7450704e-7f;
    float radius = scale * sqrtf(-2.0f * __logf(u));
    return make_float2(radius * __cosf(angle), radius * __sinf(angle));
}

// Gives a number all the bits of a double: those that a float lacks are random too.
__device__ __forceinline__ double widened(float x, wide bits) {
    return (double)x * (1.0 + (double)(bits >> 11) * 0x1p-76);
}

// Random numbers of a normal distribution, two a step; scale 0 gives zeros.
extern "C" __global__ void fill_double(double2 *to, wide pairs, wide seed, float scale) {
    for (wide i = first(); i < pairs; i += stride()) {
        float2 made = normal(i, seed, scale);
        wide more = mix(~seed ^ i);
        to[i] = make_double2(widened(made.x, more), widened(made.y, mix(more)));
    }
}

// The nearest number of eight bits, four of the exponent and three of the fraction; beyond the largest, the largest.
// A number is so many steps of the spacing that its exponent has, and the codes count the steps through.
__device__ __forceinline__ word e4m3_of(float x) {
    float size = fminf(fabsf(x), 448.0f);
    int exponent = max((int)(__float_as_uint(size) >> 23) - 127, -6);
    float spacing = __uint_as_float((word)(exponent + 124) << 23);
    word steps = (word)__float2int_rn(size / spacing);
    return ((word)(exponent + 6) * 8 + steps) | ((__float_as_uint(x) >> 24) & 0x80u);
}

extern "C" __global__ void fill_e4m3(ushort2 *to, wide quads, wide seed, float scale) {
    for (wide i = first(); i < quads; i += stride()) {
        float2 low = normal(2 * i, seed, scale), high = normal(2 * i + 1, seed, scale);
        to[i] = make_ushort2((unsigned short)(e4m3_of(low.x) | e4m3_of(low.y) << 8),
                             (unsigned short)(e4m3_of(high.x) | e4m3_of(high.y) << 8));
    }
}

// Compares many results that lie one behind the other, `each` units of 16 bytes long, with the one that they must be.
// Adds the bits that differ to found[0] and the words to found[1], and keeps the first unit that differs in found[2].
extern "C" __global__ void differ(const uint4 *many, wide units, const uint4 *wanted, wide each, wide *found) {
    wide bits = 0, words = 0, earliest = ~0ull, at = first() % each;
    for (wide i = first(); i < units; i += stride(), at += stride()) {
        while (at >= each) at -= each;
        uint4 a = many[i], b = wanted[at];
        word w[4] = {a.x ^ b.x, a.y ^ b.y, a.z ^ b.z, a.w ^ b.w};
        if (w[0] | w[1] | w[2] | w[3]) {
            for (int j = 0; j < 4; j++) {
                bits += __popc(w[j]);
                words += w[j] != 0;
            }
            if (i < earliest) earliest = i;
        }
    }
    if (words) {
        atomicAdd(&found[0], bits);
        atomicAdd(&found[1], words);
        atomicMin(&found[2], earliest);
    }
}
