/* A stand-in libnvrtc.so.12 that compiles nothing: its PTX names the source, and a source with an #error is refused.
 * Its machine code names the source too, and counts what it has compiled. FAKE_NVRTC is its major version (default 12).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct { char text[4096], log[64]; } Program;
static int compiled;

int nvrtcVersion(int *major, int *minor) {
    const char *told = getenv("FAKE_NVRTC");
    *major = told ? atoi(told) : 12;
    *minor = 0;
    return 0;
}
int nvrtcCreateProgram(Program **p, const char *source, const char *name, int count, const char **headers, const char **names) {
    *p = calloc(1, sizeof **p);
    snprintf((*p)->text, sizeof (*p)->text, ".version 8.0 // %s\n", name);
    if (strstr(source, "#error")) strcpy((*p)->log, "line 1: told to fail");
    return strlen(source) ? 0 : 3;
}
int nvrtcCompileProgram(Program *p, int count, const char **options) { compiled++; return p->log[0] || count < 1 || !options[0][0] ? 6 : 0; }
int nvrtcDestroyProgram(Program **p) { free(*p); return 0; }
int nvrtcGetNumSupportedArchs(int *count) { *count = 2; return 0; }
int nvrtcGetSupportedArchs(int *archs) { archs[0] = 80; archs[1] = 90; return 0; }
int nvrtcGetCUBINSize(Program *p, size_t *size) { *size = snprintf(NULL, 0, "code %d of %s", compiled, p->text); return 0; }
int nvrtcGetCUBIN(Program *p, char *to) { char code[4200]; memcpy(to, code, sprintf(code, "code %d of %s", compiled, p->text)); return 0; }
int nvrtcGetPTXSize(Program *p, size_t *size) { *size = strlen(p->text) + 1; return 0; }
int nvrtcGetPTX(Program *p, char *to) { strcpy(to, p->text); return 0; }
int nvrtcGetProgramLogSize(Program *p, size_t *size) { *size = strlen(p->log) + 1; return 0; }
int nvrtcGetProgramLog(Program *p, char *to) { strcpy(to, p->log); return 0; }
