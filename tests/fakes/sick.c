/* One stand-in for six libraries, by the name that its file is given: libcuda, libcudart, libcudnn, libnccl,
 * librocm_smi64, libze_loader. All is well with them but what the plan says, in NV_SICK:
 *
 *   cuInit=999;libcuda.so.1=hang;b/cudnnGetVersion=abort
 *
 * a function, or the loading of a file, and what it does (sick.h), where need be for the copies in one folder alone.
 * -DNAMES='"FILE"' has libcuda name its errors as {1, "CUDA_ERROR_INVALID_VALUE"}, … in that file; else it cannot.
 * -DMISSING leaves out the first function of each, -DUNDEFINED calls one that nobody has.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>

#include "sick.h"

#ifdef MISSING
#define cuInit no_cuInit
#define cudaRuntimeGetVersion no_cudaRuntimeGetVersion
#define cudnnGetVersion no_cudnnGetVersion
#define ncclGetVersion no_ncclGetVersion
#define rsmi_init no_rsmi_init
#define zeInit no_zeInit
#endif
#ifdef UNDEFINED
int nobody_has_this(void);
int wants_it(void) { return nobody_has_this(); }
#endif

/* What the plan says of a function here: a code, GARBAGE, or 0 for "answer". */
static int told(const char *name) {
    Dl_info here;
    char copy[8192], wanted[256], special[512], *rest, *item;
    const char *plan = getenv("NV_SICK");
    if (!plan || !dladdr((void *)told, &here)) return 0;
    snprintf(copy, sizeof copy, "%s", here.dli_fname);
    char *slash = strrchr(copy, '/');
    if (!slash) return 0;
    *slash = 0;
    const char *file = slash + 1, *folder = strrchr(copy, '/') ? strrchr(copy, '/') + 1 : copy;
    snprintf(wanted, sizeof wanted, "%s=", name ? name : file);
    snprintf(special, sizeof special, "%.200s/%s", folder, wanted);
    snprintf(copy, sizeof copy, "%s", plan);
    for (item = strtok_r(copy, ";", &rest); item; item = strtok_r(NULL, ";", &rest)) {
        if (!strncmp(item, wanted, strlen(wanted))) return sick(item);
        if (!strncmp(item, special, strlen(special))) return sick(item);
    }
    return 0;
}
__attribute__((constructor)) static void loaded(void) { told(NULL); }

/* Writes a value, or nonsense, or gives the code that was told. */
#define VALUE(type, out, value) \
    do { \
        int said = told(__func__); \
        if (said > 0) return said; \
        *(type *)(out) = said == GARBAGE ? (type)0xEEEEEEEEEEEEEEEEull : (type)(value); \
        return 0; \
    } while (0)
#define TEXT(out, size, value) \
    do { \
        int said = told(__func__); \
        if (said > 0) return said; \
        if (said == GARBAGE) memset(out, 0xEE, (size_t)(size)); else snprintf(out, (size_t)(size), "%s", value); \
        return 0; \
    } while (0)

/* libcuda: one H200. */
int cuInit(unsigned flags) { (void)flags; return told(__func__); }
int cuDriverGetVersion(int *out) { VALUE(int, out, 13000); }
int cuDeviceGetCount(int *out) { VALUE(int, out, 1); }
int cuDeviceGet(int *out, int ordinal) { (void)ordinal; VALUE(int, out, 7); }
int cuDeviceGetName(char *out, int size, int device) { (void)device; TEXT(out, size, "NVIDIA H200"); }
int cuDeviceGetPCIBusId(char *out, int size, int device) { (void)device; TEXT(out, size, "0000:00:1A.0"); }
int cuDeviceGetUuid_v2(char *out, int device) {
    (void)device;
    int said = told(__func__);
    memset(out, said == GARBAGE ? 0xEE : 0, 16);
    out[15] = 1;
    return said > 0 ? said : 0;
}
int cuDeviceTotalMem_v2(size_t *out, int device) { (void)device; VALUE(size_t, out, 150754820096); }
int cuDeviceGetAttribute(int *out, int attribute, int device) {
    (void)device;
    VALUE(int, out, attribute == 75 ? 9 : attribute == 76 ? 0 : 32);
}
static const struct { int code; const char *name; } NAMED[] = {
#ifdef NAMES
#include NAMES
#endif
    {0, "CUDA_SUCCESS"},
};
int cuGetErrorName(int code, const char **name) {
    int said = told(__func__);
    *name = said == GARBAGE ? "\xee\xee\xff" : NULL;
#ifdef NAMES
    for (size_t i = 0; i < sizeof NAMED / sizeof *NAMED && !*name; i++)
        if (NAMED[i].code == code) *name = NAMED[i].name;
#endif
    return said > 0 ? said : *name == NULL;
}

/* The libraries above it. */
int cudaRuntimeGetVersion(int *out) { VALUE(int, out, 13000); }
size_t cudnnGetVersion(void) {
    int said = told(__func__);
    return said == GARBAGE ? 0xEEEEEEEEu : said > 0 ? (size_t)said : 91900;
}
int ncclGetVersion(int *out) { VALUE(int, out, 22809); }

/* librocm_smi64. */
int rsmi_init(uint64_t flags) { (void)flags; return told(__func__); }
int rsmi_shut_down(void) { return told(__func__); }
int rsmi_num_monitor_devices(uint32_t *out) { VALUE(uint32_t, out, 1); }
typedef struct { uint32_t major, minor, patch; const char *build; } Version;
int rsmi_version_get(Version *out) {
    int said = told(__func__);
    *out = said == GARBAGE ? (Version){0xEEEEEEEE, 0xEEEEEEEE, 0xEEEEEEEE, "?"} : (Version){7, 8, 0, "0"};
    return said > 0 ? said : 0;
}
int rsmi_version_str_get(int component, char *out, uint32_t size) { (void)component; TEXT(out, size, "6.12.12"); }

/* libze_loader: a driver without devices. */
int zeInit(uint32_t flags) { (void)flags; return told(__func__); }
int zeDriverGet(uint32_t *count, void **room) {
    int said = told(__func__);
    if (said > 0) return said;
    *count = said == GARBAGE ? 0xEEEEEEEE : 1;
    if (room) room[0] = (void *)0x1111;
    return 0;
}
int zeDriverGetApiVersion(void *driver, uint32_t *out) { (void)driver; VALUE(uint32_t, out, 1 << 16 | 15); }
int zeDriverGetProperties(void *driver, char *out) { (void)driver; (void)out; return told(__func__); }
int zeDeviceGet(void *driver, uint32_t *count, void **room) {
    (void)driver;
    (void)room;
    VALUE(uint32_t, count, 0);
}
