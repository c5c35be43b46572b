/*
 * Finds and kills every descendant of this process.
 *
 * When `kill_descendants` returns, no process started by this one or by its
 * children is left, whatever sessions, groups and double forks they used. This
 * process must be a child subreaper, have one thread, and not reap anywhere else
 * meanwhile.
 *
 * Privilege: that of the caller. Processes that run as another user (sudo) may
 * refuse the signals; this process then waits for them.
 */
#ifndef PADDOCK_DESCENDANTS_H
#define PADDOCK_DESCENDANTS_H

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "number.h"

/* One bit for each pid the kernel can assign (PID_MAX_LIMIT). Untouched pages cost nothing. */
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

/* Returns the parent named in the text of /proc/PID/stat, or -1. The text may be cut off anywhere. */
static pid_t parent_in(char *text) {
    /* "pid (name) state ppid ...": the name may contain anything, even parentheses, so the last one ends it. */
    char *rest = strrchr(text, ')');
    uint64_t parent;
    if (!rest || strlen(rest) < strlen(") S "))
        return -1;
    rest += strlen(") S ");
    return read_number(&rest, 10, &parent) && parent < PID_LIMIT ? (pid_t)parent : -1;
}

/* Returns the parent of a process, or -1 if the process is gone or hidden. */
static pid_t parent_of(pid_t pid) {
    char path[32], digits[NUMBER_BYTES], text[512];
    stpcpy(stpcpy(stpcpy(path, "/proc/"), number_text(digits, (uint64_t)pid, 10, 1)), "/stat");
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    if (n <= 0)
        return -1;
    text[n] = '\0';
    return parent_in(text);
}

/*
 * Signals a process that /proc lists under `name`, if its parent is in `tree`, and
 * adds it to the tree. Returns whether it was new.
 *
 * The kernel may recycle a listed pid before the signal is sent. The pidfd pins one
 * process, and reading its parent after that proves that it is a descendant.
 */
static bool signal_if_new(char *name, int signo, pid_set tree) {
    uint64_t number;
    if (!read_number(&name, 10, &number) || number >= PID_LIMIT)
        return false;
    pid_t pid = (pid_t)number;
    if (pid_in(tree, pid) || !pid_in(tree, parent_of(pid)))
        return false;
    int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (pidfd >= 0 && pid_in(tree, parent_of(pid))) {
        syscall(SYS_pidfd_send_signal, pidfd, signo, NULL, 0);
        pid_add(tree, pid);
    }
    if (pidfd >= 0)
        close(pidfd);
    return true;
}

/*
 * Passes over /proc once and signals each new process below `tree`. Returns how
 * many it found. The kernel lists pids in ascending order and parents are mostly
 * older than their children, so one pass finds most of the tree. Repeat it until it
 * returns 0 to find the rest. (The "children" files of /proc would be cheaper, but
 * many kernels are built without them.)
 */
static size_t signal_new(int signo, pid_set tree) {
    char entries[4096] __attribute__((aligned(8)));
    size_t found = 0;
    /* readdir(3) would allocate memory. */
    int directory = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (long n; directory >= 0 && (n = syscall(SYS_getdents64, directory, entries, sizeof entries)) > 0;) {
        struct dirent *entry;
        for (char *at = entries; at < entries + n; at += entry->d_reclen) {
            entry = (struct dirent *)at;
            found += signal_if_new(entry->d_name, signo, tree);
        }
    }
    if (directory >= 0)
        close(directory);
    return found;
}

static void signal_descendants(int signo) {
    /* Stopping races against forks. The round after the next death catches what these passes miss. */
    enum { PASSES = 64 };
    static pid_set tree;
    memset(tree, 0, sizeof tree);
    pid_add(tree, getpid());
    for (int pass = 0; pass < PASSES && signal_new(signo, tree); pass++) {
    }
}

/*
 * Returns when no descendant is left. A subreaper adopts every orphan below it, so
 * while a descendant lives, this process has a child. Only ECHILD proves that none
 * is left.
 *
 * Stops all descendants before it kills the first. Under a process limit each kill
 * would free a slot that a fork bomb fills at once, while stopped processes keep
 * theirs. A stopped parent neither forks nor reaps, so pids stay valid.
 *
 * It never polls. A fork can't complete once SIGKILL is pending for the forking
 * process (copy_process in the kernel). So a process that escaped a pass is below a
 * killed one, and this process adopts it before that death ends the wait. A kill
 * may also continue others: when a group with stopped members becomes orphaned, the
 * kernel sends it SIGHUP and SIGCONT (setpgid(2)). By then they have SIGKILL
 * pending, or the next round finds them.
 */
static void kill_descendants(void) {
    /* Mostly nothing is left, and to look at every process of the host would take longer than many a command. */
    if (waitpid(-1, NULL, WNOHANG) < 0)
        return;
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
