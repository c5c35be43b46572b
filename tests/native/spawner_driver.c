/*
 * The requests to paddock-spawner (native/spawner.c), from the socket to execve(2). Input: how many descriptors come with each
 * request, how many bytes with each read, how the steps of a child end, and the stream.
 *
 * No process is started: the child's code runs in place of clone(2), and nothing that it asks the kernel for happens.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"

static ssize_t fake_recvmsg(int fd, struct msghdr *message, int flags);
static ssize_t fake_recv(int fd, void *to, size_t size, int flags);
static ssize_t fake_sendmsg(int fd, const struct msghdr *message, int flags);
static pid_t fake_clone(int (*child)(void *), void *stack, int flags, void *argument, int *pidfd);
static int fake_close(int fd);
static int fake_fcntl(int fd, int command, ...);
static int fake_dup2(int from, int to);
static int fake_setrlimit(int resource, const struct rlimit *limit);
static int fake_execve(const char *path, char *const argv[], char *const envp[]);
static int fake_kill(pid_t pid, int signo);
static int fake_chdir(const char *path);
static _Noreturn void fake_exit(int status);

#define recvmsg(...) fake_recvmsg(__VA_ARGS__)
#define recv(...) fake_recv(__VA_ARGS__)
#define sendmsg(...) fake_sendmsg(__VA_ARGS__)
#define clone(...) fake_clone(__VA_ARGS__)
#define close(fd) fake_close(fd)
#define fcntl(...) fake_fcntl(__VA_ARGS__)
#define dup2(...) fake_dup2(__VA_ARGS__)
#define setrlimit(...) fake_setrlimit(__VA_ARGS__)
#define execve(...) fake_execve(__VA_ARGS__)
#define kill(...) fake_kill(__VA_ARGS__)
#define chdir(path) fake_chdir(path)
#define _exit(status) fake_exit(status)
#define faccessat(...) fails(4, __VA_ARGS__)
#define setsid() fails(0)
#define prctl(...) fails(1, __VA_ARGS__)
#define ioctl(...) fails(2, __VA_ARGS__)
#define getppid() fails(7)
#define sigprocmask(...) fails(7, __VA_ARGS__)
#define syscall(...) fails(7, __VA_ARGS__)
#define waitpid(...) fails(7, __VA_ARGS__)
#define main spawner_main

/* -1, with an errno, if the input says that a step fails; otherwise 0. */
static int fails(int step, ...);

#include "spawner.c"

#undef close
#undef fcntl

const char *const dictionary[] = {"/bin/true", "true", "PATH=", "PATH=/bin::/usr/bin", "PATH=:", "/", "LANG=C", "HOME=", "", NULL};

enum { PID = 4242, FIRST_FD = 3, DESCRIPTORS = 1024 };

static struct input stream;
static int fds_to_come, chunk;
static uint8_t failing;
static bool is_open[DESCRIPTORS];
static bool is_child;
static jmp_buf child_end;
static uint32_t argc_asked, envc_asked;
static size_t answers;

static int fails(int step, ...) {
    if (!(failing >> step & 1))
        return 0;
    errno = failing & 0x80 ? EACCES : ENOENT;
    return -1;
}

static int open_one(int least) {
    int fd = least;
    while (is_open[fd])
        fd++;
    is_open[fd] = true;
    return fd;
}

static int fake_close(int fd) {
    check(fd >= 0 && fd < DESCRIPTORS && is_open[fd], "only what is open is closed");
    is_open[fd] = false;
    return 0;
}

static size_t take_some(void *to, size_t size) {
    size = size < left_of(&stream) ? size : left_of(&stream);
    memcpy(to, stream.at, size);
    stream.at += size;
    return size;
}

static ssize_t fake_recvmsg(int fd, struct msghdr *message, int flags) {
    check(fd == server && flags == MSG_CMSG_CLOEXEC && message->msg_iovlen == 1, "requests are read from the server");
    size_t wanted = message->msg_iov->iov_len;
    ssize_t n = (ssize_t)take_some(message->msg_iov->iov_base, chunk && (size_t)chunk < wanted ? (size_t)chunk : wanted);
    int room = (int)((message->msg_controllen - CMSG_LEN(0)) / sizeof(int));
    int count = fds_to_come < room ? fds_to_come : room;
    message->msg_flags = count < fds_to_come ? MSG_CTRUNC : 0;
    fds_to_come = 0;
    if (n == 0 || count == 0) {
        message->msg_controllen = 0;
        return n;
    }
    struct cmsghdr *part = CMSG_FIRSTHDR(message);
    *part = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN((size_t)count * sizeof(int))};
    for (int i = 0; i < count; i++) {
        int received = open_one(FIRST_FD);
        memcpy(CMSG_DATA(part) + (size_t)i * sizeof received, &received, sizeof received);
    }
    message->msg_controllen = part->cmsg_len;
    return n;
}

