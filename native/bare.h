/*
 * The part of the C library that paddock-init and paddock-worker.so need when they are built without one.
 *
 * Before `main`, the C library queries the processor's features with dozens of CPUID instructions. In a virtual machine
 * the hypervisor answers each of them, which takes microseconds: together more than all the work of the init, and every
 * command in a sandbox would wait for it. docs/explanation/dependencies.md has the figures, and explains why Paddock
 * does not use musl.
 *
 * These functions follow the manual pages as far as the init uses them. The library's own headers declare them, so no
 * other file knows whether there is a library: with one, this file is empty. The build decides (hatch_build.py).
 *
 * Privilege: that of the caller.
 */
#ifndef PADDOCK_BARE_H
#define PADDOCK_BARE_H
#if !__STDC_HOSTED__

#ifndef __x86_64__
#error "there is no way into the kernel here for this architecture: build it with a C library, without -ffreestanding"
#endif

#include <errno.h>
#include <fcntl.h>
#include <linux/auxvec.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bare_string.h"
#include "number.h"

/* ---- Start and end ---- */

/* The compiler puts this value behind arrays on the stack, and checks it before a function returns. */
uintptr_t __stack_chk_guard;

/* Not by a signal that can be ignored: the first process of a namespace ignores all but those of the processor. */
_Noreturn void __stack_chk_fail(void) {
    __builtin_trap();
}

/* A library (worker.c) has no entry point, and a guard of zeros. */
#ifndef BARE_WITHOUT_START
int main(int argc, char **argv);

/* `stack` is the initial stack from the kernel: argc, argv, NULL, variables, NULL, pairs of the auxiliary vector. */
__attribute__((used)) static _Noreturn void begin(uintptr_t *stack) {
    char **argv = (char **)(stack + 1);
    char **end = argv + stack[0] + 1;
    while (*end)
        end++;
    for (uintptr_t *item = (uintptr_t *)(end + 1); item[0] != AT_NULL; item += 2)
        if (item[0] == AT_RANDOM)
            memcpy(&__stack_chk_guard, (void *)item[1], sizeof __stack_chk_guard);
    _exit(main((int)stack[0], argv));
}

/* The ABI requires an aligned stack before a call, and no frame below the first. */
__asm__(".globl _start\n"
        "_start: xor %ebp, %ebp\n"
        "mov %rsp, %rdi\n"
        "and $-16, %rsp\n"
        "call begin\n");
#endif

/* ---- System calls ---- */

static int error_number;

int *__errno_location(void) {
    return &error_number;
}

