/* A stand-in for libnvidia-ml.so.1 that answers as an H200 does, and goes wrong as it is told.
 *
 * NVML_FAKE="nvmlDeviceGetTemperature=hang;nvmlDeviceGetName#2=15": what a function does (of GPU 2 alone), or every
 * version of it (nvmlInit, without its _v2); the first that fits counts. A number is its return code; garbage fills its
 * answer with nonsense; the rest is in sick.h; r535 is the process list of R535.43 to .86, whose entries are longer than
 * its version says. A field value is asked for as field230.
 * NVML_FAKE_GPUS=8 GPUs; NVML_FAKE_NVLINK=4 or 5 is the links' generation (none: not supported), NVML_FAKE_DOWN=3 the
 * link that is down, NVML_FAKE_STRAIGHT lets them go to the neighbour and not to a switch; NVML_FAKE_PIDS=12,34 are the
 * processes, all on GPU NVML_FAKE_PIDS_OF where that is set; NVML_FAKE_BUSY=97 is what each of them and the GPU are busy
 * in percent; NVML_FAKE_MIG=2 is the number of
 * MIG instances; NVML_FAKE_FABRIC is the fabric's health mask; NVML_FAKE_OWN=42 is the number under which the caller
 * too is a process, once it has a context of CUDA.
 * Compiled with -DOLD it lacks what drivers of 2022 lack. Layouts are those of nvidia-ml-py's structures.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>

#include "sick.h"

typedef unsigned int u32;
typedef unsigned long long u64;
enum { NOT_SUPPORTED = 3, NO_SUCH = 6, TOO_SMALL = 7, INVALID = 2, R535 = -2 };

static u32 number(const char *variable, u32 otherwise) {
    const char *said = getenv(variable);
    return said ? (u32)atoi(said) : otherwise;
}

static int act(const char *item) { return strcmp(strchr(item, '=') + 1, "r535") ? sick(item) : R535; }

static long index_of(void *device) { return (long)device % 1000 - 1; }

/* What the plan says of this function, on this device: a return code, GARBAGE, or 0 for "answer". */
static int fault(const char *name, void *device) {
    const char *plan = getenv("NVML_FAKE");
    char wanted[128], bare[128], special[128], copy[1 << 14], *rest, *item;
    const char *version = strstr(name, "_v");
    if (!plan) return 0;
    snprintf(wanted, sizeof wanted, "%s=", name);
    snprintf(bare, sizeof bare, "%.*s=", (int)(version ? version - name : (long)strlen(name)), name);
    snprintf(special, sizeof special, "%s#%ld=", name, device ? index_of(device) : -1);
    snprintf(copy, sizeof copy, "%s", plan);
    for (item = strtok_r(copy, ";", &rest); item; item = strtok_r(NULL, ";", &rest)) {
        if (!strncmp(item, wanted, strlen(wanted))) return act(item);
        if (!strncmp(item, bare, strlen(bare))) return act(item);
        if (!strncmp(item, special, strlen(special))) return act(item);
    }
    return 0;
}

