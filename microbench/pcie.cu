// The latency of the link: one thread follows a chain through the host's memory, each load only known when the one
// before has come. Volatile loads are never answered by a cache of the GPU's.

typedef unsigned long long wide;

extern "C" __global__ void chase(const wide *slots, unsigned int steps, wide *at) {
    wide here = *at;
    for (unsigned int i = 0; i < steps; i++)
        asm volatile("ld.volatile.global.u64 %0, [%1];" : "=l"(here) : "l"(slots + here));
    *at = here;
}
