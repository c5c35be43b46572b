/*
 * paddock-spawner: starts, reaps and finally kills every process of one server.
 *
 * The server is a large Python program. Forking it copies its page tables and runs its code between fork and exec. The
 * spawner is small, has one thread, and starts a child within a few system calls. It is also the only parent of
 * everything that the server starts. So it can promise what the server can't: when the server dies, however it dies,
 * the spawner kills everything that it started.
 *
 * Promises
 *   - The spawner answers each spawn once: with a pid and a pidfd, or with an errno and the step that failed. SPAWNED
 *     precedes EXITED of the same pid.
 *   - A child starts in its own session. It has descriptors 0, 1, 2 and those that the request lists, default signal
 *     dispositions and an empty signal mask. A shielded child has every standard signal blocked and the realtime
 *     signals ignored.
 *   - The spawner ends only at the end of the stream or on a malformed request. First it kills every descendant and
 *     waits until none is left.
 *
 * Privilege: it runs with the credentials and capabilities of the server, never gains or drops any, and gives its
 * children the same. It trusts the socket, because the server holds the other end. It trusts no child.
 *
 * Limits: it sleeps while a child runs chdir and execve, so a program on a hung network file system delays every later
 * spawn.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.h"
#include "descendants.h"
#include "wire.h"

static const int server = 3; /* the socket, agreed with the process that starts the spawner */
static pid_t self;
static pid_set spawned; /* children started on request and not yet reaped */

/* ---- Talking to the server ---- */

/* Sends a message whose descriptor would be one too many: the kernel counts those that are under way of all processes of
 * the user, and holds them against the lower limit of whoever sends. That limit is for programs that use select(2), and
 * other programs of the user may have as many under way. */
static bool send_with_more_room(const struct msghdr *message) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return false;
    setrlimit(RLIMIT_NOFILE, &(struct rlimit){limit.rlim_max, limit.rlim_max});
    bool is_sent = sendmsg(server, message, MSG_NOSIGNAL) == (ssize_t)sizeof(struct record);
    int error = errno;
    /* Children are to have it. */
    setrlimit(RLIMIT_NOFILE, &limit);
    errno = error;
    return is_sent;
}

/* Sends one record, with a descriptor unless fd is -1. May block, but the server always reads. */
static bool send_record(const struct record *record, int fd) {
    union {
        struct cmsghdr align;
        char space[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct iovec part = {(void *)record, sizeof *record};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (fd >= 0) {
        message.msg_control = control.space;
        message.msg_controllen = sizeof control.space;
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof fd);
        memcpy(CMSG_DATA(header), &fd, sizeof fd);
    }
    /* A record is far below one socket buffer page, so the kernel queues it whole or not at all. */
    if (sendmsg(server, &message, MSG_NOSIGNAL) == (ssize_t)sizeof *record)
        return true;
    return errno == ETOOMANYREFS && send_with_more_room(&message);
}

struct request {
    struct header header;
    char *payload;
    int fds[FDS_MAX];
    int n_fds;
    bool fds_lost; /* the server sent more than FDS_MAX, or the descriptor table was full */
};

static void collect_fds(struct request *request, struct msghdr *message) {
    if (message->msg_flags & MSG_CTRUNC)
        request->fds_lost = true;
    for (struct cmsghdr *part = CMSG_FIRSTHDR(message); part; part = CMSG_NXTHDR(message, part)) {
        if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS)
            continue;
        size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(part) + i * sizeof fd, sizeof fd);
            if (request->n_fds < FDS_MAX) {
                request->fds[request->n_fds++] = fd;
            } else {
                close(fd);
                request->fds_lost = true;
            }
        }
    }
}

static void close_fds(struct request *request) {
    while (request->n_fds > 0)
        close(request->fds[--request->n_fds]);
}

/*
 * Reads one request. Returns false if the server is gone or the stream is
 * malformed. It never asks for bytes beyond the current header or payload: a longer
 * read could swallow the descriptors of the next request (unix(7): ancillary data
 * is a barrier only *after* it was received).
 */
static bool request_read(struct request *request) {
    size_t got = 0;
    while (got < sizeof request->header) {
        union {
            struct cmsghdr align;
            char space[CMSG_SPACE(FDS_MAX * sizeof(int))];
        } control;
        struct iovec part = {(char *)&request->header + got, sizeof request->header - got};
        struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1,
                                 .msg_control = control.space, .msg_controllen = sizeof control.space};
        ssize_t n = recvmsg(server, &message, MSG_CMSG_CLOEXEC);
        if (n <= 0)
            return false;
        collect_fds(request, &message);
        got += (size_t)n;
    }
    size_t length = request->header.length;
    if (length > PAYLOAD_LIMIT_BYTES || !(request->payload = malloc(length + 1)))
        return false;
    for (got = 0; got < length;) {
        ssize_t n = recv(server, request->payload + got, length - got, MSG_WAITALL);
        if (n <= 0)
            return false;
        got += (size_t)n;
    }
    return true;
}

