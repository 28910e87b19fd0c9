/* A stand-in for one of NVIDIA's libraries: it answers its version as it was compiled to, and can do nothing else.
 *
 * SYMBOL       the function that it exports
 * SIZE         it takes nothing and gives this size_t
 * ONE, TWO     it takes pointers to one or two ints and writes these there
 * MAJOR        it takes what is asked (0, 1, 2) and a pointer, and writes MAJOR, MAJOR + 1 or MAJOR + 2
 * STATUS       what the functions with pointers give back (default 0)
 * ABORTS, EXITS, HANGS    what loading it does
 */
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

#ifndef STATUS
#define STATUS 0
#endif

#if defined(SIZE)
size_t SYMBOL(void) { return SIZE; }
#elif defined(TWO)
int SYMBOL(int *one, int *two) {
    *one = ONE;
    *two = TWO;
    return STATUS;
}
#elif defined(ONE)
int SYMBOL(int *one) {
    *one = ONE;
    return STATUS;
}
#elif defined(MAJOR)
int SYMBOL(int type, int *value) {
    *value = MAJOR + type;
    return STATUS;
}
#endif

__attribute__((constructor)) static void loaded(void) {
#if defined(ABORTS)
    signal(SIGABRT, SIG_DFL); /* a test runner's own handler would print a trace */
    abort();
#elif defined(EXITS)
    exit(0);
#elif defined(HANGS)
    for (;;) pause();
#endif
}
