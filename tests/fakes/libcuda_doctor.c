/* A stand-in for libcuda.so.1 with as much as the doctor's probe asks of it: one H200, and no GPU behind it.
 *
 * The variable CUDA_FAKE says how it behaves: a number is what cuInit gives; "crash", "hang" and "exit" are what it does
 * instead. -DOLD leaves out what drivers before CUDA 11 had not, -DMUTE the names of errors as well.
 */

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SUCCESS = 0, INVALID_VALUE = 1, NOT_INITIALIZED = 3, INVALID_DEVICE = 101 };

static int started = 0;

/* Number and value of each attribute that is known here, as an H200 gave them on 2026-11-21. */
static const int attributes[][2] = {
    {10, 32},   {13, 1980000}, {16, 132},   {18, 0},  {32, 1}, {36, 3201000}, {37, 6016},   {38, 62914560},
    {39, 2048}, {40, 3},       {75, 9},     {76, 0},  {81, 233472}, {82, 65536},
};

int cuInit(unsigned flags) {
    const char *how = getenv("CUDA_FAKE");
    if (flags != 0) return INVALID_VALUE;
    if (how && strcmp(how, "crash") == 0) raise(SIGSEGV);
    if (how && strcmp(how, "exit") == 0) exit(0);
    while (how && strcmp(how, "hang") == 0) pause();
    printf("a library may print what it likes\n");
    fflush(stdout);
    started = !how || atoi(how) == 0;
    return started ? SUCCESS : atoi(how);
}

int cuDriverGetVersion(int *version) {
    *version = 13000;
    return SUCCESS;
}

#ifndef MUTE
int cuGetErrorName(int code, const char **name) {
    *name = code == 803 ? "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH" : code == 101 ? "CUDA_ERROR_INVALID_DEVICE" : NULL;
    return *name ? SUCCESS : INVALID_VALUE;
}
#endif

int cuDeviceGetCount(int *count) {
    const char *told = getenv("CUDA_FAKE_DEVICES");
    *count = told ? atoi(told) : 1;
    return started ? SUCCESS : NOT_INITIALIZED;
}

int cuDeviceGet(int *device, int ordinal) {
    if (ordinal != 0) return INVALID_DEVICE;
    *device = 7; /* a handle is no ordinal */
    return SUCCESS;
}

int cuDeviceGetName(char *name, int size, int device) {
    if (device != 7) return INVALID_DEVICE;
    snprintf(name, (size_t)size, "NVIDIA H200");
    return SUCCESS;
}

int cuDeviceGetPCIBusId(char *address, int size, int device) {
    if (device != 7) return INVALID_DEVICE;
    snprintf(address, (size_t)size, "0000:3B:00.0");
    return SUCCESS;
}

int cuDeviceGetAttribute(int *value, int attribute, int device) {
    if (device != 7) return INVALID_DEVICE;
    for (size_t row = 0; row < sizeof attributes / sizeof *attributes; row++) {
        if (attributes[row][0] == attribute) {
            *value = attributes[row][1];
            return SUCCESS;
        }
    }
    return INVALID_VALUE;
}

#ifndef OLD
static int identify(unsigned char *uuid, int device) {
    if (device != 7) return INVALID_DEVICE;
    for (int place = 0; place < 16; place++) uuid[place] = (unsigned char)place;
    return SUCCESS;
}

int cuDeviceGetUuid(unsigned char *uuid, int device) { return identify(uuid, device); }

#ifndef MIDDLE
int cuDeviceGetUuid_v2(unsigned char *uuid, int device) { return identify(uuid, device); }
#endif

int cuDeviceTotalMem_v2(size_t *bytes, int device) {
    if (device != 7) return INVALID_DEVICE;
    *bytes = 150109880320ul; /* more than fits in an int */
    return SUCCESS;
}
#endif
