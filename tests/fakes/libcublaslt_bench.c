/* A stand-in libcublasLt.so.13: a real product of small matrices on the host, in as many ways as are asked for.
 *
 * FAKE_GEMM  none: no way is known; wrong: one entry of each product is wrong; refused: so is the question; unstarted: no handle
 * It moves the clock of the stand-in libcuda; its second way is the fastest.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { F32 = 0, F16 = 2, BF16 = 14, MOST = 4, FAST_TF32 = 77 };
typedef struct { int compute, transpose_a; } Desc;
typedef struct { int type; uint64_t rows, columns; int64_t lead; } Layout;
typedef struct { uint64_t algo[8]; size_t workspace; int state; float waves; int reserved[4]; } Heuristic;

static int is(const char *value) {
    const char *text = getenv("FAKE_GEMM");
    return text && !strcmp(text, value);
}
static void pass(double nanoseconds) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    void (*forward)(double) = driver ? (void (*)(double))dlsym(driver, "fake_pass") : NULL;
    if (forward) forward(nanoseconds);
}
static float get(const void *at, int type, size_t i) {
    uint32_t bits;
    float value;
    if (type == F32) return ((const float *)at)[i];
    if (type == F16) return (float)((const _Float16 *)at)[i];
    bits = (uint32_t)((const uint16_t *)at)[i] << 16;
    memcpy(&value, &bits, 4);
    return value;
}
static void put(void *at, int type, size_t i, float value) {
    uint32_t bits;
    memcpy(&bits, &value, 4);
    if (type == F32) ((float *)at)[i] = value;
    else if (type == F16) ((_Float16 *)at)[i] = (_Float16)value;
    else ((uint16_t *)at)[i] = (uint16_t)((bits + 0x8000) >> 16);
}

size_t cublasLtGetVersion(void) { return 130002; }
int cublasLtCreate(void **handle) { *handle = malloc(8); return is("unstarted"); }
int cublasLtMatmulDescCreate(Desc **d, int compute, int scale) {
    *d = calloc(1, sizeof **d);
    (*d)->compute = compute;
    return scale != F32;
}
int cublasLtMatmulDescSetAttribute(Desc *d, int attribute, const void *from, size_t size) {
    if (attribute != 3 || size != 4) return 7;
    memcpy(&d->transpose_a, from, 4);
    return 0;
}
int cublasLtMatrixLayoutCreate(Layout **l, int type, uint64_t rows, uint64_t columns, int64_t lead) {
    *l = malloc(sizeof **l);
    **l = (Layout){type, rows, columns, lead};
    return 0;
}
int cublasLtMatmulPreferenceCreate(void **p) { *p = malloc(8); return 0; }
int cublasLtMatmulPreferenceSetAttribute(void *p, int attribute, const void *from, size_t size) { return attribute != 1 || size != 8; }
int cublasLtMatmulAlgoGetHeuristic(void *h, Desc *d, Layout *a, Layout *b, Layout *c, Layout *e, void *p, int asked, Heuristic *to, int *count) {
    if (is("refused")) return 15;
    *count = is("none") ? 0 : asked < MOST ? asked : MOST;
    for (int i = 0; i < *count; i++) to[i] = (Heuristic){{(uint64_t)i}, 1024, 0, 1.0f + i, {0}};
    return 0;
}
int cublasLtMatmul(void *h, Desc *d, const float *alpha, const void *A, Layout *a, const void *B, Layout *b, const float *beta,
                   const void *C, Layout *c, void *D, Layout *e, const Heuristic *way, void *workspace, size_t size, void *stream) {
    if (d->transpose_a != 1 || a->rows != b->rows || e->rows != a->columns || e->columns != b->columns || *alpha != 1 || *beta != 0) return 7;
    size_t m = a->columns, n = b->columns, k = a->rows;
    float *left = malloc(m * k * 4), *right = malloc(n * k * 4);
    for (size_t i = 0; i < m * k; i++) left[i] = get(A, a->type, i);
    for (size_t i = 0; i < n * k; i++) right[i] = get(B, b->type, i);
    for (size_t row = 0; row < m; row++)
        for (size_t column = 0; column < n; column++) {
            float sum = 0;
            for (size_t i = 0; i < k; i++) sum += left[row * k + i] * right[column * k + i];
            put(D, e->type, column * m + row, sum);
        }
    free(left);
    free(right);
    if (is("wrong")) put(D, e->type, 0, 12345);
    double rate = d->compute == FAST_TF32 ? 2048 : a->type == F32 ? 256 : 4096;
    pass(2.0 * m * n * k / (4 * rate * 1980e3) * 1e9 / (way->algo[0] == 1 ? 0.9 : 0.7)); /* of the stand-in GPU's limit */
    return 0;
}
