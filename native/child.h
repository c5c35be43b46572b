/*
 * Helpers for programs that start and reap children.
 *
 * Privilege: that of the caller. Code between fork and exec makes system calls
 * only, so it is safe in memory shared with the parent.
 */
#ifndef PADDOCK_CHILD_H
#define PADDOCK_CHILD_H

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include "without_links.h"

#define DEFAULT_PATH "/usr/local/bin:/usr/bin:/bin"

/* Returns the PATH of an environment, or the default. */
static inline const char *search_path(char *const *environment) {
    const char *path = DEFAULT_PATH;
    for (; *environment; environment++)
        if (strncmp(*environment, "PATH=", strlen("PATH=")) == 0)
            path = *environment + strlen("PATH=");
    return path;
}

/* Enters a working directory. Returns -1 with errno. */
static inline int enter_directory(const char *path, int without_links) {
    if (!without_links)
        return chdir(path);
    /* The last name too: a link that is opened itself is no directory. */
    int directory = open_without_links(path);
    return directory < 0 ? -1 : fchdir(directory);
}

/*
 * Executes the program, looked up in `path` if it has no slash. Returns only on
 * failure, with the errno to report. It never falls back to a shell for a file
 * without "#!".
 */
static inline int exec_program(const char *program, const char *path, char **argv, char **envp) {
    size_t length = strlen(program);
    if (length == 0 || strchr(program, '/')) {
        execve(program, argv, envp);
        return errno;
    }
    int error = ENOENT;
    const char *element = path;
    do {
        size_t width = (size_t)(strchrnul(element, ':') - element);
        char candidate[PATH_MAX];
        if (width + length + 2 < sizeof candidate) {
            /* An empty element is the working directory (environ(7)). */
            char *end = mempcpy(candidate, width ? element : ".", width ? width : 1);
            *end++ = '/';
            memcpy(end, program, length + 1);
            execve(candidate, argv, envp);
            if (errno == EACCES) {
                /* To this user, a directory that can't be searched does not contain the program. */
                if (faccessat(AT_FDCWD, candidate, F_OK, AT_EACCESS) == 0)
                    error = EACCES;
            } else if (errno != ENOENT && errno != ENOTDIR)
                return errno;
        }
        element += width;
    } while (*element++);
    return error;
}

/* At most one instance of a standard signal is pending. Realtime signals, which queue, have higher numbers. */
enum { LAST_STANDARD_SIGNAL = 31, LAST_SIGNAL = 64 };

/* Resets all dispositions to the default. Children inherit them through exec, and the parent of this process may have
 * ignored some (Python ignores SIGPIPE). Zeros are SIG_DFL. Uses the raw call because the C library reserves 32 and 33. */
static void default_signals(void) {
    const unsigned long defaults[8] = {0};
    for (int signo = 1; signo <= LAST_SIGNAL; signo++)
        syscall(SYS_rt_sigaction, signo, defaults, NULL, (size_t)8);
}

static inline void standard_signals(sigset_t *set) {
    sigemptyset(set);
    for (int signo = 1; signo <= LAST_STANDARD_SIGNAL; signo++)
        sigaddset(set, signo);
}

/* A process that blocks realtime signals queues every one it is sent, which counts against its user. */
static inline void ignore_realtime_signals(void) {
    const unsigned long ignored[8] = {(unsigned long)SIG_IGN};
    for (int signo = LAST_STANDARD_SIGNAL + 1; signo <= LAST_SIGNAL; signo++)
        syscall(SYS_rt_sigaction, signo, ignored, NULL, (size_t)8);
}

/* Number of processes to reap before other work gets its turn: some tenths of a millisecond. */
enum { REAPED_IN_A_TURN = 64 };

static inline uint64_t microseconds(struct timeval value) {
    return (uint64_t)value.tv_sec * 1000000 + (uint64_t)value.tv_usec;
}

#endif