/* Always takes six arguments: the kernel ignores the extra ones. */
long syscall(long number, ...) {
    va_list list;
    va_start(list, number);
    long a = va_arg(list, long), b = va_arg(list, long), c = va_arg(list, long);
    long d = va_arg(list, long), e = va_arg(list, long), f = va_arg(list, long);
    va_end(list);
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    long result = number;
    __asm__ volatile("syscall"
                     : "+a"(result)
                     : "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    if (result >= 0 || result < -4095)
        return result;
    errno = (int)-result;
    return -1;
}

/* Calls whose arguments the kernel takes as they are, or with a few more. */
#define CALL(type, name, parameters, ...) \
    type name parameters { \
        return (type)syscall(__VA_ARGS__); \
    }

/* No caller creates files, so there is no mode. */
CALL(int, open, (const char *path, int flags, ...), SYS_open, path, flags, 0)
CALL(int, openat, (int directory, const char *path, int flags, ...), SYS_openat, directory, path, flags, 0)
CALL(int, chdir, (const char *path), SYS_chdir, path)
CALL(int, close, (int fd), SYS_close, fd)
CALL(ssize_t, read, (int fd, void *to, size_t size), SYS_read, fd, to, size)
CALL(ssize_t, pread, (int fd, void *to, size_t size, off_t offset), SYS_pread64, fd, to, size, offset)
CALL(ssize_t, write, (int fd, const void *from, size_t size), SYS_write, fd, from, size)
CALL(int, fstat, (int fd, struct stat *status), SYS_fstat, fd, status)
CALL(int, statx, (int directory, const char *restrict path, int flags, unsigned mask, struct statx *restrict status),
     SYS_statx, directory, path, flags, mask, status)
/* The real and the effective user are the same here, so the flags don't matter. */
CALL(int, faccessat, (int directory, const char *path, int mode, int flags),
     SYS_faccessat, directory, path, mode, flags)
CALL(int, poll, (struct pollfd *events, nfds_t count, int timeout_ms), SYS_poll, events, count, timeout_ms)
CALL(ssize_t, getrandom, (void *to, size_t size, unsigned flags), SYS_getrandom, to, size, flags)
CALL(ssize_t, recv, (int fd, void *to, size_t size, int flags), SYS_recvfrom, fd, to, size, flags, NULL, NULL)
CALL(ssize_t, recvmsg, (int fd, struct msghdr *message, int flags), SYS_recvmsg, fd, message, flags)
CALL(ssize_t, sendmsg, (int fd, const struct msghdr *message, int flags), SYS_sendmsg, fd, message, flags)
CALL(int, timerfd_create, (clockid_t clock, int flags), SYS_timerfd_create, clock, flags)
CALL(int, timerfd_settime, (int fd, int flags, const struct itimerspec *value, struct itimerspec *old),
     SYS_timerfd_settime, fd, flags, value, old)
CALL(int, execve, (const char *path, char *const argv[], char *const envp[]), SYS_execve, path, argv, envp)
CALL(pid_t, fork, (void), SYS_fork)
CALL(pid_t, wait4, (pid_t pid, int *status, int options, struct rusage *usage), SYS_wait4, pid, status, options, usage)
CALL(pid_t, waitpid, (pid_t pid, int *status, int options), SYS_wait4, pid, status, options, NULL)
CALL(int, waitid, (idtype_t type, id_t id, siginfo_t *end, int options), SYS_waitid, type, id, end, options, NULL)
CALL(int, kill, (pid_t pid, int signo), SYS_kill, pid, signo)
CALL(pid_t, getpid, (void), SYS_getpid)
CALL(pid_t, getpgrp, (void), SYS_getpgrp)
CALL(pid_t, getpgid, (pid_t pid), SYS_getpgid, pid)
CALL(int, setpgid, (pid_t pid, pid_t group), SYS_setpgid, pid, group)
CALL(int, tcsetpgrp, (int fd, pid_t group), SYS_ioctl, fd, TIOCSPGRP, &group)
/* The kernel has 64 signals; the sets of the library have room for more. */
CALL(int, sigprocmask, (int how, const sigset_t *set, sigset_t *old),
     SYS_rt_sigprocmask, how, set, old, sizeof(uint64_t))
CALL(int, signalfd, (int fd, const sigset_t *set, int flags), SYS_signalfd4, fd, set, sizeof(uint64_t), flags)

/* Macros, because not every library declares the resource as an int. */
#define getrlimit(resource, now) syscall(SYS_prlimit64, 0, resource, NULL, now)
#define setrlimit(resource, wanted) syscall(SYS_prlimit64, 0, resource, wanted, NULL)

int fcntl(int fd, int command, ...) {
    va_list list;
    va_start(list, command);
    long argument = va_arg(list, long);
    va_end(list);
    return (int)syscall(SYS_fcntl, fd, command, argument);
}

int prctl(int option, ...) {
    va_list list;
    va_start(list, option);
    long a = va_arg(list, long), b = va_arg(list, long), c = va_arg(list, long), d = va_arg(list, long);
    va_end(list);
    return (int)syscall(SYS_prctl, option, a, b, c, d);
}

pid_t tcgetpgrp(int fd) {
    pid_t group;
    return syscall(SYS_ioctl, fd, TIOCGPGRP, &group) < 0 ? -1 : group;
}

int sigemptyset(sigset_t *set) {
    memset(set, 0, sizeof *set);
    return 0;
}

int sigaddset(sigset_t *set, int signo) {
    *(uint64_t *)set |= 1ul << (signo - 1);
    return 0;
}

_Noreturn void _exit(int status) {
    for (;;)
        syscall(SYS_exit_group, status);
}

void *mmap(void *address, size_t size, int protection, int flags, int fd, off_t offset) {
    return (void *)syscall(SYS_mmap, address, size, protection, flags, fd, offset);
}

/* For a few large objects that are never freed. */
void *calloc(size_t count, size_t size) {
    void *room = mmap(NULL, count * size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return room == MAP_FAILED ? NULL : room;
}

/* ---- Errors ---- */

/* The errors that a step of the confinement or an execve can return. */
static const char *const error_texts[] = {
    [EPERM] = "Operation not permitted",
    [ENOENT] = "No such file or directory",
    [EINTR] = "Interrupted system call",
    [EIO] = "Input/output error",
    [ENXIO] = "No such device or address",
    [E2BIG] = "Argument list too long",
    [ENOEXEC] = "Exec format error",
    [EBADF] = "Bad file descriptor",
    [EAGAIN] = "Resource temporarily unavailable",
    [ENOMEM] = "Cannot allocate memory",
    [EACCES] = "Permission denied",
    [EFAULT] = "Bad address",
    [EBUSY] = "Device or resource busy",
    [ENODEV] = "No such device",
    [ENOTDIR] = "Not a directory",
    [EISDIR] = "Is a directory",
    [EINVAL] = "Invalid argument",
    [ENFILE] = "Too many open files in system",
    [EMFILE] = "Too many open files",
    [ETXTBSY] = "Text file busy",
    [ENOSPC] = "No space left on device",
    [EROFS] = "Read-only file system",
    [EPIPE] = "Broken pipe",
    [ENAMETOOLONG] = "File name too long",
    [ENOSYS] = "Function not implemented",
    [ELOOP] = "Too many levels of symbolic links",
    [ELIBBAD] = "Accessing a corrupted shared library",
    [EOVERFLOW] = "Value too large for defined data type",
    [ENOTSOCK] = "Socket operation on non-socket",
    [EOPNOTSUPP] = "Operation not supported",
    [ECONNRESET] = "Connection reset by peer",
    [ENOTCONN] = "Transport endpoint is not connected",
    [ESTALE] = "Stale file handle",
    [EREMOTEIO] = "Remote I/O error",
};

char *strerror(int error) {
    static char text[sizeof "error " + NUMBER_BYTES] = "error ";
    char digits[NUMBER_BYTES];
    if (error >= 0 && (size_t)error < sizeof error_texts / sizeof *error_texts && error_texts[error])
        return (char *)error_texts[error];
    stpcpy(text + strlen("error "), number_text(digits, (unsigned)error, 10, 1));
    return text;
}

#endif
#endif
