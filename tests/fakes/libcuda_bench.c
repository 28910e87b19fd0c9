/* A stand-in libcuda.so.1 that cuda.core runs on without a GPU: device memory is malloc, copies are memcpy, kernels of
 * microbench/*.ptx run on the host by their names, and events read a clock that the work itself moves forward.
 *
 * It says that it is a thousand times slower than an H200, so that little work fills the time of a sample.
 *
 * FAKE_CUDA    the CUDA version it claims, such as 12040: younger symbols are refused (default 13000)
 * FAKE_GPUS    how many GPUs there are (default 1)
 * FAKE_MEMORY  bytes of memory of each (default 6 MiB)
 * FAKE_NAME    the name of all GPUs (default Stand-in GPU N)
 * FAKE_PEERS   refused: no GPU may reach another's memory
 * FAKE_SLOW    1>0: copies from GPU 1 to GPU 0 take half as long again
 * FAKE_FAULT   SYMBOL=CODE or SYMBOL=hang|segv, with @N behind SYMBOL for the Nth call on: cuMemcpyAsync@9=719
 * FAKE_SICK    the one GPU to which FAKE_FAULT happens, once it is current (cuDevicePrimaryCtxRetain: the one asked for)
 * FAKE_SLOW_CARD  the GPU that does all at half the rate
 * FAKE_MAJOR   the major number of its compute capability (default 9)
 * FAKE_WRONG   read, write, copy, h2d, d2h, p2p, saxpy: that kernel, or copy of the driver's, gets one word wrong
 * FAKE_RATE    what the probe of the tensor cores finds, as a part of what an H100's mma.sync does, in percent (default 100)
 * FAKE_CUBIN   refused: the driver takes no machine code
 * FAKE_GATE    late: the gate gives up every time; once: the first time alone
 * FAKE_JITTER  percent by which times waver
 * FAKE_KERNELS a library of kernels compiled for the host (trace_on_host.cpp), for those that are not written here
 * FAKE_CLOCK   part of the highest clock, in percent, that the multiprocessors hold (default 100)
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define API __attribute__((visibility("default")))
#define ENTER                     \
    do {                          \
        int r_ = fault(__func__); \
        if (r_) return r_;        \
    } while (0)
typedef unsigned long long wide;
typedef unsigned int word;

enum { SMS = 4, KHZ = 1980, WRONG_VALUE = 1, OUT_OF_MEMORY = 2, NO_DEVICE = 100, BAD_HANDLE = 400, NOT_FOUND = 500 };

static double now_ns = 1e9;
enum { MOST = 16 };
static size_t used[MOST + 1]; /* by GPU, from 1 on */
static int current = -1;

static long number(const char *name, long otherwise) {
    const char *text = getenv(name);
    return text && *text ? atol(text) : otherwise;
}
static size_t memory_of_each(void) { return (size_t)number("FAKE_MEMORY", 6 << 20); }
static int is(const char *name, const char *value) {
    const char *text = getenv(name);
    return text && !strcmp(text, value);
}

static int fault(const char *symbol) {
    static long calls;
    const char *text = getenv("FAKE_FAULT");
    if (!text || (getenv("FAKE_SICK") && current >= 0 && current != number("FAKE_SICK", -1))) return 0;
    size_t length = strcspn(text, "@=");
    if (strlen(symbol) != length || strncmp(text, symbol, length)) return 0;
    long from = text[length] == '@' ? atol(text + length + 1) : 1;
    if (++calls < from) return 0;
    const char *how = strchr(text, '=') + 1;
    if (!strcmp(how, "hang"))
        for (;;) pause();
    if (!strcmp(how, "segv")) raise(11);
    return atoi(how);
}

/* Moves the clock: so many bytes or operations at so many a second. */
static void pass(double amount, double rate) {
    if (current >= 0 && current == number("FAKE_SLOW_CARD", -1)) rate /= 2;
    double waver = 1 + number("FAKE_JITTER", 0) / 100.0 * ((double)rand() / RAND_MAX - 0.5);
    now_ns += amount / rate * 1e9 * waver;
}

API void fake_pass(double nanoseconds) { now_ns += nanoseconds; } /* for the stand-in libcublasLt */
static long events;
API long fake_events(void) { return events; } /* for the same: one is recorded at each end of a train */

