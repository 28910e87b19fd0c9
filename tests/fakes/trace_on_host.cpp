/* The kernels of microbench/trace.cu for the processor, by their names. */
#include "cuda_on_host.h"
#include TRACE

#define EACH(X, suffix)                                                                                          \
    X(bias_none_##suffix) X(bias_relu_##suffix) X(bias_gelu_##suffix) X(residual_##suffix) X(layernorm_##suffix) \
    X(softmax_##suffix) X(split_heads_##suffix) X(merge_heads_##suffix) X(im2col_##suffix) X(pad_##suffix)       \
    X(pool_max2_##suffix) X(pool_mean_##suffix)
#define ROW(name) {#name, [](void **given) { host::call(name, given); }, host::count(name)},

static const struct { const char *name; void (*run)(void **); int arguments; } KERNELS[] = {EACH(ROW, fp32) EACH(ROW, fp16) EACH(ROW, bf16)};

/* Give a kernel by its name, or NULL; and how many arguments it takes. */
extern "C" void *host_kernel(const char *name, int *arguments) {
    for (auto &one : KERNELS)
        if (!strcmp(one.name, name)) {
            if (arguments) *arguments = one.arguments;
            return (void *)one.run;
        }
    return NULL;
}
extern "C" void host_launch(void *kernel, const unsigned int *grid, const unsigned int *block, void **given) {
    host::run((void (*)(void **))kernel, grid, block, given);
}
