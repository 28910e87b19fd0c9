/* Starts a program under a seccomp filter: seccomp PROFILE PROGRAM ARGUMENT…
 *
 * runtime: what Docker's own profile refuses a container without further capabilities (moby,
 * profiles/seccomp/default_linux.go, of which these are the calls that a program like ours might come near).
 * strict: beyond that, what profiles written by hand refuse, and calls that are newer than the list of an old runtime,
 * which it refuses with EPERM where a C library waits for ENOSYS. alone: no process may be started.
 * Exit code 77 where no filter can be had.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MOST = 64, CANNOT = 77 };
struct refused { int number, error; };

static const struct refused RUNTIME[] = {
    {SYS_bpf, EPERM}, {SYS_perf_event_open, EPERM}, {SYS_ptrace, EPERM}, {SYS_process_vm_readv, EPERM},
    {SYS_process_vm_writev, EPERM}, {SYS_kcmp, EPERM}, {SYS_syslog, EPERM}, {SYS_mount, EPERM}, {SYS_umount2, EPERM},
    {SYS_unshare, EPERM}, {SYS_setns, EPERM}, {SYS_open_by_handle_at, EPERM}, {SYS_personality, EPERM},
    {SYS_keyctl, EPERM}, {SYS_add_key, EPERM}, {SYS_request_key, EPERM}, {SYS_userfaultfd, EPERM},
    {SYS_get_mempolicy, EPERM}, {SYS_mbind, EPERM}, {SYS_set_mempolicy, EPERM}, {SYS_finit_module, EPERM},
    {SYS_chroot, EPERM}, {SYS_clone3, ENOSYS},
};
static const struct refused STRICT[] = {
    {SYS_socket, EPERM}, {SYS_socketpair, EPERM}, {SYS_connect, EPERM}, {SYS_clone3, EPERM}, {SYS_close_range, EPERM},
    {SYS_statx, EPERM}, {SYS_faccessat2, EPERM}, {SYS_pidfd_open, EPERM}, {SYS_memfd_create, EPERM},
    {SYS_sched_getaffinity, EPERM}, {SYS_sched_setaffinity, EPERM}, {SYS_getrandom, EPERM}, {SYS_sysinfo, EPERM},
    {SYS_getpriority, EPERM}, {SYS_setpriority, EPERM}, {SYS_inotify_init1, EPERM}, {SYS_io_uring_setup, EPERM},
};
static const struct refused ALONE[] = {
    {SYS_clone, EPERM}, {SYS_clone3, EPERM},
#ifdef SYS_fork
    {SYS_fork, EPERM}, {SYS_vfork, EPERM},
#endif
};

static struct sock_filter code[3 * MOST];
static unsigned short length;

static void add(unsigned short what, unsigned value, unsigned char yes, unsigned char no) {
    code[length++] = (struct sock_filter){what, yes, no, value};
}
static void refuse(const struct refused *list, size_t count) {
    for (size_t i = 0; i < count; i++) {
        add(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)list[i].number, 0, 1);
        add(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)list[i].error, 0, 0);
    }
}

int main(int count, char **words) {
    if (count < 3) return CANNOT;
    add(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr), 0, 0);
    if (!strcmp(words[1], "alone")) refuse(ALONE, sizeof ALONE / sizeof *ALONE);
    if (!strcmp(words[1], "strict")) refuse(STRICT, sizeof STRICT / sizeof *STRICT);
    refuse(RUNTIME, sizeof RUNTIME / sizeof *RUNTIME);
    add(BPF_RET | BPF_K, SECCOMP_RET_ALLOW, 0, 0);
    struct sock_fprog program = {length, code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) return CANNOT;
    execv(words[2], words + 2);
    return CANNOT;
}
