/*
 * Sets the limits of the command on itself alone, and checks whether it has reached the limit of processes.
 *
 * Privilege: none, because it only ever lowers limits, and takes away the right to change one.
 */
#ifndef PADDOCK_LIMIT_H
#define PADDOCK_LIMIT_H

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "task.h"

/* Descriptors under way in sockets (SCM_RIGHTS in unix(7)) are counted for the user, and the kernel lets him send more while
 * they are not more than RLIMIT_NOFILE of the sender. So a command has a lower limit than Paddock and the user's other
 * programs: they can still send theirs when all commands together have as many under way as they may. A quarter, but
 * no more than this. A user with fewer than the second needs them all. */
enum { DESCRIPTORS_FOR_OTHERS = 4096, DESCRIPTORS_TO_SHARE = 4096 };

static void set_limit(int i) {
    int resource = limit_names[i].resource;
    struct rlimit now, wanted = {task.limits[i], task.limits[i]};
    if (!task.limits[i])
        return;
    /* The kernel counts this process too. */
    if (resource == RLIMIT_NPROC)
        wanted.rlim_cur = ++wanted.rlim_max;
    /* SIGXCPU at the limit tells the reason. SIGKILL follows a second later for programs that catch it. */
    if (resource == RLIMIT_CPU)
        wanted.rlim_max++;
    if (getrlimit(resource, &now) < 0)
        refuse("limit ", limit_names[i].word);
    /* A stricter limit that is already in force stays, and can't be raised anyway. */
    if (wanted.rlim_max > now.rlim_max)
        wanted.rlim_max = now.rlim_max;
    if (wanted.rlim_cur > wanted.rlim_max)
        wanted.rlim_cur = wanted.rlim_max;
    if (setrlimit(resource, &wanted) < 0)
        refuse("limit ", limit_names[i].word);
}

/* To be called with the limit that the launcher had. */
static void leave_descriptors(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        refuse("limit ", "nofile");
    if (limit.rlim_max < DESCRIPTORS_TO_SHARE)
        return;
    limit.rlim_max -= limit.rlim_max / 4 < DESCRIPTORS_FOR_OTHERS ? limit.rlim_max / 4 : DESCRIPTORS_FOR_OTHERS;
    if (limit.rlim_cur > limit.rlim_max)
        limit.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) < 0)
        refuse("limit ", "nofile");
}

/* Where a filter finds an argument: the low half, on the little-endian machines that commands are confined on. The high
 * half follows. */
#define ARGUMENT(number) ((uint32_t)(offsetof(struct seccomp_data, args) + (number) * sizeof(uint64_t)))
enum { HALF_BYTES = 4 };

/* Keeps the limit of core files as it is, for the command and all that it starts. A call that sets it succeeds and does
 * nothing: many scripts begin with `ulimit -c 0`. Only a call that asks for the old limit too is refused, because nobody
 * would answer. The filter of every command (plan/seccomp.py) refuses the calls of other architectures. */
static void keep_core_limit(void) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_setrlimit, 11, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_prlimit64, 0, 12),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, ARGUMENT(1)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, RLIMIT_CORE, 0, 10),
        /* Is there a new limit? */
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, ARGUMENT(2)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 2),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, ARGUMENT(2) + HALF_BYTES),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 6, 0),
        /* Is there room for the old one? */
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, ARGUMENT(3)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 5),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, ARGUMENT(3) + HALF_BYTES),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 4, 3),
        /* setrlimit(2) */
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, ARGUMENT(0)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, RLIMIT_CORE, 2, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 0),
    };
    struct sock_fprog program = {.len = sizeof code / sizeof *code, .filter = code};
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0)
        refuse("limit ", "core");
}

/* Keeps the kernel from running the host's program for crashes (core_pattern, core(5)) when a process crashes: as root
 * and outside of the sandbox, with memory and names of the command's choice. Such a program gets the whole memory
 * whatever the limit is, except if that is 1 (coredump_pipe in the kernel), which the command could lower to 0. */
static void call_no_crash_handler(void) {
    char first = '|';
    struct rlimit limit;
    int pattern = open("/proc/sys/kernel/core_pattern", O_RDONLY | O_CLOEXEC);
    /* Nobody can tell without /proc. */
    if (pattern >= 0) {
        if (pread(pattern, &first, 1, 0) != 1)
            first = '|';
        close(pattern);
    }
    if (first != '|')
        return;
    if (getrlimit(RLIMIT_CORE, &limit) < 0)
        refuse("limit ", "core");
    /* Nobody can raise a limit of 0. */
    limit.rlim_cur = limit.rlim_max = limit.rlim_max ? 1 : 0;
    if (setrlimit(RLIMIT_CORE, &limit) < 0)
        refuse("limit ", "core");
    keep_core_limit();
}

/* Only the command calls this: a limit might keep the init from its work. */
static void limit_self(void) {
    leave_descriptors();
    call_no_crash_handler();
    for (int i = 0; i < LIMITS; i++)
        set_limit(i);
}

/* Returns whether the limit of processes is reached. The kernel keeps no record of the forks it refused. */
static bool is_full(void) {
    bool is_limited = task.cgroup >= 0;
    for (int i = 0; i < LIMITS; i++) {
        if (limit_names[i].resource == RLIMIT_NPROC && task.limits[i]) {
            set_limit(i);
            is_limited = true;
        }
    }
    pid_t another = is_limited ? fork() : 0;
    if (is_limited && another == 0)
        _exit(0);
    return another < 0 && errno == EAGAIN;
}

#endif