static ssize_t fake_recv(int fd, void *to, size_t size, int flags) {
    check(fd == server && flags == MSG_WAITALL, "payloads are read from the server");
    return (ssize_t)take_some(to, chunk && (size_t)chunk < size ? (size_t)chunk : size);
}

static ssize_t fake_sendmsg(int fd, const struct msghdr *message, int flags) {
    check(fd == server && flags == MSG_NOSIGNAL, "answers go to the server");
    check(message->msg_iovlen == 1 && message->msg_iov->iov_len == sizeof(struct record), "an answer is one record");
    const struct record *record = message->msg_iov->iov_base;
    bool has_fd = message->msg_controllen > 0;
    check(record->kind == RECORD_SPAWNED && (record->status == 0) == (record->stage == STAGE_NONE), "an answer says one thing");
    check(has_fd == (record->status == 0), "who is told of a child gets its descriptor");
    answers++;
    if (fails(6)) {
        errno = ETOOMANYREFS;
        return -1;
    }
    return (ssize_t)sizeof(struct record);
}

static pid_t fake_clone(int (*child)(void *), void *stack, int flags, void *argument, int *pidfd) {
    struct spawn *spawn = argument;
    check(stack && flags & CLONE_VM && flags & CLONE_VFORK, "the child shares our memory, and we wait");
    if (fails(5))
        return -1;
    *pidfd = open_one(FIRST_FD);
    argc_asked = spawn->head.argc;
    envc_asked = spawn->head.envc;
    is_child = true;
    if (setjmp(child_end) == 0)
        child(argument);
    is_child = false;
    return PID;
}

static int fake_fcntl(int fd, int command, ...) {
    va_list list;
    va_start(list, command);
    int least = va_arg(list, int);
    va_end(list);
    check(is_child && command == F_DUPFD_CLOEXEC && fd >= 0 && fd < DESCRIPTORS, "the child moves descriptors");
    return least;
}

static int fake_dup2(int from, int to) {
    check(is_child && from >= 0 && from < DESCRIPTORS && to >= 0 && to < 3 + FDS_MAX, "the child has no more than it was sent");
    return to;
}

static int fake_setrlimit(int resource, const struct rlimit *limit) {
    (void)limit;
    if (resource >= 0 && resource < RLIM_NLIMITS)
        return 0;
    errno = EINVAL;
    return -1;
}

static int fake_chdir(const char *path) {
    check(strlen(path) < PAYLOAD_LIMIT_BYTES, "the directory is a string");
    return fails(3);
}

static uint32_t count(char *const *strings) {
    uint32_t found = 0;
    for (; strings[found]; found++)
        check(strlen(strings[found]) < PAYLOAD_LIMIT_BYTES, "each is a string");
    return found;
}

static int fake_execve(const char *path, char *const argv[], char *const envp[]) {
    check(is_child && strlen(path) < PAYLOAD_LIMIT_BYTES, "the child executes");
    check(count(argv) == argc_asked && count(envp) == envc_asked, "a program gets what was sent for it");
    if (fails(4))
        return -1;
    longjmp(child_end, 1);
}

static _Noreturn void fake_exit(int status) {
    check(is_child && status == 127, "only a child ends");
    longjmp(child_end, 1);
}

static int fake_kill(pid_t pid, int signo) {
    check(pid == -PID && signo == SIGKILL, "only what was started is killed");
    return 0;
}

void try_input(const uint8_t *data, size_t size) {
    stream = (struct input){data, data + size};
    int fds_each = take_byte(&stream);
    chunk = take_byte(&stream);
    failing = take_byte(&stream);
    memset(is_open, 0, sizeof is_open);
    for (bool is_served = true; is_served;) {
        struct request request = {0};
        fds_to_come = fds_each;
        answers = 0;
        bool is_read = request_read(&request);
        is_served = is_read && request_serve(&request);
        check(!is_served || request.header.kind != REQUEST_SPAWN || answers > 0, "a spawn is answered");
        close_fds(&request);
        free(request.payload);
        check(!memchr(is_open, true, sizeof is_open), "no descriptor of a request is left");
    }
    pid_remove(spawned, PID);
}