/* ---- The child, between clone and exec ---- */

struct spawn {
    struct spawn_request head;
    const char *limits; /* n_rlimits packed struct limit */
    const char *program, *cwd, *path;
    char **argv, **envp;
    const int *fds;
    /* The child writes these and the parent reads them: they share memory. */
    volatile int error;
    volatile enum stage stage;
};

static _Noreturn void child_fail(struct spawn *spawn, enum stage stage, int error) {
    spawn->error = error;
    spawn->stage = stage;
    _exit(127);
}

/*
 * Gives the descriptors of the request the numbers 0, 1, 2 and so on in the child's descriptor table, and makes all
 * others close-on-exec. First moves descriptors away from numbers that others need. May overwrite the spawner's own,
 * the socket included. Returns an errno, or 0.
 */
static int child_descriptors(const struct spawn *spawn) {
    int moved[FDS_MAX];
    bool terminal = spawn->head.flags & SPAWN_TERMINAL;
    int standard = terminal ? 1 : 3;
    int inherited = (int)spawn->head.n_inherited;
    int end = 3 + inherited;
    for (int i = 0; i < standard + inherited; i++) {
        moved[i] = spawn->fds[i] < end ? fcntl(spawn->fds[i], F_DUPFD_CLOEXEC, end) : spawn->fds[i];
        if (moved[i] < 0)
            return errno;
    }
    for (int fd = 0; fd < end; fd++)
        if (dup2(moved[fd >= 3 ? standard + fd - 3 : terminal ? 0 : fd], fd) < 0)
            return errno;
    /* All others were opened close-on-exec, so the child does without this call on kernels before 5.11. */
    syscall(SYS_close_range, (unsigned)end, ~0u, 4u /* CLOSE_RANGE_CLOEXEC */);
    return 0;
}

/*
 * Runs in the memory of the spawner, errno included. The spawner sleeps until exec
 * or _exit (CLONE_VM | CLONE_VFORK). The child has its own descriptor table,
 * working directory, limits and signal state. So it may make system calls and write
 * to its stack and to `spawn`. It must not allocate, use stdio, take locks or
 * return. Signals are blocked until the last step and the spawner never installs a
 * handler, so no other code can run on the shared memory.
 */
static int child_main(void *argument) {
    struct spawn *spawn = argument;
    /* If the spawner is killed, its direct children die too. It may have died before this call took effect. A
     * set-user-ID program loses the setting in execve (prctl(2)). A sandbox launcher must not get it: if the launcher
     * were killed while its own child waits for it, that child would wait forever. Everything that a launcher starts
     * detects by itself that the server is gone. */
    if (!(spawn->head.flags & SPAWN_SHIELDED)) {
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
            child_fail(spawn, STAGE_SETUP, errno);
        if (getppid() != self)
            _exit(127);
    }
    if (setsid() < 0)
        child_fail(spawn, STAGE_SETUP, errno);
    bool terminal = spawn->head.flags & SPAWN_TERMINAL;
    if (terminal && ioctl(spawn->fds[0], TIOCSCTTY, 0) < 0)
        child_fail(spawn, STAGE_SETUP, errno);
    int error = child_descriptors(spawn);
    if (error)
        child_fail(spawn, STAGE_SETUP, error);
    if (enter_directory(spawn->cwd, spawn->head.flags & SPAWN_WITHOUT_LINKS) < 0)
        child_fail(spawn, STAGE_CWD, errno);
    /* After the descriptors, because a low RLIMIT_NOFILE would make dup2 fail. */
    for (uint32_t i = 0; i < spawn->head.n_rlimits; i++) {
        struct limit limit;
        memcpy(&limit, spawn->limits + i * sizeof limit, sizeof limit);
        struct rlimit value = {limit.soft, limit.hard};
        if (setrlimit((int)limit.resource, &value) < 0)
            child_fail(spawn, STAGE_SETUP, errno);
    }
    /* Last, because a pending signal may end the child here. The parent sees that as an ordinary exit. */
    sigset_t blocked;
    sigemptyset(&blocked);
    if (spawn->head.flags & SPAWN_SHIELDED) {
        standard_signals(&blocked);
        ignore_realtime_signals();
    }
    sigprocmask(SIG_SETMASK, &blocked, NULL);
    child_fail(spawn, STAGE_EXEC, exec_program(spawn->program, spawn->path, spawn->argv, spawn->envp));
}

/* ---- Spawning ---- */

static const char *next_string(const char **cursor, const char *end) {
    const char *start = *cursor;
    const char *nul = memchr(start, '\0', (size_t)(end - start));
    if (nul)
        *cursor = nul + 1;
    return nul ? start : NULL;
}

