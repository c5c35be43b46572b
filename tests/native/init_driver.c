/*
 * The words of paddock-init (native/init.c), all that is done with them before the command, the search for its program, and signals;
 * or what a file worker does with them (native/entering.h).
 * Input: how many words are in the command line, how the kernel answers, how many signals come, these, and the words, each ended by
 * NUL. Those that are not in the command line are as if in the file of `more=`.
 *
 * Nothing that is asked of the kernel happens.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"

enum { COMMAND = 77, GROUP = 78, SIGNALS = 79, NAMESPACE = 80 };

/* Bits 0 to 7: which calls fail. The others say how, and what has become of masks. */
static unsigned failing;
enum { IS_DENIED = 1 << 8, HAS_NO_OPENAT2 = 1 << 9, IS_DIRECTORY = 1 << 10, IS_LOST = 1 << 11, IS_FIRST = 1 << 12,
       IS_WORKER = 1 << 13, HAS_NO_MOUNTS = 1 << 14, FAILS_ONCE = 1 << 15 };

static int fake_open(const char *path);
static int fake_openat(int directory, const char *path, int flags);
static int fake_status(int fd, struct stat *status);
static int fake_statx(const char *path, struct statx *status);
static long fake_syscall(long number, ...);
static int fake_prctl(int option, ...);
static int fake_limits(struct rlimit *limit);
static ssize_t fake_write(int fd, const char *from, size_t size);
static int fake_execve(const char *path, char *const argv[], char *const envp[]);
static ssize_t fake_getrandom(uint32_t *number);
static void *fake_mmap(size_t size);
static ssize_t fake_read(int fd, void *to, size_t size);
static int fake_kill(pid_t pid, int signo);
static pid_t fake_wait(pid_t pid, int *status);
static _Noreturn void fake_exit(int status);

#define open(path, ...) fake_open(path)
#define openat(directory, path, flags, ...) fake_openat(directory, path, flags)
#define close(fd) ((void)(fd))
#define fstat(fd, status) fake_status(fd, status)
#define statx(directory, path, flags, mask, status) fake_statx(path, status)
#define syscall(...) fake_syscall(__VA_ARGS__)
#define getrlimit(resource, limit) fake_limits(limit)
#define setrlimit(...) fails(2, __VA_ARGS__)
#define fcntl(...) fails(0, __VA_ARGS__)
#define prctl(...) fake_prctl(__VA_ARGS__)
#define pread(...) fails(2, __VA_ARGS__)
#define write(fd, from, size) fake_write(fd, (const char *)(from), size)
#define poll(events, count, timeout_ms) ((events)->fd == 2 ? 1 : (poll)(events, count, timeout_ms))
#define execve(...) fake_execve(__VA_ARGS__)
#define faccessat(...) fails(3, __VA_ARGS__)
#define getrandom(to, size, flags) fake_getrandom(to)
#define calloc(count, size) room_of(count, size)
#define mmap(address, size, ...) fake_mmap(size)
#define read(fd, to, size) fake_read(fd, to, size)
#define kill(pid, signo) fake_kill(pid, signo)
#define getpgid(pid) ((void)(pid), GROUP)
#define getpgrp() (GROUP + 1)
#define getpid() (failing & IS_FIRST ? 1 : GROUP + 1)
#define waitpid(pid, status, flags) fake_wait(pid, status)
#define fork() (fails(7) ? -1 : COMMAND)
#define sendmsg(...) fails(3, __VA_ARGS__)
#define _exit(status) fake_exit(status)
#define main init_main

/* In place of native/descendants.h, native/suspension.h, native/own_mounts.h and native/devices.h, which read nothing
 * that they are told. */
#define PADDOCK_DESCENDANTS_H
#define PADDOCK_SUSPENSION_H
#define PADDOCK_OWN_MOUNTS_H
#define PADDOCK_DEVICES_H
static void kill_descendants(void);
static struct {
    bool is_on;
} suspension;
static void suspend(void);
static void resume(void);
static bool keeps_still(void);
static const char *unrest(void);
static int next_look_ms(void);
static void own_mounts(void);
static void make_devices(void);