/* ---- starting, devices, contexts ---- */
API int cuInit(word flags) { ENTER; return number("FAKE_GPUS", 1) ? 0 : NO_DEVICE; }
API int cuDriverGetVersion(int *v) { ENTER; *v = (int)number("FAKE_CUDA", 13000); return 0; }
API int cuDeviceGetCount(int *n) { ENTER; *n = (int)number("FAKE_GPUS", 1); return 0; }
API int cuDeviceGet(int *d, int i) { ENTER; *d = i; return i < number("FAKE_GPUS", 1) ? 0 : 101; }
API int cuDeviceGetName(char *to, int room, int d) {
    ENTER;
    const char *name = getenv("FAKE_NAME");
    snprintf(to, room, name ? name : "Stand-in GPU %d", d);
    return 0;
}
API int cuDeviceGetUuid_v2(unsigned char *to, int d) { memset(to, 0, 16), to[15] = 1 + d; return 0; }
API int cuDeviceGetUuid(unsigned char *to, int d) { return cuDeviceGetUuid_v2(to, d); }
API int cuDeviceTotalMem_v2(size_t *to, int d) { *to = memory_of_each(); return 0; }
API int cuDeviceGetAttribute(int *to, int attribute, int d) {
    ENTER;
    switch (attribute) {
    case 1: *to = 1024; break;               /* threads a block */
    case 2: case 3: *to = 1024; break;
    case 4: *to = 64; break;
    case 5: *to = 2147483647; break;         /* blocks */
    case 6: case 7: *to = 65535; break;
    case 10: *to = 32; break;                /* warp */
    case 13: *to = KHZ; break;               /* clock */
    case 16: *to = SMS; break;
    case 33: *to = 6 + d; break;             /* PCI bus, device, domain */
    case 34: case 50: *to = 0; break;
    case 36: *to = 3201; break;              /* memory clock, kHz */
    case 37: *to = 6016; break;              /* bus, bits */
    case 38: *to = 1 << 20; break;           /* L2 */
    case 39: *to = 2048; break;
    case 75: *to = (int)number("FAKE_MAJOR", 9); break; /* compute capability */
    case 76: *to = 0; break;
    case 41: case 115: *to = 1; break;       /* unified addressing, memory pools */
    default: *to = 0;
    }
    return 0;
}
API int cuDevicePrimaryCtxRetain(void **c, int d) { if (!getenv("FAKE_SICK") || d == number("FAKE_SICK", -1)) ENTER; *c = (void *)(intptr_t)(0x1000 + d); return 0; }
API int cuDevicePrimaryCtxRelease_v2(int d) { return 0; }
API int cuCtxPushCurrent_v2(void *c) { current = (int)((intptr_t)c - 0x1000); return 0; }
API int cuCtxPopCurrent_v2(void **c) { *c = (void *)(intptr_t)(0x1000 + current); return 0; }
API int cuCtxSetCurrent(void *c) { ENTER; current = c ? (int)((intptr_t)c - 0x1000) : -1; return 0; }
API int cuCtxGetCurrent(void **c) { *c = current < 0 ? NULL : (void *)(intptr_t)(0x1000 + current); return 0; }
API int cuCtxGetDevice(int *d) { *d = current; return current < 0 ? 201 : 0; }
API int cuCtxGetDevice_v2(int *d, void *c) { *d = c ? (int)((intptr_t)c - 0x1000) : current; return 0; }
API int cuCtxSynchronize(void) { ENTER; return 0; }
API int cuCtxGetStreamPriorityRange(int *least, int *greatest) { *least = 0; *greatest = -5; return 0; }

API int cuDeviceCanAccessPeer(int *can, int d, int other) { ENTER; *can = !is("FAKE_PEERS", "refused"); return 0; }
API int cuCtxEnablePeerAccess(void *c, word flags) { ENTER; return 0; }

