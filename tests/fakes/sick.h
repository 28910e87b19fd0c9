/* What a stand-in library does where it is told to be sick. It gives what the function is to return: a code, or GARBAGE
 * where its answer is to be nonsense, or 0 where it has done its harm and answers as if nothing were.
 *
 * hang, spin, stop, vfork: no answer, in state S, R, T or D · segv, bus, fpe, ill, kill, abort, exit0, exit7, smash, deep: the
 * process is gone · hog: memory until there is none, then abort, as C++ does; bounded here to 192 MiB ·
 * endless: output for ever · chatter: 100 KB of it · forge: another's answer on every descriptor · shut: every
 * descriptor closed · litter: a child that stays, with every descriptor · slow: 0.06 s · slow5, late:
 * 5 s, which is waited for or not · a number: that code
 *
 * Whatever it does, it is told as an item of the plan (cuInit=hang), and writes that item to the file that NV_FIRED
 * names before it does it: a test sees there which fault was met.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { GARBAGE = -1 };

__attribute__((noinline)) static int deep(volatile char *above) {
    volatile char here[4096];
    here[0] = above ? above[0] : 1;
    return deep(here) + here[0];
}
__attribute__((noinline, optimize("stack-protector-all"))) static void smash(volatile int length) {
    volatile char small[8];
    for (int i = 0; i < length; i++) small[i] = 'x';
}
static void hog(void) {
    struct rlimit most = {192 << 20, 192 << 20};
    setrlimit(RLIMIT_AS, &most);
    for (char *one; (one = malloc(16 << 20));) memset(one, 1, 16 << 20);
    signal(SIGABRT, SIG_DFL);
    abort();
}
static void write_all(int handle, const char *text) {
    ssize_t written = write(handle, text, strlen(text));
    (void)written;
}
static void litter(void) {
    if (fork() == 0) for (;;) pause();
}

static void fired(const char *item) {
    const char *at = getenv("NV_FIRED");
    int handle = at ? open(at, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666) : -1;
    if (handle < 0) return;
    dprintf(handle, "%s\n", item);
    close(handle);
}

static int sick(const char *item) {
    const char *how = strchr(item, '=') + 1;
    fired(item);
    static const struct { const char *name; int number; } SIGNALS[] = {
        {"segv", SIGSEGV}, {"bus", SIGBUS}, {"fpe", SIGFPE}, {"ill", SIGILL}, {"kill", SIGKILL}, {"stop", SIGSTOP},
    };
    for (size_t i = 0; i < sizeof SIGNALS / sizeof *SIGNALS; i++)
        if (!strcmp(how, SIGNALS[i].name)) raise(SIGNALS[i].number);
    if (!strcmp(how, "hang")) for (;;) pause();
    if (!strcmp(how, "vfork") && vfork() == 0) for (;;) pause();
    if (!strcmp(how, "spin")) for (volatile long turns = 0;;) turns++;
    if (!strcmp(how, "abort")) abort();
    if (!strcmp(how, "exit0")) exit(0);
    if (!strcmp(how, "exit7")) exit(7);
    if (!strcmp(how, "smash")) smash(4096);
    if (!strcmp(how, "deep")) return deep(NULL);
    if (!strcmp(how, "hog")) hog();
    if (!strcmp(how, "endless")) for (;;) write_all(1, "a library that does not stop talking\n");
    if (!strcmp(how, "chatter")) for (int i = 0; i < 3000; i++) write_all(1, "a library that likes to talk much\n");
    if (!strcmp(how, "forge"))
        for (int i = 3; i < 64; i++)
            if ((fcntl(i, F_GETFL) & O_ACCMODE) == O_WRONLY)
                write_all(i, "{\"id\": \"somebody-else\", \"status\": \"present\", \"instances\": []}\n");
    if (!strcmp(how, "shut")) for (int i = 0; i < 256; i++) close(i);
    if (!strcmp(how, "litter")) litter();
    if (!strcmp(how, "slow")) return usleep(60000);
    if (!strcmp(how, "slow5") || !strcmp(how, "late")) return (int)sleep(5);
    return strcmp(how, "garbage") ? atoi(how) : GARBAGE;
}
