// What the sum over GPUs needs beside NCCL: random whole numbers as floats, small enough that sums of up to 256 of them
// are exact whatever their order, and the count of sums that are not what they must be.

typedef unsigned int word;
typedef unsigned long long wide;

// Mixes all bits of a number (the finaliser of splitmix64: Steele, Lea, Flood, OOPSLA 2014).
__device__ __forceinline__ wide mix(wide x) {
    x += 0x9E3779B97F4A7C15ull;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
    return x ^ (x >> 31);
}

// A whole number from -32768 to 32767, or zero where factor is.
__device__ __forceinline__ float whole(wide seed, wide i, word factor) {
    return (float)(((int)(mix(seed ^ i) >> 48) - 32768) * (int)factor);
}

extern "C" __global__ void fill_whole(float *to, wide count, wide seed, word factor) {
    wide stride = (wide)gridDim.x * blockDim.x;
    for (wide i = (wide)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += stride) to[i] = whole(seed, i, factor);
}

// Counts the places where `sum` is not the sum of what so many seeds, one after another, put there.
extern "C" __global__ void unlike(const float *sum, wide count, wide seed, word factor, word seeds, wide *found) {
    wide stride = (wide)gridDim.x * blockDim.x;
    word wrong = 0;
    for (wide i = (wide)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += stride) {
        float expected = 0;
        for (word n = 0; n < seeds; n++) expected += whole(seed + n * 0x9E3779B97F4A7C15ull, i, factor);
        wrong += !(sum[i] == expected);
    }
    if (wrong) atomicAdd(found, (wide)wrong);
}