/* ---- streams and events ---- */
API int cuStreamCreateWithPriority(void **s, word flags, int priority) { ENTER; *s = malloc(8); return 0; }
API int cuStreamCreate(void **s, word flags) { ENTER; *s = malloc(8); return 0; }
API int cuStreamDestroy_v2(void *s) { free(s); return 0; }
API int cuStreamSynchronize(void *s) { ENTER; return 0; }
API int cuStreamQuery(void *s) { return 0; }
API int cuStreamGetCtx(void *s, void **c) { return cuCtxGetCurrent(c); }
API int cuStreamGetCtx_v2(void *s, void **c, void **green) { if (green) *green = NULL; return cuCtxGetCurrent(c); }
API int cuStreamGetDevice(void *s, int *d) { *d = current; return 0; }
API int cuStreamIsCapturing(void *s, int *status) { *status = 0; return 0; }
API int cuStreamGetFlags(void *s, word *flags) { *flags = 1; return 0; }
API int cuStreamWaitEvent(void *s, void *e, word flags) { return 0; }
API int cuEventCreate(double **e, word flags) { ENTER; *e = calloc(1, sizeof **e); return 0; }
API int cuEventDestroy_v2(double *e) { free(e); return 0; }
API int cuEventRecord(double *e, void *s) { ENTER; *e = now_ns; events++; return 0; }
API int cuEventQuery(double *e) { ENTER; return 0; }
API int cuEventSynchronize(double *e) { ENTER; return 0; }
API int cuEventElapsedTime(float *to, double *a, double *b) { ENTER; *to = (float)((*b - *a) / 1e6); return 0; }
API int cuEventElapsedTime_v2(float *to, double *a, double *b) { return cuEventElapsedTime(to, a, b); }

/* ---- memory; every block carries its size in front ---- */
static int take(void **to, size_t size, int device) {
    device = device ? current + 1 : 0;
    if (device && used[device] + size > memory_of_each()) return OUT_OF_MEMORY;
    size_t *block = malloc(size + 64);
    if (!block) return OUT_OF_MEMORY;
    block[0] = size;
    block[1] = (size_t)device;
    memset((char *)block + 64, 0xEE, size);
    used[device] += size;
    *to = (char *)block + 64;
    return 0;
}
static int give(void *at) {
    size_t *block = (size_t *)((char *)at - 64);
    used[block[1]] -= block[0];
    free(block);
    return 0;
}
API int cuMemGetInfo_v2(size_t *free_, size_t *total) { ENTER; *total = memory_of_each(); *free_ = *total - used[current + 1]; return 0; }
API int cuMemAlloc_v2(void **to, size_t size) { ENTER; return take(to, size, 1); }
API int cuMemAllocAsync(void **to, size_t size, void *s) { ENTER; return take(to, size, 1); }
API int cuMemAllocFromPoolAsync(void **to, size_t size, void *p, void *s) { ENTER; return take(to, size, 1); }
API int cuMemFree_v2(void *at) { return give(at); }
API int cuMemFreeAsync(void *at, void *s) { return give(at); }
API int cuMemAllocHost_v2(void **to, size_t size) { ENTER; return take(to, size, 0); }
API int cuMemHostAlloc(void **to, size_t size, word flags) { ENTER; return take(to, size, 0); }
API int cuMemFreeHost(void *at) { return give(at); }
API int cuDeviceGetDefaultMemPool(void **p, int d) { *p = (void *)0x2000; return 0; }
API int cuDeviceGetMemPool(void **p, int d) { *p = (void *)0x2000; return 0; }
API int cuMemPoolGetAttribute(void *p, int attribute, void *to) { memset(to, 0, 8); return 0; }
API int cuMemPoolSetAttribute(void *p, int attribute, void *from) { return 0; }
API int cuMemPoolGetAccess(int *flags, void *p, void *location) { *flags = 3; return 0; }
API int cuMemPoolSetAccess(void *p, const void *access, size_t count) { return 0; }
API int cuPointerGetAttributes(word n, int *attributes, void **to, wide at) {
    for (word i = 0; i < n; i++)
        if (attributes[i] == 2) *(word *)to[i] = ((size_t *)((char *)at - 64))[1] ? 2 : 1; /* device or host */
        else memset(to[i], 0, 4);
    return 0;
}
API int cuPointerGetAttribute(void *to, int attribute, wide at) { memset(to, 0, 4); return 0; }
static void spoil(void *at) { *(word *)at ^= 0x00010000u; }
API int cuMemcpyAsync(char *to, char *from, size_t size, void *s) {
    ENTER;
    int inward = ((size_t *)(to - 64))[1] && !((size_t *)(from - 64))[1];
    int outward = !((size_t *)(to - 64))[1] && ((size_t *)(from - 64))[1], across = inward || outward;
    size_t here = ((size_t *)(from - 64))[1], there = ((size_t *)(to - 64))[1];
    memcpy(to, from, size);
    if (here && there && here != there) {
        char way[8];
        snprintf(way, sizeof way, "%zu>%zu", here - 1, there - 1);
        if (is("FAKE_WRONG", "p2p") && here < there) spoil(to); /* not on the way back, or it would be right again */
        pass(size, (is("FAKE_PEERS", "refused") ? 22e9 : 394e9) / (is("FAKE_SLOW", way) ? 1.5 : 1));
        return 0;
    }
    if (is("FAKE_WRONG", inward ? "h2d" : outward ? "d2h" : "copy")) spoil(to);
    pass(across ? size : 2.0 * size, across ? 55.5e9 : 4.20e9);
    return 0;
}
/* An address of the host may be of a memory of its own: it has no size in front. */
API int cuMemcpyHtoDAsync_v2(char *to, const void *from, size_t size, void *s) {
    ENTER;
    memcpy(to, from, size);
    if (is("FAKE_WRONG", "h2d")) spoil(to);
    pass(size, 55.5e9);
    return 0;
}
API int cuMemcpyDtoHAsync_v2(void *to, const char *from, size_t size, void *s) {
    ENTER;
    memcpy(to, from, size);
    if (is("FAKE_WRONG", "d2h")) spoil(to);
    pass(size, 55.5e9);
    return 0;
}
API int cuMemcpyHtoD_v2(void *to, const void *from, size_t size) { ENTER; memcpy(to, from, size); return 0; }
API int cuMemcpyDtoH_v2(void *to, void *from, size_t size) { ENTER; memcpy(to, from, size); return 0; }
API int cuMemsetD8Async(void *to, unsigned char v, size_t n, void *s) { ENTER; memset(to, v, n); pass(n, 4.6e9); return 0; }
API int cuMemsetD16Async(void *to, unsigned short v, size_t n, void *s) { ENTER; memset(to, v & 255, 2 * n); return 0; }
API int cuMemsetD32Async(void *to, word v, size_t n, void *s) { ENTER; memset(to, v & 255, 4 * n); pass(4. * n, 4.6e9); return 0; }

