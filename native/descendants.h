/*
 * Finding and killing every descendant of this process.
 *
 * Promises that when `kill_descendants` returns, no process started by this
 * one or by its children is left, whatever sessions, groups and double forks
 * they used. Requires that this process is a child subreaper, has one thread,
 * and reaps nowhere else meanwhile.
 *
 * Privilege: that of the caller. Processes that took another user's identity
 * (sudo) may refuse the signals; they are then waited for.
 */
#ifndef PADDOCK_DESCENDANTS_H
#define PADDOCK_DESCENDANTS_H

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* One bit for each pid the kernel can give (PID_MAX_LIMIT); pages never touched cost nothing. */
#define PID_LIMIT (4 << 20)
typedef uint64_t pid_set[PID_LIMIT / 64];

static bool pid_in(const pid_set set, pid_t pid) {
    return pid > 0 && pid < PID_LIMIT && (set[pid / 64] >> (pid % 64) & 1);
}

static void pid_add(pid_set set, pid_t pid) {
    if (pid > 0 && pid < PID_LIMIT)
        set[pid / 64] |= UINT64_C(1) << (pid % 64);
}

static inline void pid_remove(pid_set set, pid_t pid) {
    if (pid > 0 && pid < PID_LIMIT)
        set[pid / 64] &= ~(UINT64_C(1) << (pid % 64));
}

/* The parent of a process, or -1 when it is gone or hidden. */
static pid_t parent_of(pid_t pid) {
    char path[32], text[512];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    if (n <= 0)
        return -1;
    text[n] = '\0';
    /* "pid (name) state ppid ...": the name may hold anything, parentheses too, so the last one ends it. */
    const char *name_end = strrchr(text, ')');
    int parent;
    return name_end && sscanf(name_end + 1, " %*c %d", &parent) == 1 ? parent : -1;
}

/*
 * One pass over /proc: signals each process whose parent is in `tree` and adds
 * it. Returns how many were new. The kernel lists pids in ascending order and
 * parents are mostly older than their children, so a pass meets most of the
 * tree; repeating it until it returns 0 meets the rest. (The "children" files
 * of /proc would be cheaper, but many kernels are built without them.)
 *
 * A listed pid may be recycled before the signal leaves. The pidfd pins one
 * process, and asking for its parent after that proves it is one of ours.
 */
static size_t signal_new(int signo, pid_set tree) {
    size_t found = 0;
    DIR *directory = opendir("/proc");
    if (!directory)
        return 0;
    for (struct dirent *entry; (entry = readdir(directory));) {
        pid_t pid = atoi(entry->d_name);
        if (pid <= 0 || pid_in(tree, pid) || !pid_in(tree, parent_of(pid)))
            continue;
        found++;
        int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
        if (pidfd < 0)
            continue;
        if (pid_in(tree, parent_of(pid))) {
            syscall(SYS_pidfd_send_signal, pidfd, signo, NULL, 0);
            pid_add(tree, pid);
        }
        close(pidfd);
    }
    closedir(directory);
    return found;
}

static void signal_descendants(int signo) {
    /* Stopping is a race against forks; what this many passes miss is caught after the next death. */
    enum { PASSES = 64 };
    static pid_set tree;
    memset(tree, 0, sizeof tree);
    pid_add(tree, getpid());
    for (int pass = 0; pass < PASSES && signal_new(signo, tree); pass++) {
    }
}

/*
 * Returns when no descendant is left. A subreaper adopts every orphan below
 * it, so while a descendant lives this process has a child: ECHILD proves the
 * end, and nothing else does.
 *
 * All are stopped before the first is killed. Under a process limit each kill
 * would free a slot that a fork bomb fills at once, while the stopped keep
 * theirs; and a stopped parent neither replaces nor reaps, so pids stay put.
 *
 * Nothing needs polling. A fork cannot complete once SIGKILL is pending for
 * the forking process (copy_process in the kernel), so a process that escaped
 * a pass is below one that was killed, and is ours before that death ends the
 * wait. A kill may also continue others: when a group with stopped members
 * becomes orphaned, the kernel sends it SIGHUP and SIGCONT (setpgid(2)). They
 * have SIGKILL pending by then, or are met in the next round.
 */
static void kill_descendants(void) {
    for (;;) {
        signal_descendants(SIGSTOP);
        signal_descendants(SIGKILL);
        if (waitpid(-1, NULL, 0) < 0)
            return;
        while (waitpid(-1, NULL, WNOHANG) > 0) {
        }
    }
}

#endif
