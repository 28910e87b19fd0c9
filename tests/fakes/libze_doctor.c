/* A stand-in for Level Zero's loader with one Intel GPU behind it, for the doctor's probe. GPUSTACK_ZE chooses what is
 * wrong: none (no driver), lost, crash, silent (no properties). Structures after oneapi-src/level-zero, include/ze_api.h.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct head { int stype; void *next; };
struct driver { int stype; void *next; uint8_t uuid[16]; uint32_t version; };
struct device {
    int stype; void *next;
    uint32_t type, vendor, device, flags, subdevice, clock;
    uint64_t largest;
    uint32_t contexts, priority, threads, simd, units, subslices, slices;
    uint64_t timer;
    uint32_t bits, kernel_bits;
    uint8_t uuid[16];
    char name[256];
};
struct memory { int stype; void *next; uint32_t flags, clock, bus; uint64_t size; char name[256]; };
struct place {
    int stype; void *next;
    uint32_t domain, bus, slot, function;
    int32_t generation, lanes;
    int64_t bandwidth;
};

static int wrong(const char *name) {
    const char *said = getenv("GPUSTACK_ZE");
    return said != NULL && strcmp(said, name) == 0;
}

int zeInit(uint32_t flags) {
    if (flags) return 0x78000004;
    if (wrong("none")) return 0x78000001;
    if (wrong("lost")) return 0x70000001;
    if (wrong("crash")) abort();
    return 0;
}

static int one(uint32_t *count, void **room, uintptr_t handle) {
    if (room == NULL) *count = 1;
    else if (*count >= 1) { room[0] = (void *)handle; *count = 1; }
    return 0;
}

int zeDriverGet(uint32_t *count, void **room) { return one(count, room, 0x7fff00001111); }

int zeDeviceGet(void *driver, uint32_t *count, void **room) {
    return driver == (void *)0x7fff00001111 ? one(count, room, 0x7fff00002222) : 0x78000005;
}

int zeDriverGetApiVersion(void *driver, uint32_t *version) { *version = 1 << 16 | 15; return driver ? 0 : 1; }

int zeDriverGetProperties(void *driver, struct driver *room) {
    if (room->stype != 1 || driver == NULL || wrong("silent")) return 0x78000003;
    room->version = 0x01030000 + 37833;
    return 0;
}

int zeDeviceGetProperties(void *device, struct device *room) {
    if (room->stype != 3 || device != (void *)0x7fff00002222 || wrong("silent")) return 0x78000003;
    room->type = 1; room->vendor = 0x8086; room->device = 0x56a0; room->clock = 2400;
    room->subslices = 4; room->slices = 8;
    strcpy(room->name, "Intel(R) Arc(TM) A770 Graphics");
    return 0;
}

int zeDevicePciGetPropertiesExt(void *device, struct place *room) {
    if (room->stype != 0x10008 || device == NULL || wrong("silent")) return 0x78000003;
    room->bus = 3;
    return 0;
}

int zeDeviceGetMemoryProperties(void *device, uint32_t *count, struct memory *room) {
    if (device == NULL || wrong("silent")) return 0x78000003;
    if (room == NULL) { *count = 1; return 0; }
    if (room->stype != 7) return 0x78000004;
    room->size = 16225243136;
    return 0;
}