/* ---- the kernels of microbench, each as plain as can be ---- */
static wide mix(wide x) {
    x += 0x9E3779B97F4A7C15ull;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
    return x ^ (x >> 31);
}
static word blocks, threads; /* of the launch */
#define ARG(type, n) (*(type *)a[n])
#define DOUBLE(rate) pass(2.0 * 16 * ARG(wide, 2), rate)
static void gate(void **a) {
    static int gone;
    ARG(volatile word *, 0)[1] = is("FAKE_GATE", "late") || (is("FAKE_GATE", "once") && !gone++);
}
static void stamp(void **a) {
    for (int sm = 0; sm < SMS; sm++) {
        ARG(wide *, 0)[2 * sm] = (wide)now_ns;
        ARG(wide *, 0)[2 * sm + 1] = (wide)(now_ns * KHZ / 1e6 * number("FAKE_CLOCK", 100) / 100) + 77 * sm;
    }
    now_ns += 1000;
}
static void fill_bits(void **a) {
    wide *to = ARG(wide *, 0);
    for (wide i = 0; i < 2 * ARG(wide, 1); i++) to[i] = mix(ARG(wide, 2) ^ i) * ARG(wide, 3);
}
static void fill_any(void **a, int kind) {
    for (wide i = 0; i < ARG(wide, 1); i++) {
        wide bits = mix(ARG(wide, 2) ^ i);
        double u = ((bits >> 40) + 1.0) / 16777216, angle = (bits & 0xFFFFFF) * 2 * M_PI / 16777216;
        float scale = ARG(float, 3), pair[2] = {scale * sqrt(-2 * log(u)) * cos(angle), scale * sqrt(-2 * log(u)) * sin(angle)};
        for (int j = 0; j < 2; j++) {
            word raw;
            memcpy(&raw, &pair[j], 4);
            if (kind == 0) ARG(float *, 0)[2 * i + j] = pair[j];
            if (kind == 1) ARG(_Float16 *, 0)[2 * i + j] = (_Float16)pair[j];
            if (kind == 2) ARG(unsigned short *, 0)[2 * i + j] = raw >> 16;
            if (kind == 3) ARG(double *, 0)[2 * i + j] = pair[j];
        }
    }
}
static void fill_float(void **a) { fill_any(a, 0); }
static void fill_half(void **a) { fill_any(a, 1); }
static void fill_bfloat(void **a) { fill_any(a, 2); }
static void fill_double(void **a) { fill_any(a, 3); }
static void fill_e4m3(void **a) { /* codes of numbers between 1 and 16, of both signs */
    for (wide i = 0; i < 4 * ARG(wide, 1); i++) ARG(unsigned char *, 0)[i] = ARG(float, 3) ? 56 + (mix(ARG(wide, 2) ^ i) & 0x9F) : 0;
}
static void differ(void **a) {
    word *many = ARG(word *, 0), *wanted = ARG(word *, 2);
    wide *found = ARG(wide *, 4);
    for (wide i = 0; i < 4 * ARG(wide, 1); i++) {
        word wrong = many[i] ^ wanted[i % (4 * ARG(wide, 3))];
        found[0] += __builtin_popcount(wrong);
        found[1] += wrong != 0;
        if (wrong && i / 4 < found[2]) found[2] = i / 4;
    }
    pass(32.0 * ARG(wide, 1), 4.6e9);
}
static void checksum(void **a) {
    word *from = ARG(word *, 0);
    wide *sums = ARG(wide *, 2);
    for (wide i = 0; i < 4 * ARG(wide, 1); i += 2) {
        sums[0] += (wide)from[i] + from[i + 1];
        sums[1] += mix(((wide)from[i + 1] << 32 | from[i]) ^ mix(i / 2));
    }
}
static void read_(void **a) {
    word *from = ARG(word *, 0);
    wide sum = is("FAKE_WRONG", "read");
    for (wide i = 0; i < 4 * ARG(wide, 1); i++) sum += from[i];
    ARG(wide *, 2)[0] += sum;
    pass(16.0 * ARG(wide, 1), 4.604e9);
}
static void write_(void **a) {
    word *to = ARG(word *, 0);
    for (wide i = 0; i < 4 * ARG(wide, 1); i++) to[i] = ARG(word, 2) + (word)i * ARG(word, 3);
    if (is("FAKE_WRONG", "write")) spoil(to);
    pass(16.0 * ARG(wide, 1), 4.6e9);
}
static void copy_(void **a) {
    memcpy(ARG(void *, 0), ARG(void *, 1), 16 * ARG(wide, 2));
    if (is("FAKE_WRONG", "copy")) spoil(ARG(void *, 0));
    DOUBLE(4.21e9);
}
static void wrong(void **a) {
    word *from = ARG(word *, 0);
    for (wide i = 0; i < 4 * ARG(wide, 1); i++) *ARG(wide *, 4) += from[i] != ARG(word, 2) + (word)i * ARG(word, 3);
}
static void unequal(void **a) {
    double *x = ARG(double *, 0), *b = ARG(double *, 1), *c = ARG(double *, 2);
    for (wide i = 0; i < 2 * ARG(wide, 3); i++) *ARG(wide *, 5) += x[i] != fma((double)ARG(float, 4), c[i], b[i]);
}
static void triad_(void **a) {
    double *x = ARG(double *, 0), *b = ARG(double *, 1), *c = ARG(double *, 2);
    for (wide i = 0; i < 2 * ARG(wide, 3); i++) x[i] = fma((double)ARG(float, 4), c[i], b[i]);
    if (is("FAKE_WRONG", "triad")) spoil(x);
    pass(3.0 * 16 * ARG(wide, 3), 4.37e9);
}
static void bulk_(void **a) {
    memcpy(ARG(void *, 0), ARG(void *, 1), 16 * ARG(wide, 2));
    DOUBLE(4.1e9);
}
static word added(const word *from, wide words) {
    word sum = 0;
    for (wide i = 0; i < words; i++) sum += from[i];
    return sum;
}
static void level2(void **a, word loads) { /* from, tiles, slices, passes; the set is read by as many blocks as there are */
    wide units = (wide)ARG(word, 1) * ARG(word, 2) * loads * threads, times = (wide)blocks / ARG(word, 2) * ARG(word, 3);
    ARG(word *, 4)[0] += (word)(added(ARG(word *, 0), 4 * units) * times) + is("FAKE_WRONG", "l2");
    pass(16.0 * units * times, 9.7e9);
}
static void l2_1(void **a) { level2(a, 1); }
static void l2_4(void **a) { level2(a, 4); }
static void l2_8(void **a) { level2(a, 8); }
static void smem_(void **a) {
    wide times = (wide)blocks * ARG(word, 1);
    ARG(word *, 2)[0] += (word)(added(ARG(word *, 0), 32768 / 4) * times) + is("FAKE_WRONG", "smem");
    pass(32768.0 * times, 0.98 * SMS * 128 * KHZ * 1e3);
}
static void mma_(void **a) { /* rounds of 8 products of 16 warps, 4096 operations each */
    for (word i = 0; i < blocks; i++) ARG(wide *, 1)[i] = ARG(word, 0) * 8ull * 16 * 4096 * 100 / (2672 * number("FAKE_RATE", 100));
}
static void nothing(void **a) {
    if (ARG(word *, 0) && !is("FAKE_WRONG", "launch")) *ARG(word *, 0) += 1;
    pass(2.4e-6, 1);
}
static void chase(void **a) {
    for (word i = 0; i < ARG(word, 1); i++) *ARG(wide *, 2) = ARG(wide *, 0)[*ARG(wide *, 2)];
    if (is("FAKE_WRONG", "chase")) *ARG(wide *, 2) ^= 1;
    pass(1.128e-6 * ARG(word, 1), 1);
}
static float whole(wide seed, wide i, word factor) { return (float)(((int)(mix(seed ^ i) >> 48) - 32768) * (int)factor); }
static void fill_whole(void **a) {
    for (wide i = 0; i < ARG(wide, 1); i++) ARG(float *, 0)[i] = whole(ARG(wide, 2), i, ARG(word, 3));
}
static void unlike(void **a) {
    for (wide i = 0; i < ARG(wide, 1); i++) {
        float expected = 0;
        for (word n = 0; n < ARG(word, 4); n++) expected += whole(ARG(wide, 2) + n * 0x9E3779B97F4A7C15ull, i, ARG(word, 3));
        *ARG(wide *, 5) += ARG(float *, 0)[i] != expected;
    }
}
static void saxpy(void **a) { /* that of probes/cuda_device.py */
    for (word i = 0; i < ARG(word, 4); i++) ARG(float *, 0)[i] = ARG(float, 1) * ARG(float *, 2)[i] + ARG(float *, 3)[i];
    if (is("FAKE_WRONG", "saxpy")) *ARG(float *, 0) += 1;
}
static const struct { const char *name; void (*run)(void **); } KERNELS[] = {
    {"saxpy", saxpy}, {"fill_whole", fill_whole}, {"unlike", unlike}, {"nothing", nothing}, {"chase", chase},
    {"gate", gate}, {"stamp", stamp}, {"fill_bits", fill_bits}, {"fill_float", fill_float}, {"fill_half", fill_half},
    {"fill_bfloat", fill_bfloat}, {"fill_double", fill_double}, {"fill_e4m3", fill_e4m3}, {"differ", differ}, {"checksum", checksum}, {"read_", read_}, {"write_", write_}, {"copy_", copy_},
    {"wrong", wrong}, {"unequal", unequal}, {"triad_", triad_}, {"bulk_", bulk_}, {"l2_1", l2_1}, {"l2_4", l2_4}, {"l2_8", l2_8}, {"smem_", smem_},
    {"mma_", mma_}, {NULL, NULL},
};