/* -1, with an errno, if the input says that a call fails; otherwise 0. */
static int fails(int call, ...);

#include "init.c"
#include "entering.h"

const char *const dictionary[] = {
    "as=", "cpu=", "fsize=", "nofile=", "nproc=", "wall=", "cgroup=", "landlock=", "landlock=f:0:0", "allow=", "allow=f:/",
    "seccomp=", "trace=", "report=", "argv0=", "env=", "env=PATH=:/bin::", "cwd=", "mounted=", "mounted=1:2:/", "mask=", "mask=/a/b", "guard=",
    "guard=/a/.git", "private=", "private=/a/c", "hold=1", "listen=", "listen=3:3128", "own-mounts=1", "early-mounts=", "early-mounts=3:4:5", "devices=1",
    "read-only=/dev/null", "r/a", "w/b", "--", ":", "/", "=", "18446744073709551615", "ffffffffffffffff", NULL,
};

static bool is_lost, is_confined, is_start; /* the last: of bubblewrap */
static bool is_private; /* it has mounts of its own, or needs none */
static bool is_over; /* the preparation, so that the process may end in other ways */
static jmp_buf end;
static char *more;
static size_t more_bytes;
static struct input signals_to_come;

static int fails(int call, ...) {
    if (!(failing >> call & 1))
        return 0;
    errno = failing & IS_DENIED ? EACCES : ENOENT;
    return -1;
}

static int fake_open(const char *path) {
    check(*path == '/' && strlen(path) < SIZE_MAX, "only absolute paths are opened");
    return fails(4) ? -1 : 10;
}

static int fake_openat(int directory, const char *path, int flags) {
    check(directory >= 0 && strlen(path) <= NAME_MAX && !strchr(path, '/'), "a name is opened in a directory");
    check(flags & O_CLOEXEC, "nothing is left to the command");
    return fails(4) ? -1 : 11;
}

static int fake_status(int fd, struct stat *status) {
    (void)fd;
    *status = (struct stat){.st_dev = 1, .st_ino = 2, .st_mode = (failing & IS_DIRECTORY ? S_IFDIR : S_IFREG) | 0700, .st_size = (off_t)more_bytes};
    return 0;
}

static int fake_statx(const char *path, struct statx *status) {
    check(!strchr(path, '/'), "a mask is looked at by its name");
    *status = (struct statx){.stx_mode = failing & IS_DIRECTORY ? S_IFDIR : S_IFREG,
                             .stx_attributes_mask = IS_MOUNT_ROOT, .stx_attributes = is_lost ? 0 : IS_MOUNT_ROOT};
    return fails(5);
}

static long fake_syscall(long number, ...) {
    va_list list;
    va_start(list, number);
    long result = fails(6);
    if (number == OPENAT2) {
        int directory = va_arg(list, int);
        const char *path = va_arg(list, const char *);
        check(directory == AT_FDCWD && *path == '/', "only absolute paths are opened");
        result = result ? result : 12;
        if (failing & HAS_NO_OPENAT2) {
            errno = ENOSYS;
            result = -1;
        }
    } else if (number == SYS_renameat2) {
        va_arg(list, int);
        check(!strchr(va_arg(list, const char *), '/'), "what is put aside has a name");
        va_arg(list, int);
        const char *name = va_arg(list, const char *);
        check(!strchr(name, '/') && strlen(name) <= NAME_MAX, "what is put aside gets a name");
    } else if (number == SYS_capget) {
        va_arg(list, void *);
        memset(va_arg(list, void *), (int)failing, 2 * sizeof(struct __user_cap_data_struct));
    } else if (number == LANDLOCK_CREATE && !result) {
        result = 13;
    } else if (number == SYS_setns) {
        check(va_arg(list, int) == NAMESPACE, "the namespaces that were given are entered");
        check(!is_confined, "what is given up comes after");
    } else if (number == SYS_ioctl) {
        result = failing & HAS_NO_MOUNTS ? CLONE_NEWNET : CLONE_NEWNS;
    } else if (number == SYS_statfs) {
        va_arg(list, char *);
        memset(va_arg(list, struct statfs *), 0, sizeof(struct statfs));
    } else if (number == SYS_mount && !is_start) {
        check(strcmp((va_arg(list, char *), va_arg(list, char *)), "/proc") == 0, "only /proc is mounted anew");
    } else if (number == SYS_capset) {
        is_confined = true;
    }
    va_end(list);
    return result;
}