/* Fills `spawn` from the payload after its head. `vector` has room for both arrays. Returns false if malformed. */
static bool spawn_parse(struct spawn *spawn, const struct request *request, char **vector) {
    const char *end = request->payload + request->header.length;
    const char *cursor = request->payload + sizeof spawn->head;
    spawn->limits = cursor;
    cursor += spawn->head.n_rlimits * sizeof(struct limit);
    spawn->program = next_string(&cursor, end);
    spawn->cwd = spawn->program ? next_string(&cursor, end) : NULL;
    if (!spawn->cwd)
        return false;
    spawn->argv = vector;
    spawn->envp = vector + spawn->head.argc + 1;
    for (uint32_t i = 0; i < spawn->head.argc; i++)
        if (!(spawn->argv[i] = (char *)next_string(&cursor, end)))
            return false;
    for (uint32_t i = 0; i < spawn->head.envc; i++)
        if (!(spawn->envp[i] = (char *)next_string(&cursor, end)))
            return false;
    spawn->argv[spawn->head.argc] = spawn->envp[spawn->head.envc] = NULL;
    spawn->path = search_path(spawn->envp);
    spawn->fds = request->fds;
    return cursor == end;
}

/* Starts the child. Returns its pidfd, or -1 with the reason in `answer`. */
static int spawn_start(struct spawn *spawn, struct record *answer) {
    /* One stack serves all children, because the spawner sleeps while a child uses it. Its largest object has PATH_MAX
     * bytes. */
    static char stack[64 << 10] __attribute__((aligned(16)));
    int pidfd = -1;
    int flags = CLONE_VM | CLONE_VFORK | CLONE_PIDFD | SIGCHLD;
    pid_t pid = clone(child_main, stack + sizeof stack, flags, spawn, &pidfd);
    if (pid < 0) {
        answer->status = errno;
        answer->stage = STAGE_FORK;
        return -1;
    }
    if (spawn->error) {
        waitpid(pid, NULL, 0);
        close(pidfd);
        answer->status = spawn->error;
        answer->stage = spawn->stage;
        return -1;
    }
    answer->pid = pid;
    return pidfd;
}

/* Like spawn_start, but validates the request first. `spawn` already has its head. */
static int spawn_try(struct spawn *spawn, const struct request *request, struct record *answer) {
    const struct spawn_request *head = &spawn->head;
    size_t length = request->header.length;
    answer->stage = STAGE_REQUEST;
    answer->status = EINVAL;
    /* Each string has at least its NUL. These bounds keep the sums here and in spawn_parse from overflowing. */
    if (head->n_rlimits > RLIM_NLIMITS || head->argc < 1 || head->argc > length || head->envc > length ||
        length < sizeof *head + head->n_rlimits * sizeof(struct limit))
        return -1;
    if (request->fds_lost) {
        answer->status = EMFILE;
        return -1;
    }
    if (head->n_inherited > FDS_MAX || request->n_fds != (head->flags & SPAWN_TERMINAL ? 1 : 3) + (int)head->n_inherited)
        return -1;
    char **vector = malloc(((size_t)head->argc + head->envc + 2) * sizeof *vector);
    int pidfd = -1;
    if (!vector) {
        answer->status = ENOMEM;
    } else if (spawn_parse(spawn, request, vector)) {
        answer->status = 0;
        answer->stage = STAGE_NONE;
        pidfd = spawn_start(spawn, answer);
    }
    free(vector);
    return pidfd;
}

/* Answers one REQUEST_SPAWN. Returns false if the server is gone or the request is too short to answer. */
static bool spawn_serve(struct request *request) {
    struct spawn spawn = {0};
    if (request->header.length < sizeof spawn.head)
        return false;
    memcpy(&spawn.head, request->payload, sizeof spawn.head);
    struct record answer = {.kind = RECORD_SPAWNED, .token = spawn.head.token};
    int pidfd = spawn_try(&spawn, request, &answer);
    /* Before the answer: once the server has it, it may rely on the child being the only holder of its pipes. */
    close_fds(request);
    if (pidfd < 0)
        return send_record(&answer, -1);
    pid_add(spawned, answer.pid);
    bool sent = send_record(&answer, pidfd);
    int error = errno;
    close(pidfd);
    if (sent || error == EPIPE || error == ECONNRESET)
        return sent;
    /* The socket refuses the pidfd (ETOOMANYREFS, ENOMEM). A child that its owner can't signal must not run. */
    kill(-answer.pid, SIGKILL);
    waitpid(answer.pid, NULL, 0);
    pid_remove(spawned, answer.pid);
    answer.pid = 0;
    answer.status = error;
    answer.stage = STAGE_REQUEST;
    return send_record(&answer, -1);
}