/* ---- kernels of another library: they run on the host block by block, and take 2 us and a little for each block ---- */
static struct hosted { char name[64]; void *run; int arguments; } hosted[128];
static int hosts;
static void *hosted_kernel(const char *name) {
    const char *path = getenv("FAKE_KERNELS");
    void *library = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    void *(*find)(const char *, int *) = library ? (void *(*)(const char *, int *))dlsym(library, "host_kernel") : NULL;
    for (int i = 0; i < hosts; i++)
        if (!strcmp(hosted[i].name, name)) return &hosted[i];
    struct hosted *one = &hosted[hosts];
    if (!find || !(one->run = find(name, &one->arguments))) return NULL;
    snprintf(one->name, sizeof one->name, "%s", name);
    hosts++;
    return one;
}
static struct hosted *is_hosted(void *f) { return (char *)f >= (char *)hosted && (char *)f < (char *)(hosted + 128) ? f : NULL; }
static void run_hosted(struct hosted *one, const word *grid, const word *block, void **a) {
    void *library = dlopen(getenv("FAKE_KERNELS"), RTLD_NOW | RTLD_LOCAL);
    ((void (*)(void *, const word *, const word *, void **))dlsym(library, "host_launch"))(one->run, grid, block, a);
    if (is("FAKE_WRONG", "layer")) ((float *)ARG(void *, 0))[0] = 77;
    pass(2000 + 20.0 * grid[0] * grid[1] * grid[2], 1e9);
}

