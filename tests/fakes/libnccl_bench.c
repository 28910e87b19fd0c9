/* A stand-in libnccl.so.2: sums on the host, over the communicators of one thread in a group of calls.
 *
 * FAKE_NCCL  wrong: one sum of each is wrong on the last GPU; refused: no communicator comes about; late: it has no version
 * It moves the clock of the stand-in libcuda by 340 GB/s of bus bandwidth and 10 us for each sum.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 16, FLOAT32 = 7, SYSTEM_ERROR = 2, BAD_ARGUMENT = 4 };
typedef struct { int rank, ranks; } Comm;
static struct { const float *from; float *to; } waiting[MOST];
static size_t count;
static int grouped, ranks, alive;

static int is(const char *value) {
    const char *text = getenv("FAKE_NCCL");
    return text && !strcmp(text, value);
}
static void pass(double nanoseconds) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    void (*forward)(double) = driver ? (void (*)(double))dlsym(driver, "fake_pass") : NULL;
    if (forward) forward(nanoseconds);
}
int ncclGetVersion(int *version) { *version = 22907; return is("late") ? SYSTEM_ERROR : 0; }
const char *ncclGetErrorString(int code) { return code == SYSTEM_ERROR ? "unhandled system error" : "invalid argument"; }
const char *ncclGetLastError(void *comm) { return "NCCL WARN\nthe stand-in says so"; }
int ncclCommInitAll(Comm **comms, int number, const int *gpus) {
    if (is("refused")) return SYSTEM_ERROR;
    for (int i = 0; i < number; i++) {
        comms[i] = malloc(sizeof(Comm));
        *comms[i] = (Comm){i, number};
        alive++;
    }
    return 0;
}
int ncclCommDestroy(Comm *comm) { free(comm); return --alive < 0; }
int ncclGroupStart(void) { grouped = 1; ranks = 0; return 0; }
int ncclAllReduce(const void *from, void *to, size_t numbers, int type, int how, Comm *comm, void *stream) {
    if (!grouped || type != FLOAT32 || how || !stream) return BAD_ARGUMENT;
    waiting[comm->rank].from = from, waiting[comm->rank].to = to, count = numbers, ranks++;
    return 0;
}
int ncclGroupEnd(void) {
    for (size_t i = 0; i < count; i++) {
        float sum = 0;
        for (int r = 0; r < ranks; r++) sum += waiting[r].from[i];
        for (int r = 0; r < ranks; r++) waiting[r].to[i] = sum;
    }
    if (is("wrong")) waiting[ranks - 1].to[0] += 1;
    grouped = 0;
    pass(1e4 + 4.0 * count * 2 * (ranks - 1) / ranks / 340e9 * 1e9);
    return 0;
}
