// The layers of a traced model beside its matrix products, in three precisions. Sums, exponentials and roots are taken
// in fp32; tensors lie row by row, images as (batch, height, width, channels), and hold less than 2^32 numbers. Each
// thread works on 16 bytes wherever rows are whole multiples of that, else number by number.

typedef unsigned int word;

#define ALL 0xFFFFFFFFu
#define LANES 32

#ifndef ON_HOST  // the tests compile this file for the processor too, with threads of their own
extern __shared__ float row_held[];

__device__ __forceinline__ float half_to(word bits) {
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"((unsigned short)bits));
    return x;
}

__device__ __forceinline__ word half_of(float x) {
    unsigned short bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
    return bits;
}
#endif

__device__ __forceinline__ float bfloat_to(word bits) { return __uint_as_float(bits << 16); }

__device__ __forceinline__ word bfloat_of(float x) {
    word bits = __float_as_uint(x);
    return (bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16;
}

// One precision each: how a number is stored, how many are in 16 bytes, and how they are read and written.
struct Fp32 {
    typedef float stored;
    enum { PACK = 4 };
    static __device__ __forceinline__ float to(stored x) { return x; }
    static __device__ __forceinline__ stored of(float x) { return x; }
    static __device__ __forceinline__ void open(uint4 raw, float *x) {
        x[0] = __uint_as_float(raw.x), x[1] = __uint_as_float(raw.y);
        x[2] = __uint_as_float(raw.z), x[3] = __uint_as_float(raw.w);
    }
    static __device__ __forceinline__ uint4 close(const float *x) {
        return make_uint4(__float_as_uint(x[0]), __float_as_uint(x[1]), __float_as_uint(x[2]), __float_as_uint(x[3]));
    }
};

template <class Kind>
struct Short {
    typedef unsigned short stored;
    enum { PACK = 8 };
    static __device__ __forceinline__ float to(stored x) { return Kind::wider(x); }
    static __device__ __forceinline__ stored of(float x) { return (stored)Kind::shorter(x); }
    static __device__ __forceinline__ void open(uint4 raw, float *x) {
        word w[4] = {raw.x, raw.y, raw.z, raw.w};
        for (int i = 0; i < 4; i++) x[2 * i] = Kind::wider(w[i] & 0xFFFFu), x[2 * i + 1] = Kind::wider(w[i] >> 16);
    }
    static __device__ __forceinline__ uint4 close(const float *x) {
        word w[4];
        for (int i = 0; i < 4; i++) w[i] = Kind::shorter(x[2 * i]) | Kind::shorter(x[2 * i + 1]) << 16;
        return make_uint4(w[0], w[1], w[2], w[3]);
    }
};

struct Fp16 : Short<Fp16> {
    static __device__ __forceinline__ float wider(word bits) { return half_to(bits); }
    static __device__ __forceinline__ word shorter(float x) { return half_of(x); }
};

struct Bf16 : Short<Bf16> {
    static __device__ __forceinline__ float wider(word bits) { return bfloat_to(bits); }
    static __device__ __forceinline__ word shorter(float x) { return bfloat_of(x); }
};

// Reads and writes the numbers from place `at` on, `left` of them at most: 16 bytes at once where `whole` says that
// every row begins at a multiple of them.
template <class K>
__device__ __forceinline__ void load(const typename K::stored *from, word at, word left, bool whole, float *x) {
    if (whole) {
        K::open(*reinterpret_cast<const uint4 *>(from + at), x);
    } else {
        for (int i = 0; i < K::PACK; i++) x[i] = i < left ? K::to(from[at + i]) : 0.0f;
    }
}

template <class K>
__device__ __forceinline__ void store(typename K::stored *to, word at, word left, bool whole, const float *x) {
    if (whole) {
        *reinterpret_cast<uint4 *>(to + at) = K::close(x);
    } else {
        for (int i = 0; i < K::PACK; i++)
            if (i < left) to[at + i] = K::of(x[i]);
    }
}

__device__ __forceinline__ word place() { return blockIdx.x * blockDim.x + threadIdx.x; }

struct Plain {
    static __device__ __forceinline__ float of(float x) { return x; }
};
struct Relu {
    static __device__ __forceinline__ float of(float x) { return x > 0.0f ? x : 0.0f; }
};
struct Gelu {  // with tanh: Hendrycks, Gimpel, "Gaussian Error Linear Units", 2016
    static __device__ __forceinline__ float of(float x) {
        return 0.5f * x * (1.0f + tanhf(0.7978845608028654f * (x + 0.044715f * x * x * x)));
    }
};

// to = activation(from + bias), the bias along the last axis.
template <class K, class A>
__device__ __forceinline__ void biased(typename K::stored *to, const typename K::stored *from,
                                       const typename K::stored *bias, word count, word columns) {
    word at = place() * K::PACK;
    if (at >= count) return;
    bool whole = columns % K::PACK == 0;
    float x[K::PACK], b[K::PACK];
    load<K>(from, at, count - at, whole, x);
    if (whole) {
        load<K>(bias, at % columns, K::PACK, true, b);
    } else {
        for (int i = 0; i < K::PACK; i++) b[i] = K::to(bias[(at + i) % columns]);
    }
    for (int i = 0; i < K::PACK; i++) x[i] = A::of(x[i] + b[i]);
    store<K>(to, at, count - at, whole, x);
}

// to = left + right.
template <class K>
__device__ __forceinline__ void added(typename K::stored *to, const typename K::stored *left,
                                      const typename K::stored *right, word count) {
    word at = place() * K::PACK;
    if (at >= count) return;
    bool whole = count % K::PACK == 0;
    float x[K::PACK], y[K::PACK];
    load<K>(left, at, count - at, whole, x);
    load<K>(right, at, count - at, whole, y);
    for (int i = 0; i < K::PACK; i++) x[i] += y[i];
    store<K>(to, at, count - at, whole, x);
}

struct Sum {
    static __device__ __forceinline__ float none() { return 0.0f; }
    static __device__ __forceinline__ float of(float a, float b) { return a + b; }
};
struct Most {
    static __device__ __forceinline__ float none() { return -3.0e38f; }
    static __device__ __forceinline__ float of(float a, float b) { return a > b ? a : b; }
};

// Joins one number of each thread of the block; every thread gets the result.
template <class J>
__device__ __forceinline__ float joined(float x) {
    __shared__ float warps[LANES];
    for (int lane = LANES / 2; lane > 0; lane >>= 1) x = J::of(x, __shfl_xor_sync(ALL, x, lane));
    __syncthreads();  // the last result has been read by all
    if (threadIdx.x % LANES == 0) warps[threadIdx.x / LANES] = x;
    __syncthreads();
    x = threadIdx.x % LANES < blockDim.x / LANES ? warps[threadIdx.x % LANES] : J::none();
    for (int lane = LANES / 2; lane > 0; lane >>= 1) x = J::of(x, __shfl_xor_sync(ALL, x, lane));
    return x;
}

// Each row with mean 0 and variance 1, times gamma, plus beta: one block a row, which it keeps in shared memory.
template <class K>
__device__ __forceinline__ void normed(typename K::stored *to, const typename K::stored *from,
                                       const typename K::stored *gamma, const typename K::stored *beta, word columns,
                                       float epsilon) {
    word start = blockIdx.x * columns;
    bool whole = columns % K::PACK == 0;
    word step = blockDim.x * K::PACK, mine = threadIdx.x * K::PACK;
    float x[K::PACK], g[K::PACK], b[K::PACK], sum = 0.0f, squares = 0.0f;
    for (word at = mine; at < columns; at += step) {
        load<K>(from, start + at, columns - at, whole, x);
        for (int i = 0; i < K::PACK; i++)
            if (at + i < columns) sum += row_held[at + i] = x[i];
    }
    float mean = joined<Sum>(sum) / columns;
    for (word at = mine; at < columns; at += step)
        for (int i = 0; i < K::PACK; i++)
            if (at + i < columns) squares += (row_held[at + i] - mean) * (row_held[at + i] - mean);
    float scale = 1.0f / sqrtf(joined<Sum>(squares) / columns + epsilon);
    for (word at = mine; at < columns; at += step) {
        load<K>(gamma, at, columns - at, whole, g);
        load<K>(beta, at, columns - at, whole, b);
        for (int i = 0; i < K::PACK; i++)
            x[i] = at + i < columns ? (row_held[at + i] - mean) * scale * g[i] + b[i] : 0.0f;
        store<K>(to, start + at, columns - at, whole, x);
    }
}

// Softmax of each row times `scale`, one block a row, which it keeps in shared memory. Where `causal` is 1, row i of
// each square sees places 0 to i alone; the others become 0.
template <class K>
__device__ __forceinline__ void shared_out(typename K::stored *to, const typename K::stored *from, word rows,
                                           word columns, float scale, word causal) {
    word start = blockIdx.x * columns;
    word seen = causal ? min(blockIdx.x % rows + 1, columns) : columns;
    bool whole = columns % K::PACK == 0;
    word step = blockDim.x * K::PACK, mine = threadIdx.x * K::PACK;
    float x[K::PACK], most = Most::none(), sum = 0.0f;
    for (word at = mine; at < seen; at += step) {
        load<K>(from, start + at, columns - at, whole, x);
        for (int i = 0; i < K::PACK; i++)
            if (at + i < seen) most = Most::of(most, row_held[at + i] = x[i] * scale);
    }
    most = joined<Most>(most);
    for (word at = mine; at < seen; at += step)
        for (int i = 0; i < K::PACK; i++)
            if (at + i < seen) sum += row_held[at + i] = expf(row_held[at + i] - most);
    float part = 1.0f / joined<Sum>(sum);
    for (word at = mine; at < columns; at += step) {
        for (int i = 0; i < K::PACK; i++) x[i] = at + i < seen ? row_held[at + i] * part : 0.0f;
        store<K>(to, start + at, columns - at, whole, x);
    }
}

// (batch x sequence, 3 x heads x depth) becomes q and k as (batch x heads, sequence, depth), and v with the last two
// axes exchanged. A block of 32 x 8 threads takes 32 places x 32 numbers of one head; v goes through shared memory, so
// that its columns are written as whole rows. grid = places / 32, depth / 32, batch x heads.
template <class K>
__device__ __forceinline__ void parted(typename K::stored *q, typename K::stored *k, typename K::stored *v,
                                       const typename K::stored *from, word sequence, word heads, word depth) {
    __shared__ typename K::stored tile[LANES][LANES + 2];
    word head = blockIdx.z % heads, batch = blockIdx.z / heads, width = heads * depth;
    word place0 = blockIdx.x * LANES, number0 = blockIdx.y * LANES, number = number0 + threadIdx.x;
    for (word i = threadIdx.y; i < LANES; i += blockDim.y) {
        word at = place0 + i;
        if (at >= sequence || number >= depth) continue;
        word source = (batch * sequence + at) * 3 * width + head * depth + number;
        word target = (blockIdx.z * sequence + at) * depth + number;
        q[target] = from[source];
        k[target] = from[source + width];
        tile[i][threadIdx.x] = from[source + 2 * width];
    }
    __syncthreads();
    for (word i = threadIdx.y; i < LANES; i += blockDim.y) {
        word at = place0 + threadIdx.x, line = number0 + i;
        if (at < sequence && line < depth) v[(blockIdx.z * depth + line) * sequence + at] = tile[threadIdx.x][i];
    }
}

// (batch x heads, sequence, depth) becomes (batch x sequence, heads x depth); depth is a multiple of 16 bytes, or all
// goes number by number.
template <class K>
__device__ __forceinline__ void merged(typename K::stored *to, const typename K::stored *from, word count,
                                       word sequence, word heads, word depth) {
    word step = depth % K::PACK ? 1 : K::PACK;
    word at = place() * step;
    if (at >= count) return;
    word number = at % depth, head = at / depth % heads, line = at / depth / heads;
    word source = ((line / sequence * heads + head) * sequence + line % sequence) * depth + number;
    if (step == 1)
        to[at] = from[source];
    else
        *reinterpret_cast<uint4 *>(to + at) = *reinterpret_cast<const uint4 *>(from + source);
}

// The pixels that a convolution of 3 x 3 sees from each place, as one row of `padded` numbers: (ky, kx, channel), zeros
// beyond the edge of the image and behind the last. So the convolution becomes a matrix product.
template <class K>
__device__ __forceinline__ void unrolled(typename K::stored *to, const typename K::stored *from, word count, word high,
                                         word broad, word channels, word padded) {
    word step = channels % K::PACK ? 1 : K::PACK;
    word at = place() * step;
    if (at >= count) return;
    word column = at % padded, tap = column / channels;
    word pixel = at / padded;
    int y = (int)(pixel / broad % high) + (int)(tap / 3) - 1, x = (int)(pixel % broad) + (int)(tap % 3) - 1;
    bool inside = tap < 9 && y >= 0 && y < (int)high && x >= 0 && x < (int)broad;
    word source = ((pixel / broad / high * high + y) * broad + x) * channels + column % channels;
    if (step == 1)
        to[at] = inside ? from[source] : K::of(0.0f);
    else
        *reinterpret_cast<uint4 *>(to + at) =
            inside ? *reinterpret_cast<const uint4 *>(from + source) : make_uint4(0, 0, 0, 0);
}

// Rows of `columns` numbers become rows of `padded`, with zeros behind them: tensor cores want whole 16 bytes.
template <class K>
__device__ __forceinline__ void padded_out(typename K::stored *to, const typename K::stored *from, word count,
                                           word columns, word padded) {
    word at = place();
    if (at < count) to[at] = at % padded < columns ? from[at / padded * columns + at % padded] : K::of(0.0f);
}

// The largest of 2 x 2 pixels, channel by channel.
template <class K>
__device__ __forceinline__ void largest(typename K::stored *to, const typename K::stored *from, word count, word high,
                                        word broad, word channels) {
    bool whole = channels % K::PACK == 0;
    word step = whole ? K::PACK : 1;
    word at = place() * step;
    if (at >= count) return;
    word channel = at % channels, x = at / channels % (broad / 2), y = at / channels / (broad / 2);
    word image = y / (high / 2), start = ((image * high + y % (high / 2) * 2) * broad + x * 2) * channels + channel;
    word corners[4] = {start, start + channels, start + broad * channels, start + (broad + 1) * channels};
    float most[K::PACK], next[K::PACK];
    load<K>(from, corners[0], 1, whole, most);
    for (int corner = 1; corner < 4; corner++) {
        load<K>(from, corners[corner], 1, whole, next);
        for (int i = 0; i < K::PACK; i++) most[i] = Most::of(most[i], next[i]);
    }
    store<K>(to, at, 1, whole, most);
}

// The mean of every channel over all pixels: blocks of 32 channels x 8 groups of pixels; grid = channels / 32, images.
template <class K>
__device__ __forceinline__ void averaged(typename K::stored *to, const typename K::stored *from, word pixels,
                                         word channels) {
    __shared__ float sums[8][LANES];
    word channel = blockIdx.x * LANES + threadIdx.x;
    word start = blockIdx.y * pixels * channels + channel;
    float sum = 0.0f;
    if (channel < channels)
        for (word pixel = threadIdx.y; pixel < pixels; pixel += 8) sum += K::to(from[start + pixel * channels]);
    sums[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y || channel >= channels) return;
    for (int group = 1; group < 8; group++) sum += sums[group][threadIdx.x];
    to[blockIdx.y * channels + channel] = K::of(sum / pixels);
}

#define LAYERS(suffix, K)                                                                                             \
    extern "C" __global__ void __launch_bounds__(256) bias_none_##suffix(                                             \
        K::stored *to, const K::stored *from, const K::stored *bias, word count, word columns) {                      \
        biased<K, Plain>(to, from, bias, count, columns);                                                             \
    }                                                                                                                 \
    extern "C" __global__ void __launch_bounds__(256) bias_relu_##suffix(                                             \
        K::stored *to, const K::stored *from, const K::stored *bias, word count, word columns) {                      \
        biased<K, Relu>(to, from, bias, count, columns);                                                              \
    }                                                                                                                 \
    extern "C" __global__ void __launch_bounds__(256) bias_gelu_##suffix(                                             \
        K::stored *to, const K::stored *from, const K::stored *bias, word count, word columns) {                      \
        biased<K, Gelu>(to, from, bias, count, columns);                                                              \
    }                                                                                                                 \
    extern "C" __global__ void __launch_bounds__(256) residual_##suffix(                                              \
        K::stored *to, const K::stored *left, const K::stored *right, word count) {                                   \
        added<K>(to, left, right, count);                                                                             \
    }                                                                                                                 \
    extern "C" __global__ void __launch_bounds__(256) layernorm_##suffix(                                             \
        K::stored *to, const K::stored *from, const K::stored *gamma, const K::stored *beta, word columns,            \
        float epsilon) {                                                                                              \
        normed<K>(to, from, gamma, beta, columns, epsilon);                                                           \
    }                                                                                                                 \
    extern "C" __global__ void __launch_bounds__(256) softmax_##suffix(                                               \
        K::stored *to, const K::stored *from, word rows, word columns, float scale, word causal) {                    \
        shared_out<K>(to, from, rows, columns, scale, causal);                                                        \
    }                                                                                                                 \
    extern "C" __global__ void __launch_bounds__(256) split_heads_##suffix(                                           \
        K::stored *q, K::stored *k, K::stored *v, const K::stored *from, word sequence, word heads, word depth) {     \
        parted<K>(q, k, v, from, sequence, heads, depth);                                                             \
    }                                                                                                                 \
    extern "C" __global__ void __launch_bounds__(256) merge_heads_##suffix(                                           \
        K::stored *to, const K::stored *from, word count, word sequence, word heads, word depth) {                    \
        merged<K>(to, from, count, sequence, heads, depth);                                                           \
    }                                                                                                                 \
    extern "C" __global__ void __launch_bounds__(256) im2col_##suffix(                                                \
        K::stored *to, const K::stored *from, word count, word high, word broad, word channels, word padded) {        \
        unrolled<K>(to, from, count, high, broad, channels, padded);                                                  \
    }                                                                                                                 \
    extern "C" __global__ void __launch_bounds__(256) pad_##suffix(                                                   \
        K::stored *to, const K::stored *from, word count, word columns, word padded) {                                \
        padded_out<K>(to, from, count, columns, padded);                                                              \
    }                                                                                                                 \
    extern "C" __global__ void __launch_bounds__(256) pool_max2_##suffix(                                             \
        K::stored *to, const K::stored *from, word count, word high, word broad, word channels) {                     \
        largest<K>(to, from, count, high, broad, channels);                                                           \
    }                                                                                                                 \
    extern "C" __global__ void __launch_bounds__(256) pool_mean_##suffix(                                             \
        K::stored *to, const K::stored *from, word pixels, word channels) {                                           \
        averaged<K>(to, from, pixels, channels);                                                                      \
    }

LAYERS(fp32, Fp32)
LAYERS(fp16, Fp16)
LAYERS(bf16, Bf16)