/* ---- code ---- */
API int cuLibraryLoadData(char **l, const void *code, void *a, void *b, word c, void *d, void *e, word f) {
    ENTER;
    size_t size = strlen(code) + 1;
    if (!memcmp(code, "\177ELF", 4)) { /* machine code: it is read no further than for the names in it */
        if (is("FAKE_CUBIN", "refused")) return 209;
        const Elf64_Ehdr *head = code;
        const Elf64_Shdr *sections = (const void *)((const char *)code + head->e_shoff);
        size = head->e_shoff + head->e_shnum * sizeof *sections;
        for (int i = 0; i < head->e_shnum; i++)
            if (sections[i].sh_type != SHT_NOBITS && sections[i].sh_offset + sections[i].sh_size > size) size = sections[i].sh_offset + sections[i].sh_size;
    }
    *l = malloc(sizeof size + size);
    memcpy(*l, &size, sizeof size);
    memcpy(*l + sizeof size, code, size);
    return 0;
}
static int holds(const char *library, const char *name) {
    char entry[200];
    size_t size;
    memcpy(&size, library, sizeof size);
    int elf = !memcmp(library + sizeof size, "\177ELF", 4);
    size_t length = snprintf(entry, sizeof entry, elf ? ".text.%s" : ".entry %s(", name);
    return memmem(library + sizeof size, size, entry, length + elf) != NULL;
}
API int cuLibraryUnload(char *l) { free(l); return 0; }
API int cuLibraryGetKernel(void **k, char *l, const char *name) {
    ENTER;
    for (int i = 0; KERNELS[i].name; i++) {
        size_t length = strlen(KERNELS[i].name);
        int family = KERNELS[i].name[length - 1] == '_';
        if (holds(l, name) && (family ? !strncmp(name, KERNELS[i].name, length) : !strcmp(name, KERNELS[i].name))) {
            *k = (void *)KERNELS[i].run;
            return 0;
        }
    }
    if (holds(l, name) && (*k = hosted_kernel(name))) return 0;
    return NOT_FOUND;
}
API int cuModuleLoadData(char **m, const void *code) { ENTER; return cuLibraryLoadData(m, code, NULL, NULL, 0, NULL, NULL, 0); }
API int cuModuleGetFunction(void **f, char *m, const char *name) { ENTER; return cuLibraryGetKernel(f, m, name); }
API int cuKernelGetFunction(void **f, void *k) { *f = k; return 0; }
API int cuKernelGetLibrary(void **l, void *k) { *l = NULL; return 0; }
static int noted(void *f, void **a);
static int noted_hosted(struct hosted *one, const word *config, void **a);
API int cuLaunchKernel(void *f, word gx, word gy, word gz, word bx, word by, word bz, word shared, void *s, void **a, void **e) {
    ENTER;
    if (noted(f, a)) return 0;
    blocks = gx, threads = bx;
    ((void (*)(void **))f)(a);
    return 0;
}
API int cuLaunchKernelEx(const word *config, void *f, void **a, void **e) {
    ENTER;
    if (is_hosted(f)) return noted_hosted(f, config, a) ? 0 : (run_hosted(f, config, config + 3, a), 0);
    blocks = config[0], threads = config[3];
    ((void (*)(void **))f)(a);
    return 0;
}