#define BEGIN(name, device) int said = fault(name, device); if (said > 0) return said
#define WORD(name, type, value) \
    int name(void *device, type *out) { BEGIN(#name, device); \
        if (said == GARBAGE) memset(out, 0xEE, sizeof *out); else *out = (type)(value); return 0; }
#define PAIR(name, type, first, second) \
    int name(void *device, type *a, type *b) { BEGIN(#name, device); \
        *a = (type)(said == GARBAGE ? 0xEEEEEEEE : (first)); *b = (type)(second); return 0; }
#define CHOICE(name, type, value) \
    int name(void *device, u32 choice, type *out) { (void)choice; BEGIN(#name, device); \
        *out = (type)(value); return 0; }

static int text(int said, char *out, u32 size, const char *value) {
    if (said == GARBAGE) memset(out, 0xEE, size); else snprintf(out, size, "%s", value);
    return 0;
}
#define TEXT(name, value) \
    int name(void *device, char *out, u32 size) { BEGIN(#name, device); return text(said, out, size, value); }
#define SYSTEM_TEXT(name, value) \
    int name(char *out, u32 size) { BEGIN(#name, NULL); return text(said, out, size, value); }

/* The library. Loading it can be planned as well: libnvidia-ml.so.1=hang. */
__attribute__((constructor)) static void loaded(void) { fault("libnvidia-ml.so.1", NULL); }
int nvmlInitWithFlags(u32 flags) { (void)flags; return fault("nvmlInit", NULL); }
int nvmlInit_v2(void) { return fault("nvmlInit", NULL); }
int nvmlShutdown(void) { return 0; }
const char *nvmlErrorString(int code) {
    (void)code;
    return fault("nvmlErrorString", NULL) == GARBAGE ? "\xee\xee\xff" : "As the stand-in was told";
}
SYSTEM_TEXT(nvmlSystemGetDriverVersion, "580.159.04")
SYSTEM_TEXT(nvmlSystemGetNVMLVersion, "13.580.159.04")
int nvmlSystemGetCudaDriverVersion_v2(int *out) {
    *out = 13000;
    return fault("nvmlSystemGetCudaDriverVersion_v2", NULL);
}
int nvmlDeviceGetCount_v2(u32 *out) { *out = number("NVML_FAKE_GPUS", 1); return fault("nvmlDeviceGetCount_v2", NULL); }
int nvmlDeviceGetHandleByIndex_v2(u32 index, void **out) {
    *out = (void *)(long)(index + 1);
    return fault("nvmlDeviceGetHandleByIndex_v2", *out);
}

/* What a GPU is. */
TEXT(nvmlDeviceGetName, "NVIDIA H200")
TEXT(nvmlDeviceGetVbiosVersion, "96.00.A5.00.1A")
int nvmlDeviceGetUUID(void *device, char *out, u32 size) {
    char value[80];
    BEGIN("nvmlDeviceGetUUID", device);
    const char *kind = (long)device > 1000 ? "MIG" : "GPU";
    snprintf(value, sizeof value, "%s-00000000-0000-0000-0000-%012lx", kind, (long)device);
    return text(said, out, size, value);
}
typedef struct { char legacy[16]; u32 domain, bus, device, id, subsystem; char address[32]; } Pci;
static void place(Pci *out, int said, long slot) {
    memset(out, 0, sizeof *out);
    out->id = 0x233510DE;
    snprintf(out->address, sizeof out->address, said == GARBAGE ? "no address" : "00000000:00:%02lX.0", slot);
}
int nvmlDeviceGetPciInfo_v3(void *device, Pci *out) {
    BEGIN("nvmlDeviceGetPciInfo_v3", device);
    place(out, said, 0x1A + index_of(device));
    return 0;
}
WORD(nvmlDeviceGetMinorNumber, u32, index_of(device))
WORD(nvmlDeviceGetArchitecture, u32, 9)
PAIR(nvmlDeviceGetCudaComputeCapability, int, 9, 0)
WORD(nvmlDeviceGetNumGpuCores, u32, 16896)
WORD(nvmlDeviceGetVirtualizationMode, u32, 1)
WORD(nvmlDeviceGetMemoryBusWidth, u32, 6016)
WORD(nvmlDeviceGetPersistenceMode, u32, 1)
WORD(nvmlDeviceGetComputeMode, u32, 0)
WORD(nvmlDeviceGetPerformanceState, u32, 0)
int nvmlDeviceValidateInforom(void *device) { BEGIN("nvmlDeviceValidateInforom", device); return 0; }

/* How it runs. */
int nvmlDeviceGetMemoryInfo(void *device, u64 out[3]) {
    BEGIN("nvmlDeviceGetMemoryInfo", device);
    out[0] = 143771ULL << 20; out[1] = 143155ULL << 20; out[2] = 616ULL << 20;
    return 0;
}
WORD(nvmlDeviceGetCurrPcieLinkGeneration, u32, 5)
WORD(nvmlDeviceGetCurrPcieLinkWidth, u32, 16)
WORD(nvmlDeviceGetMaxPcieLinkGeneration, u32, 5)
WORD(nvmlDeviceGetMaxPcieLinkWidth, u32, 16)
WORD(nvmlDeviceGetGpuMaxPcieLinkGeneration, u32, 5)
WORD(nvmlDeviceGetPcieReplayCounter, u32, 0)
WORD(nvmlDeviceGetPowerUsage, u32, 79560)
WORD(nvmlDeviceGetEnforcedPowerLimit, u32, 700000)
WORD(nvmlDeviceGetPowerManagementDefaultLimit, u32, 700000)
PAIR(nvmlDeviceGetPowerManagementLimitConstraints, u32, 200000, 700000)
CHOICE(nvmlDeviceGetTemperature, u32, 38)
CHOICE(nvmlDeviceGetClockInfo, u32, choice == 1 ? 345 : 3201)
CHOICE(nvmlDeviceGetMaxClockInfo, u32, choice == 1 ? 1980 : 3201)
CHOICE(nvmlDeviceGetApplicationsClock, u32, choice == 1 ? 1980 : 3201)
CHOICE(nvmlDeviceGetDefaultApplicationsClock, u32, choice == 1 ? 1980 : 3201)
int nvmlDeviceGetTemperatureThreshold(void *device, u32 which, u32 *out) {
    BEGIN("nvmlDeviceGetTemperatureThreshold", device);
    *out = which == 0 ? 95 : 92;
    return which > 1 ? NOT_SUPPORTED : 0;
}
#ifdef OLD
WORD(nvmlDeviceGetCurrentClocksThrottleReasons, u64, 1)
#else
WORD(nvmlDeviceGetCurrentClocksThrottleReasons, u64, 0x8000000000000145ULL)
WORD(nvmlDeviceGetCurrentClocksEventReasons, u64, 0x8000000000000145ULL)
typedef struct { u32 version; u64 total, reserved, free, used; } Memory;
int nvmlDeviceGetMemoryInfo_v2(void *device, Memory *out) {
    BEGIN("nvmlDeviceGetMemoryInfo_v2", device);
    out->total = 143771ULL << 20; out->reserved = 616ULL << 20; out->free = 143155ULL << 20; out->used = 0;
    return 0;
}
typedef struct { u32 version, sensor; int celsius; } Temperature;
int nvmlDeviceGetTemperatureV(void *device, Temperature *out) {
    BEGIN("nvmlDeviceGetTemperatureV", device);
    out->celsius = 38;
    return 0;
}
typedef struct { u32 version; int celsius; } Margin;
int nvmlDeviceGetMarginTemperature(void *device, Margin *out) {
    BEGIN("nvmlDeviceGetMarginTemperature", device);
    out->celsius = 49;
    return 0;
}
int nvmlDeviceGetGspFirmwareVersion(void *device, char *out) {
    BEGIN("nvmlDeviceGetGspFirmwareVersion", device);
    return text(said, out, 64, "580.159.04");
}
#endif

/* What has gone wrong on it. */
PAIR(nvmlDeviceGetEccMode, u32, 1, 1)
int nvmlDeviceGetTotalEccErrors(void *device, u32 kind, u32 span, u64 *out) {
    BEGIN("nvmlDeviceGetTotalEccErrors", device);
    *out = kind * 10 + span;
    return 0;
}
int nvmlDeviceGetRemappedRows(void *device, u32 *corrected, u32 *uncorrected, u32 *pending, u32 *failed) {
    BEGIN("nvmlDeviceGetRemappedRows", device);
    *corrected = 2; *uncorrected = 1; *pending = 1; *failed = 0;
    return 0;
}
int nvmlDeviceGetRowRemapperHistogram(void *device, u32 out[5]) {
    BEGIN("nvmlDeviceGetRowRemapperHistogram", device);
    memset(out, 0, 5 * sizeof *out);
    out[0] = 3072;
    return 0;
}
int nvmlDeviceGetRetiredPages(void *device, u32 cause, u32 *count, u64 *pages) {
    u32 room = *count;
    BEGIN("nvmlDeviceGetRetiredPages", device);
    *count = cause ? 0 : 2;
    if (room < *count || !pages) return *count ? TOO_SMALL : 0;
    memset(pages, 0, *count * sizeof *pages);
    return 0;
}
WORD(nvmlDeviceGetRetiredPagesPendingStatus, u32, 0)
#ifndef OLD
int nvmlDeviceGetRepairStatus(void *device, u32 out[3]) {
    BEGIN("nvmlDeviceGetRepairStatus", device);
    out[1] = out[2] = 0;
    return 0;
}
typedef struct { u32 version; u64 counts[11]; u32 exceeded; } Sram;
int nvmlDeviceGetSramEccErrorStatus(void *device, Sram *out) {
    BEGIN("nvmlDeviceGetSramEccErrorStatus", device);
    memset(out->counts, 0, sizeof out->counts); /* aggregate parity, SEC-DED, corrected; volatile the same; … */
    out->counts[0] = 4; out->counts[1] = 3; out->counts[2] = 6; out->counts[3] = 2; out->counts[5] = 5; out->exceeded = 1;
    return 0;
}
typedef struct { u32 version; unsigned char unit[16]; u32 status, clique; unsigned char state; u32 health; } Fabric;
int nvmlDeviceGetGpuFabricInfoV(void *device, Fabric *out) {
    BEGIN("nvmlDeviceGetGpuFabricInfoV", device);
    memset(out->unit, 0xAB, sizeof out->unit);
    out->status = 0; out->clique = 1; out->state = 3; out->health = number("NVML_FAKE_FABRIC", 0x3A9);
    return 0;
}
#endif

/* Field values: the id, what is told, and as which of nvmlValueType_t. */
typedef union { double d; u64 ull; int i; } Value;
typedef struct { u32 id, scope; long long time, latency; u32 type; int code; Value value; } Field;
static const struct { u32 id; int value; u32 type; } FIELDS[] = {
    {230, 0, 1}, {91, 18, 1}, {82, 43, 1}, {193, -8, 5}, {194, -2, 5}, {195, 0, 5}, {196, 0, 5}, {173, 7, 1},
    {179, 0, 1}, {180, 0, 1}, {74, 3000, 3}, {75, 0, 3}, {76, 0, 3}, {77, 0, 3}, {79, 0, 3},
};
static void answer(void *device, Field *out) {
    char name[32];
    u32 generation = number("NVML_FAKE_NVLINK", 0);
    snprintf(name, sizeof name, "field%u", out->id);
    int said = fault(name, device);
    out->code = said > 0 ? said : NOT_SUPPORTED;
    if (said > 0) return;
    for (u32 i = 0; i < sizeof FIELDS / sizeof *FIELDS; i++)
        if (FIELDS[i].id == out->id) {
            out->code = 0;
            out->type = said == GARBAGE ? 99 : FIELDS[i].type;
            out->value.ull = 0;
            out->value.i = FIELDS[i].value;
        }
#ifdef OLD
    if (out->id > 163) out->code = INVALID;
#endif
    int older = out->id >= 84 && out->id < 90 && generation;
    int newer = out->id == 164 && generation && out->scope != number("NVML_FAKE_DOWN", 99);
    int linked = out->id >= 161 && out->id <= 163 && generation == 4;
    int counted = out->id >= 206 && out->id <= 222 && generation == 5;
    if (older || linked || (out->code != INVALID && (newer || counted))) {
        out->code = 0;
        out->type = 3;
        out->value.ull = out->id == 220 ? 0x10F : counted ? 0 : linked ? out->scope : 26562;
    }
}
int nvmlDeviceGetFieldValues(void *device, int count, Field *out) {
    BEGIN("nvmlDeviceGetFieldValues", device);
    for (int i = 0; i < count; i++) answer(device, out + i);
    return 0;
}

/* Who uses it. */
static int has_context(void) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), *context = NULL;
    int (*current)(void **) = driver ? (int (*)(void **))dlsym(driver, "cuCtxGetCurrent") : NULL;
    return current && !current(&context) && context;
}
static const char *users(void *device) {
    static char all[4096];
    const char *others = getenv("NVML_FAKE_PIDS"), *own = getenv("NVML_FAKE_OWN");
    if (getenv("NVML_FAKE_PIDS_OF") && index_of(device) != number("NVML_FAKE_PIDS_OF", 0)) others = NULL;
    if (!own || !has_context()) return others;
    snprintf(all, sizeof all, "%s%s%s", others ? others : "", others ? "," : "", own);
    return all;
}
static int processes(const char *name, void *device, u32 *count, char *out) {
    u32 room = *count;
    const char *rest = users(device);
    BEGIN(name, device);
    u32 size = said == R535 ? 32 : 24, written = 0;
    for (*count = 0; rest && *rest; (*count)++, rest = strchr(rest, ',') ? strchr(rest, ',') + 1 : "") {
        if (*count >= room) continue;
        char *entry = out + size * written++;
        memset(entry, 0, size);
        *(u32 *)entry = said == GARBAGE ? 0xEEEEEEEE : (u32)atoi(rest);
        *(u64 *)(entry + 8) = written == 1 ? 512ULL << 20 : ~0ULL;
        memset(entry + 16, 0xFF, 8);
    }
    return *count > room ? TOO_SMALL : 0;
}
typedef struct { u32 pid; u64 at; u32 sm, others[3]; } Used;
int nvmlDeviceGetProcessUtilization(void *device, Used *out, u32 *count, u64 since) {
    u32 room = out ? *count : 0;
    const char *rest = getenv("NVML_FAKE_PIDS");
    BEGIN("nvmlDeviceGetProcessUtilization", device);
    (void)since;
    if (!getenv("NVML_FAKE_BUSY")) return NO_SUCH;
    for (*count = 0; rest && *rest; (*count)++, rest = strchr(rest, ',') ? strchr(rest, ',') + 1 : "")
        if (*count < room) out[*count] = (Used){(u32)atoi(rest), 1, number("NVML_FAKE_BUSY", 0), {0}};
    return *count > room ? TOO_SMALL : 0;
}
int nvmlDeviceGetUtilizationRates(void *device, u32 out[2]) {
    BEGIN("nvmlDeviceGetUtilizationRates", device);
    out[0] = number("NVML_FAKE_BUSY", 0); out[1] = 0;
    return 0;
}
#define LIST(name) \
    int name(void *device, u32 *count, char *out) { return processes(#name, device, count, out); }
#define NOBODY(name) \
    int name(void *device, u32 *count, char *out) { (void)out; *count = 0; return fault(#name, device); }
#ifdef OLD
LIST(nvmlDeviceGetComputeRunningProcesses_v2)
#else
LIST(nvmlDeviceGetComputeRunningProcesses_v3)
NOBODY(nvmlDeviceGetGraphicsRunningProcesses_v3)
NOBODY(nvmlDeviceGetMPSComputeRunningProcesses_v3)
#endif
PAIR(nvmlDeviceGetMigMode, u32, number("NVML_FAKE_MIG", 0) > 0, number("NVML_FAKE_MIG", 0) > 0)
WORD(nvmlDeviceGetMaxMigDeviceCount, u32, 7)
int nvmlDeviceGetMigDeviceHandleByIndex(void *device, u32 index, void **out) {
    BEGIN("nvmlDeviceGetMigDeviceHandleByIndex", device);
    *out = (void *)((long)device + 1000 * (index + 1));
    return index < number("NVML_FAKE_MIG", 0) ? 0 : NO_SUCH;
}
WORD(nvmlDeviceGetGpuInstanceId, u32, (long)device / 1000)
WORD(nvmlDeviceGetComputeInstanceId, u32, 0)
typedef struct { u32 sms, others[7]; u64 mib; } Attributes;
int nvmlDeviceGetAttributes_v2(void *device, Attributes *out) {
    BEGIN("nvmlDeviceGetAttributes_v2", device);
    out->sms = 60; out->mib = 71424;
    return 0;
}

/* Its links: eighteen, all to one switch. */
static int link_of(const char *name, void *device, u32 link) {
    BEGIN(name, device);
    if (!number("NVML_FAKE_NVLINK", 0)) return NOT_SUPPORTED;
    return link < 18 ? 0 : INVALID;
}
#define LINK(name, type, value) \
    int name(void *device, u32 link, type *out) { *out = (type)(value); return link_of(#name, device, link); }
LINK(nvmlDeviceGetNvLinkState, u32, link != number("NVML_FAKE_DOWN", 99))
LINK(nvmlDeviceGetNvLinkVersion, u32, number("NVML_FAKE_NVLINK", 0) + 2)
LINK(nvmlDeviceGetNvLinkRemoteDeviceType, u32, getenv("NVML_FAKE_STRAIGHT") ? 0 : 2)
int nvmlDeviceGetNvLinkRemotePciInfo_v2(void *device, u32 link, Pci *out) {
    place(out, 0, getenv("NVML_FAKE_STRAIGHT") ? 0x1B - index_of(device) : 3);
    if (link == 17 && !getenv("NVML_FAKE_STRAIGHT")) strcpy(out->address, "FFFFFFFF:FF:FF.0");
    return link_of("nvmlDeviceGetNvLinkRemotePciInfo_v2", device, link);
}
int nvmlDeviceGetNvLinkErrorCounter(void *device, u32 link, u32 counter, u64 *out) {
    *out = link * 100 + counter;
    if (number("NVML_FAKE_NVLINK", 0) == 5) return NOT_SUPPORTED;
    return link_of("nvmlDeviceGetNvLinkErrorCounter", device, link);
}
int nvmlDeviceGetTopologyCommonAncestor(void *device, void *other, u32 *out) {
    (void)other;
    *out = 50;
    return fault("nvmlDeviceGetTopologyCommonAncestor", device);
}
int nvmlDeviceGetP2PStatus(void *device, void *other, u32 way, u32 *out) {
    (void)other;
    *out = way == 2 && !number("NVML_FAKE_NVLINK", 0) ? 5 : 0;
    return fault("nvmlDeviceGetP2PStatus", device);
}
