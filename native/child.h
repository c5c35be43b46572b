/*
 * What every program here does for a child that it starts and reaps.
 *
 * Privilege: that of the caller. What runs between fork and exec makes system
 * calls only, so that it is safe in memory shared with the parent.
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

#define DEFAULT_PATH "/usr/local/bin:/usr/bin:/bin"

/* Where a list of variables says that programs are. */
static inline const char *search_path(char *const *environment) {
    const char *path = DEFAULT_PATH;
    for (; *environment; environment++)
        if (strncmp(*environment, "PATH=", strlen("PATH=")) == 0)
            path = *environment + strlen("PATH=");
    return path;
}

/*
 * Executes the program, looked up in `path` if it has no slash. Returns only on
 * failure, with the errno to report. There is no fall-back to a shell for a
 * file without "#!": what runs is what was asked for.
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
                /* A directory that can't be searched does not have it, as far as this user can tell. */
                if (faccessat(AT_FDCWD, candidate, F_OK, AT_EACCESS) == 0)
                    error = EACCES;
            } else if (errno != ENOENT && errno != ENOTDIR)
                return errno;
        }
        element += width;
    } while (*element++);
    return error;
}

/* Those that wait once each, however often they are sent; the realtime ones are above. */
enum { LAST_STANDARD_SIGNAL = 31, LAST_SIGNAL = 64 };

/* Children inherit dispositions through exec: all default, whatever our own parent ignored (Python does
 * SIGPIPE). Zeros are SIG_DFL; raw, because the C library keeps 32 and 33 to itself. */
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

/* A process that blocks them keeps every one that is sent, at the cost of its user. */
static inline void ignore_realtime_signals(void) {
    const unsigned long ignored[8] = {(unsigned long)SIG_IGN};
    for (int signo = LAST_STANDARD_SIGNAL + 1; signo <= LAST_SIGNAL; signo++)
        syscall(SYS_rt_sigaction, signo, ignored, NULL, (size_t)8);
}

/* Of ended processes, before anything else has its turn: some tenths of a millisecond. */
enum { REAPED_IN_A_TURN = 64 };

static inline uint64_t microseconds(struct timeval value) {
    return (uint64_t)value.tv_sec * 1000000 + (uint64_t)value.tv_usec;
}

#endif