/* ---- graphs: a list of launches; those of kernels with one argument of eight bytes take 1 us each in a graph ---- */
struct graph { int count; struct node { void *f; wide argument; word config[7]; wide given[12]; } node[4096]; };
static struct graph *capturing;
static int noted_hosted(struct hosted *one, const word *config, void **a) {
    if (!capturing) return 0;
    struct node *node = &capturing->node[capturing->count++];
    node->f = one;
    memcpy(node->config, config, sizeof node->config);
    for (int i = 0; i < one->arguments; i++) memcpy(&node->given[i], a[i], 8);
    return 1;
}
static int noted(void *f, void **a) {
    if (!capturing) return 0;
    capturing->node[capturing->count].f = f;
    capturing->node[capturing->count++].argument = ARG(wide, 0);
    return 1;
}
API int cuStreamBeginCapture_v2(void *s, int mode) { ENTER; capturing = calloc(1, sizeof *capturing); return 0; }
API int cuStreamEndCapture(void *s, void **g) { ENTER; *g = capturing; capturing = NULL; return 0; }
API int cuGraphInstantiateWithFlags(void **e, void *g, wide flags) { ENTER; *e = g; return 0; }
API int cuGraphLaunch(struct graph *g, void *s) {
    ENTER;
    for (int i = 0; i < g->count; i++) {
        if (is_hosted(g->node[i].f)) {
            void *given[12];
            for (int j = 0; j < 12; j++) given[j] = &g->node[i].given[j];
            run_hosted(g->node[i].f, g->node[i].config, g->node[i].config + 3, given);
            continue;
        }
        void *argument = &g->node[i].argument;
        double before = now_ns;
        ((void (*)(void **))g->node[i].f)(&argument);
        now_ns = before + 1000;
    }
    return 0;
}
API int cuGraphGetNodes(struct graph *g, struct node **to, size_t *count) {
    if (to) for (int i = 0; i < g->count; i++) to[i] = &g->node[i];
    *count = g->count;
    return 0;
}
API int cuGraphNodeGetType(struct node *n, int *kind) { *kind = 0; return 0; }
API int cuGraphKernelNodeGetParams_v2(struct node *n, struct { void *f; word config[7]; void *a, *e, *k, *c; } *to) {
    ENTER;
    memset(to, 0, sizeof *to);
    to->k = n->f; /* the function itself is not told: it must be asked for */
    memcpy(to->config, n->config, sizeof n->config);
    return 0;
}
API int cuFuncGetName(const char **to, struct hosted *f) { *to = f->name; return 0; }
API int cuFuncGetAttribute(int *to, int which, void *f) { ENTER; *to = which == 4 ? 32 : which == 1 ? 128 : 1024; return 0; }
API int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *to, void *f, int size, size_t shared) { *to = 2048 / size; return 0; }
API int cuGraphExecDestroy(void *e) { return 0; }
API int cuGraphDestroy(void *g) { free(g); return 0; }

