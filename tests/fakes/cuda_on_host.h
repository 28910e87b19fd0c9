/* CUDA's words for kernels, on the processor: every thread of a block is a fibre, so that barriers and shuffles work as
 * on a GPU; blocks run one after the other. Shared memory is static, since only one block runs at a time. */
#pragma once
#include <math.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#include <tuple>
#include <utility>

#define ON_HOST
#define __device__
#define __global__
#define __forceinline__ inline
#define __shared__ static
#define __launch_bounds__(threads)

struct uint3 { unsigned int x, y, z; };
struct uint4 { unsigned int x, y, z, w; };
static inline uint4 make_uint4(unsigned int x, unsigned int y, unsigned int z, unsigned int w) { return {x, y, z, w}; }
static inline unsigned int min(unsigned int a, unsigned int b) { return a < b ? a : b; }
template <class To, class From> static inline To same_bits(From from) { To to; memcpy(&to, &from, sizeof to); return to; }
static inline float __uint_as_float(unsigned int bits) { return same_bits<float>(bits); }
static inline unsigned int __float_as_uint(float x) { return same_bits<unsigned int>(x); }
static inline float half_to(unsigned int bits) { return (float)same_bits<_Float16>((unsigned short)bits); }
static inline unsigned int half_of(float x) { return same_bits<unsigned short>((_Float16)x); }
static float row_held[48 << 8]; /* 48 KiB, what a kernel may have without asking for more */

namespace host {
enum { MOST = 1024, STACK = 64 << 10, WARP = 32 };
struct Fibre { ucontext_t context; jmp_buf place; char *stack; bool begun, over; float given; };
static Fibre fibres[MOST];
static ucontext_t scheduler;
static jmp_buf scheduled; /* a context is only needed to begin on a stack of its own: jumps are ten times faster */
static unsigned int running;
static uint3 thread_at, block_at, block_size, grid_size;
static void (*body)(void **);
static void **arguments;

static void entered() {
    body(arguments);
    fibres[running].over = true;
    _longjmp(scheduled, 1);
}
/* One turn of every thread that is not at its end: all that were at a barrier are past it afterwards. */
static void yield_() {
    if (!_setjmp(fibres[running].place)) _longjmp(scheduled, 1);
}
static unsigned int size_now;
static bool any;
static void run_block(unsigned int threads) {
    size_now = threads;
    for (unsigned int i = 0; i < threads; i++) {
        Fibre &one = fibres[i];
        if (!one.stack) one.stack = (char *)malloc(STACK);
        getcontext(&one.context);
        one.context.uc_stack.ss_sp = one.stack;
        one.context.uc_stack.ss_size = STACK;
    
        one.begun = one.over = false;
        makecontext(&one.context, entered, 0);
    }
    for (any = true; any;) {
        any = false;
        for (running = 0; running < size_now; running++) {
            if (fibres[running].over) continue;
            thread_at = {running % block_size.x, running / block_size.x % block_size.y, running / block_size.x / block_size.y};
            if (!_setjmp(scheduled)) {
                if (fibres[running].begun) _longjmp(fibres[running].place, 1);
                fibres[running].begun = true;
                setcontext(&fibres[running].context);
            }
            any |= !fibres[running].over;
        }
    }
}
static void run(void (*kernel)(void **), const unsigned int *grid, const unsigned int *block, void **given) {
    body = kernel, arguments = given;
    grid_size = {grid[0], grid[1], grid[2]}, block_size = {block[0], block[1], block[2]};
    for (block_at.z = 0; block_at.z < grid[2]; block_at.z++)
        for (block_at.y = 0; block_at.y < grid[1]; block_at.y++)
            for (block_at.x = 0; block_at.x < grid[0]; block_at.x++) run_block(block[0] * block[1] * block[2]);
}
template <class... Given, size_t... At> static void called(void (*kernel)(Given...), void **given, std::index_sequence<At...>) {
    kernel(*(Given *)given[At]...);
}
template <class... Given> static void call(void (*kernel)(Given...), void **given) {
    called(kernel, given, std::index_sequence_for<Given...>());
}
template <class... Given> constexpr int count(void (*)(Given...)) { return sizeof...(Given); }
} // namespace host

#define threadIdx host::thread_at
#define blockIdx host::block_at
#define blockDim host::block_size
#define gridDim host::grid_size
static inline void __syncthreads() { host::yield_(); }
static inline float __shfl_xor_sync(unsigned int, float x, int lane) {
    host::fibres[host::running].given = x;
    host::yield_(); /* all of the warp have given */
    float got = host::fibres[host::running ^ (unsigned int)lane].given;
    host::yield_(); /* all have taken */
    return got;
}