static bool request_serve(struct request *request) {
    struct kill_request kill_request;
    switch (request->header.kind) {
    case REQUEST_SPAWN:
        return spawn_serve(request);
    case REQUEST_KILL:
        if (request->header.length != sizeof kill_request)
            return false;
        memcpy(&kill_request, request->payload, sizeof kill_request);
        if (pid_in(spawned, kill_request.pid))
            kill(-kill_request.pid, SIGKILL);
        return true;
    default:
        return false;
    }
}

/* ---- Reaping ---- */

/* Reaps ended processes, REAPED_IN_A_TURN at most. Reports spawned ones and drops adopted orphans. Returns false if the
 * server is gone. Sets `has_more` if more may have ended: orphans can end as fast as the spawner reaps them. */
static bool reap(bool *has_more) {
    *has_more = false;
    for (int i = 0; i < REAPED_IN_A_TURN; i++) {
        int status;
        struct rusage usage;
        pid_t pid = wait4(-1, &status, WNOHANG, &usage);
        if (pid <= 0)
            return true;
        if (WIFSTOPPED(status)) {
            /* It called PTRACE_TRACEME, which made the spawner its tracer. Detach and pass on the signal that stopped
             * it, except the SIGTRAP that only a traced process gets from execve (ptrace(2)). */
            ptrace(PTRACE_DETACH, pid, NULL, WSTOPSIG(status) == SIGTRAP ? 0L : (long)WSTOPSIG(status));
            continue;
        }
        if (!pid_in(spawned, pid))
            continue;
        pid_remove(spawned, pid);
        /* max_rss is never below the spawner's own peak: execve includes the peak of the shared address space. */
        struct record record = {
            .kind = RECORD_EXITED, .pid = pid, .status = status,
            .user_us = microseconds(usage.ru_utime), .system_us = microseconds(usage.ru_stime),
            .max_rss_kib = (uint64_t)usage.ru_maxrss,
        };
        if (!send_record(&record, -1))
            return false;
    }
    *has_more = true;
    return true;
}

/* ---- Life ---- */

static _Noreturn void startup_fail(const char *step) {
    dprintf(2, "paddock-spawner: %s: %s\n", step, strerror(errno));
    _exit(1);
}

/* Turns this process into the spawner, or exits. Returns a descriptor that reports ended children. */
static int start(void) {
    self = getpid();
    /* Keeps descriptors 0 to 3. Any other inherited descriptor may be a pipe whose reader waits for its end. */
    for (int fd = 0; fd < server; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) != fd)
            startup_fail("/dev/null");
    if (fcntl(server, F_SETFD, FD_CLOEXEC) < 0)
        startup_fail("descriptor 3 must be the socket of the server");
    if (syscall(SYS_close_range, (unsigned)server + 1, ~0u, 0u) < 0)
        for (int fd = server + 1, end = (int)sysconf(_SC_OPEN_MAX); fd < end; fd++)
            close(fd);
    /* Leaves the session of the server: the server alone handles Ctrl-C on its terminal. */
    if (setsid() < 0 && getsid(0) != self)
        startup_fail("setsid");
    prctl(PR_SET_NAME, "paddock-spawner");
    /* Without these, the spawner could not promise to leave nothing alive, so it refuses to start. */
    if (prctl(PR_SET_CHILD_SUBREAPER, 1) < 0)
        startup_fail("child subreaper");
    int probe = (int)syscall(SYS_pidfd_open, self, 0);
    if (probe < 0)
        startup_fail("pidfd_open, since Linux 5.3");
    close(probe);
    if (parent_of(self) != getppid())
        startup_fail("/proc of this pid namespace");
    default_signals();
    /* Blocked rather than ignored, so that a child resets one mask instead of 64 dispositions. */
    sigset_t all, child;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    int ended = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
    if (ended < 0)
        startup_fail("signalfd");
    return ended;
}

static void serve(int ended) {
    struct pollfd events[] = {{.fd = server, .events = POLLIN}, {.fd = ended, .events = POLLIN}};
    for (bool has_more = false;;) {
        if (poll(events, 2, has_more ? 0 : -1) < 0)
            return;
        if (events[1].revents) {
            /* Read before reaping: a child that ends in between makes the descriptor readable again. Read only once, so
             * that a process that keeps sending SIGCHLD can't keep the spawner from the server. */
            struct signalfd_siginfo taken;
            if (read(ended, &taken, sizeof taken) > 0)
                has_more = true;
        }
        if (has_more && !reap(&has_more))
            return;
        if (events[0].revents) {
            struct request request = {0};
            bool served = request_read(&request) && request_serve(&request);
            close_fds(&request);
            free(request.payload);
            if (!served)
                return;
        }
    }
}

int main(void) {
    int ended = start();
    const struct record ready = {.kind = RECORD_READY, .pid = self};
    if (send_record(&ready, -1))
        serve(ended);
    kill_descendants();
    return 0;
}