/* ---- names and addresses ---- */
API int cuGetErrorName(int code, const char **to) {
    switch (code) {
    case 0: *to = "CUDA_SUCCESS"; break;
    case OUT_OF_MEMORY: *to = "CUDA_ERROR_OUT_OF_MEMORY"; break;
    case NO_DEVICE: *to = "CUDA_ERROR_NO_DEVICE"; break;
    case 46: *to = "CUDA_ERROR_DEVICE_UNAVAILABLE"; break;
    case 222: *to = "CUDA_ERROR_UNSUPPORTED_PTX_VERSION"; break;
    case 209: *to = "CUDA_ERROR_NO_BINARY_FOR_GPU"; break;
    case NOT_FOUND: *to = "CUDA_ERROR_NOT_FOUND"; break;
    case 719: *to = "CUDA_ERROR_LAUNCH_FAILED"; break;
    default: *to = "CUDA_ERROR_UNKNOWN";
    }
    return 0;
}
API int cuGetErrorString(int code, const char **to) { *to = "the stand-in says so"; return 0; }
static void *address(const char *name, int asked) {
    char full[200];
    if (asked > number("FAKE_CUDA", 13000)) return NULL;
    static void *self;
    if (!self) {
        Dl_info here;
        dladdr((void *)address, &here);
        self = dlopen(here.dli_fname, RTLD_NOW | RTLD_NOLOAD);
    }
    for (int version = asked >= 12080 ? 3 : 2; version > 0; version--) {
        snprintf(full, sizeof full, version > 1 ? "%s_v%d" : "%s", name, version);
        void *found = dlsym(self, full);
        if (found && (asked >= 12080 || strcmp(full, "cuEventElapsedTime_v2"))) return found;
    }
    return NULL;
}
API int cuGetProcAddress_v2(const char *name, void **to, int asked, wide flags, int *status) {
    *to = address(name, asked);
    if (status) *status = *to ? 0 : 1;
    if (!*to && getenv("FAKE_TRACE")) fprintf(stderr, "refused %s %d\n", name, asked);
    return *to ? 0 : NOT_FOUND;
}
API int cuGetProcAddress(const char *name, void **to, int asked, wide flags) {
    return cuGetProcAddress_v2(name, to, asked, flags, NULL);
}