static int fake_prctl(int option, ...) {
    enum { LAST_CAPABILITY = 40 };
    va_list list;
    va_start(list, option);
    bool is_known = option != PR_CAPBSET_READ || va_arg(list, int) <= LAST_CAPABILITY;
    va_end(list);
    if (failing & FAILS_ONCE && option != (failing & IS_DENIED ? PR_SET_DUMPABLE : PR_CAPBSET_DROP))
        return is_known ? 0 : -1;
    return is_known ? fails(1) : -1;
}

static int fake_limits(struct rlimit *limit) {
    *limit = (struct rlimit){1024, 4096};
    return 0;
}

static ssize_t fake_write(int fd, const char *from, size_t size) {
    if (fd == 2)
        check(size > 0 && size <= MESSAGE_PIECE_BYTES && (size > MESSAGE_PIECE_BYTES / 2 || from[size - 1] == '\n') &&
                  !memchr(from, '\n', size - 1) && !memchr(from, '\033', size),
              "what is said is a line, and nothing else to a terminal");
    return (ssize_t)size;
}

static int fake_execve(const char *path, char *const argv[], char *const envp[]) {
    check(strlen(path) < SIZE_MAX && argv[0], "a program has a path and a name");
    for (; *argv; argv++)
        check(strlen(*argv) < SIZE_MAX, "an argument is a string");
    if (is_start) {
        check(is_private, "bubblewrap starts among mounts of its own, if they were asked for");
        longjmp(end, 1);
    }
    int variables = 0;
    for (; *envp; envp++)
        variables++;
    check(variables == task.n_variables, "the command gets the variables it was given");
    errno = failing & IS_DENIED ? EACCES : ENOENT;
    return -1;
}

static ssize_t fake_getrandom(uint32_t *number) {
    *number = failing * 0x10001u;
    return sizeof *number;
}

static void *fake_mmap(size_t size) {
    check(size == more_bytes, "all of the file is read");
    return size ? more : MAP_FAILED;
}

static ssize_t fake_read(int fd, void *to, size_t size) {
    check(fd == SIGNALS, "only signals are read");
    size_t some = left_of(&signals_to_come) < size ? left_of(&signals_to_come) : size;
    some -= some % sizeof(struct signalfd_siginfo);
    if (!some) {
        errno = EAGAIN;
        return -1;
    }
    memcpy(to, signals_to_come.at, some);
    return (ssize_t)some;
}

static int fake_kill(pid_t pid, int signo) {
    check(pid == -GROUP || pid == -1 || (pid == 0 && signo == SIGCONT), "signals go to the group of the command");
    return 0;
}

static pid_t fake_wait(pid_t pid, int *status) {
    if (status)
        *status = 0;
    return fails(3) ? -1 : pid == COMMAND ? pid : 0;
}

static void kill_descendants(void) {
}

static void suspend(void) {
    suspension.is_on = true;
}

static void resume(void) {
    suspension.is_on = false;
}

static bool keeps_still(void) {
    return !fails(7);
}

static const char *unrest(void) {
    return "";
}

static int next_look_ms(void) {
    return 0;
}

static void own_mounts(void) {
    is_private = true;
}

static void make_devices(void) {
    check(is_private, "devices are made among mounts of this process");
}

static _Noreturn void fake_exit(int status) {
    check(status == EXIT_NOT_CONFINED || (is_over && status == 0), "what can't be confined is not started");
    longjmp(end, 1);
}

static bool has_word(const char *name) {
    for (int i = 0; i < task.n_words; i++)
        if (value_of(task.words[i], name))
            return true;
    return false;
}

