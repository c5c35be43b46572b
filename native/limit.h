/*
 * Sets the limits of the command on itself alone, and checks whether it has reached the limit of processes.
 *
 * Privilege: none, because it only ever lowers limits.
 */
#ifndef PADDOCK_LIMIT_H
#define PADDOCK_LIMIT_H

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/resource.h>
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

/* Keeps the kernel from running the host's program for crashes (core_pattern, core(5)) when a process crashes: as root
 * and outside of the sandbox, with memory and names of the command's choice. Such a program gets the whole memory
 * whatever the limit is, except if that is 1 (coredump_pipe in the kernel). */
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