/* What was asked for is there to be done. */
static void check_task(void) {
    check(!has_word("seccomp") || task.filter >= 0, "a filter that was asked for is loaded");
    check(!has_word("trace") || task.trace >= 0, "a trace that was asked for is made");
    check(!has_word("report") || task.report >= 0, "a report that was asked for is written");
    check(!has_word("cgroup") || task.cgroup >= 0, "a control group that was asked for is entered");
    check(has_word("landlock") == task.has_landlock, "Landlock is used if it was asked for");
}

/* As a worker does, which has no command. */
static void act_as_worker(int argc, char **argv) {
    enter_confined(argc, argv, 1, (int[]){NAMESPACE});
    check_task();
    check(task.filter >= 0, "no worker is without a filter");
    check(is_confined && !(failing & HAS_NO_MOUNTS), "no worker is outside of a sandbox");
    /* prctl, pread and everything that has no function of its own. */
    check(!(failing & (1 << 1 | 1 << 2 | 1 << 6)), "a worker that can't take on all of it never serves");
}

static void act(int argc, char **argv) {
    parse(argc, argv);
    check_task();
    settle_inherited();
    confine();
    watch_masks();
    limit_self();
    is_lost = failing & IS_LOST;
    const struct mask *lost = settle_masks();
    if (lost)
        tell_of_loss(lost);
    if (task.program)
        exec_program(task.program, search_path(task.environment), task.argv, task.environment);
    is_over = true;
    serve_signals(SIGNALS, COMMAND);
}

/* As a launcher does that starts bubblewrap. Its environment, which is empty here, follows the arguments. */
static void act_as_start(int argc, char **argv) {
    is_start = true;
    bool is_quick = value_of(argv[1], "early-mounts") && argc > 2 && strcmp(argv[2], "--") == 0;
    /* Without mounts to be made, or where they can't be, it starts among those of the host. */
    is_private = is_quick && (failing & (1 << 3 | 1 << 7));
    char **line = room_of((size_t)argc + 2, sizeof *line);
    memcpy(line, argv, (size_t)argc * sizeof *line);
    start_bubblewrap(argc, line);
}

/* A function of its own, whose variables a longjmp can't change. */
static void act_to_the_end(int argc, char **argv) {
    if (setjmp(end) == 0)
        (argc > 1 && is_for_bubblewrap(argv[1]) ? act_as_start : failing & IS_WORKER ? act_as_worker : act)(argc, argv);
}

void try_input(const uint8_t *data, size_t size) {
    static __typeof__(task) fresh_task;
    static __typeof__(masks) fresh_masks;
    static bool has_begun;
    if (!has_begun) {
        fresh_task = task;
        fresh_masks = masks;
        has_begun = true;
    }
    task = fresh_task;
    masks = fresh_masks;
    struct input input = {data, data + size};
    int argc = 0, in_line = take_byte(&input);
    failing = take_byte(&input);
    failing |= (unsigned)take_byte(&input) << 8;
    is_lost = is_over = is_confined = is_start = is_private = false;
    size_t signal_bytes = take_byte(&input) * sizeof(struct signalfd_siginfo);
    signal_bytes = signal_bytes < left_of(&input) ? signal_bytes : left_of(&input);
    signals_to_come = (struct input){input.at, input.at + signal_bytes};
    input.at += signal_bytes;
    char **argv = room_of((size_t)in_line + 3, sizeof *argv);
    while (argc < in_line && left_of(&input)) {
        size_t length = strnlen((const char *)input.at, left_of(&input));
        char *word = room_of(length + 1, 1);
        memcpy(word, input.at, length);
        argv[argc++] = word;
        input.at += length + (length < left_of(&input));
    }
    if (left_of(&input))
        argv[argc++] = copy_of("more=3", sizeof "more=3");
    more_bytes = left_of(&input);
    more = copy_of(input.at, more_bytes);
    /* Exactly as long as the kernel makes it. */
    argv = copy_of(argv, ((size_t)argc + 1) * sizeof *argv);
    act_to_the_end(argc, argv);
}
