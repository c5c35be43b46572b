/*
 * paddock-leader: leads the session of a command whose programs may run outside of its sandbox, and starts them.
 *
 *     paddock-leader control=FD -- BUBBLEWRAP [ARGUMENT...]
 *
 * An unconfined process can't join a session that bubblewrap leads. So this process leads the session and starts
 * bubblewrap. The server sends a request (escalation.h) for each program to run outside: the file, its arguments and
 * its descriptors. The program becomes a child of this process, in the process group of the stub that represents it
 * inside (native/stub.c). A socket that came with the request connects the two: it carries signals out of the sandbox,
 * and the program's end into it.
 *
 * Promises
 *   - It executes the descriptor that came with the request; for a script, the path, which nobody in the sandbox can
 *     change.
 *   - When bubblewrap has ended, when the server is gone, and when this process ends, nothing that it started lives
 *     on. When a stub is gone, the leader kills its program.
 *   - It ends like bubblewrap: with the same status, or by the same signal.
 *
 * Privilege: that of the server. It trusts its control socket. It does not trust the sockets of stubs, which are in the
 * sandbox: it accepts only the number of a signal for one child from them.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.h"
#include "descendants.h"
#include "instruction.h"
#include "message.h"
#include "number.h"
#include "escalation.h"

enum { EXIT_ABANDONED = 123, EXIT_FAILED = 125, EXIT_NOT_EXECUTABLE = 126 };

/* Most programs outside at one time. The leader does not start another, and its stub says so. */
enum { ESCALATED_LIMIT = 256 };

struct escalated {
    pid_t pid;
    /* The socket of the stub; -1 when that is gone. */
    int stub;
};
static struct escalated escalated[ESCALATED_LIMIT];
static int count;

static _Noreturn void fail(const char *what) {
    SAY("the session has no leader: ", what, ": ", strerror(errno));
    _exit(EXIT_FAILED);
}

/* ---- Programs outside ---- */

static bool is_number_of_stub(const struct escalation *escalation, int fd) {
    for (uint32_t i = 0; i < escalation->n_files; i++)
        if (escalation->numbers[i] == fd)
            return true;
    return fd <= 2;
}

/* Gives each descriptor the number that it has in the stub, and keeps no others for the program. Updates the numbers of
 * the program and its directory in `files`. */
static bool place_descriptors(const struct escalation *escalation, int *files) {
    struct rlimit limit;
    /* Holding all of them twice may exceed a soft limit that is enough for the stub. */
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
    /* First moves them to free numbers between those of the stub: above them, a hard limit may leave too few. */
    int lowest = 3;
    for (uint32_t i = 0; i < FIRST_FILE + escalation->n_files; i++)
        while (is_number_of_stub(escalation, files[i])) {
            while (is_number_of_stub(escalation, lowest))
                lowest++;
            if ((files[i] = fcntl(files[i], F_DUPFD_CLOEXEC, lowest)) < 0)
                return false;
            lowest = files[i] + 1;
        }
    for (int fd = 0; fd <= 2; fd++)
        close(fd);
    for (uint32_t i = 0; i < escalation->n_files; i++)
        if (dup2(files[FIRST_FILE + i], escalation->numbers[i]) < 0)
            return false;
    return true;
}

static void take_limits(const struct escalation *escalation) {
    for (int resource = 0; resource < ESCALATION_LIMITS; resource++) {
        struct rlimit limit = {.rlim_cur = escalation->limits[resource].soft, .rlim_max = escalation->limits[resource].hard};
        /* A limit wider than that of this process is refused, and not needed. */
        setrlimit(resource, &limit);
    }
    /* The caller may send any signal, and can read the working directory, so the program must not dump core. */
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
}

static void take_signals(const struct escalation *escalation) {
    const unsigned long ignored[8] = {(unsigned long)SIG_IGN};
    default_signals();
    for (int signo = 1; signo <= LAST_SIGNAL; signo++)
        if (escalation->ignored >> (signo - 1) & 1)
            syscall(SYS_rt_sigaction, signo, ignored, NULL, (size_t)8);
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &escalation->blocked, NULL, sizeof escalation->blocked);
}

static _Noreturn void become(const struct escalation *escalation, int *files, const struct instruction *instruction, pid_t leader) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != leader)
        _exit(EXIT_ABANDONED);
    /* The stub may be in its own session, or already dead. */
    if (setpgid(0, escalation->group) < 0)
        setpgid(0, 0);
    bool is_ready = place_descriptors(escalation, files) && fchdir(files[DIRECTORY]) == 0;
    if (is_ready) {
        umask(escalation->mask);
        take_limits(escalation);
        take_signals(escalation);
        if (escalation->is_script)
            execve(instruction->text, instruction->argv, instruction->environment);
        else
            syscall(SYS_execveat, files[PROGRAM], "", instruction->argv, instruction->environment, AT_EMPTY_PATH);
    }
    SAY("can't run ", instruction->text, ": ", strerror(errno));
    _exit(EXIT_NOT_EXECUTABLE);
}

/* Starts a program. If that fails, the stub gets no message, and notices that its socket is closed. Returns an errno,
 * or 0. */
static int start(const struct escalation *escalation, int *files) {
    struct instruction instruction;
    struct stat status;
    pid_t leader = getpid(), pid = -1;
    if (count == ESCALATED_LIMIT)
        return EAGAIN;
    if (fstat(files[INSTRUCTION], &status) < 0)
        return errno;
    size_t size = (size_t)status.st_size;
    char *data = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE, files[INSTRUCTION], 0);
    if (data == MAP_FAILED)
        return errno;
    int error = EINVAL;
    if (read_instruction(data, size, &instruction)) {
        pid = fork();
        if (pid == 0)
            become(escalation, files, &instruction, leader);
        error = pid < 0 ? errno : 0;
        free(instruction.argv);
        free(instruction.environment);
    }
    munmap(data, size);
    if (pid < 0)
        return error;
    escalated[count++] = (struct escalated){.pid = pid, .stub = files[STUB]};
    files[STUB] = -1;
    return 0;
}

/* Receives a request and answers it. Ends everything when the server is gone. */
static void serve_control(int control) {
    int files[FIRST_FILE + ESCALATION_FILES];
    struct escalation escalation;
    int n = receive_escalation(control, &escalation, files);
    if (n < 0) {
        kill_descendants();
        _exit(EXIT_ABANDONED);
    }
    int error = is_escalation(&escalation, n) ? start(&escalation, files) : EINVAL;
    const struct escalation_answer answer = {.number = escalation.number, .error = (uint64_t)error};
    if (send(control, &answer, sizeof answer, MSG_NOSIGNAL) < 0) {
        /* The server is gone; the next read reports it. */
    }
    for (int i = 0; i < n; i++)
        if (files[i] >= 0)
            close(files[i]);
}

/* ---- Both ways ---- */

static void tell(struct escalated *one, int32_t kind, int32_t value) {
    const int32_t message[2] = {kind, value};
    if (one->stub >= 0 && send(one->stub, message, sizeof message, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
        /* The stub is gone, or never reads. It dies with the sandbox. */
    }
}

/* Handles a signal for a program, or the end of its stub. */
static void serve_stub(struct escalated *one) {
    int32_t signo;
    ssize_t n = recv(one->stub, &signo, sizeof signo, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n == sizeof signo && signo > 0 && signo <= LAST_SIGNAL) {
        kill(one->pid, signo);
        return;
    }
    close(one->stub);
    one->stub = -1;
    kill(one->pid, SIGKILL);
}

static void settle(pid_t pid, int status) {
    for (int i = 0; i < count; i++) {
        if (escalated[i].pid != pid)
            continue;
        if (WIFSTOPPED(status)) {
            tell(&escalated[i], STUB_STOP, WSTOPSIG(status));
            return;
        }
        tell(&escalated[i], WIFSIGNALED(status) ? STUB_DIE : STUB_EXIT,
             WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
        if (escalated[i].stub >= 0)
            close(escalated[i].stub);
        escalated[i] = escalated[--count];
        return;
    }
}

/* Kills everything that is left, then ends like bubblewrap. */
static _Noreturn void finish(int status) {
    kill_descendants();
    if (WIFEXITED(status))
        _exit(WEXITSTATUS(status));
    int signo = WTERMSIG(status);
    sigset_t none;
    sigemptyset(&none);
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    default_signals();
    sigprocmask(SIG_SETMASK, &none, NULL);
    kill(getpid(), signo);
    _exit(128 + signo);
}

static void reap(pid_t bubblewrap) {
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG | WUNTRACED)) > 0;) {
        if (pid != bubblewrap)
            settle(pid, status);
        else if (!WIFSTOPPED(status))
            finish(status);
    }
}

/* ---- The session ---- */

static pid_t start_bubblewrap(char **argv, int control) {
    pid_t leader = getpid(), pid = fork();
    if (pid < 0)
        fail("fork");
    if (pid > 0)
        return pid;
    close(control);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != leader)
        _exit(EXIT_ABANDONED);
    execv(argv[0], argv);
    fail(argv[0]);
}

/* Closes the descriptors that belong to bubblewrap, so that others see their end when bubblewrap is gone. */
static void close_others(int control) {
    if ((control > 0 && syscall(SYS_close_range, 0u, (unsigned)control - 1, 0u) < 0) ||
        syscall(SYS_close_range, (unsigned)control + 1, ~0u, 0u) < 0)
        _exit(EXIT_FAILED);
}

int main(int argc, char **argv) {
    static const char word[] = "control=";
    uint64_t control = 0;
    char *digits = argc > 3 ? argv[1] + strlen(word) : NULL;
    errno = EINVAL;
    if (!digits || strncmp(argv[1], word, strlen(word)) != 0 || !read_number(&digits, 10, &control) || *digits ||
        control > INT32_MAX || strcmp(argv[2], "--") != 0)
        fail("arguments");
    prctl(PR_SET_NAME, "paddock-leader");
    sigset_t standard, child;
    standard_signals(&standard);
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    sigprocmask(SIG_BLOCK, &standard, NULL);
    if (prctl(PR_SET_CHILD_SUBREAPER, 1) < 0)
        fail("subreaper");
    pid_t bubblewrap = start_bubblewrap(argv + 3, (int)control);
    close_others((int)control);
    int signals = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
    if (signals < 0 || fcntl((int)control, F_SETFD, FD_CLOEXEC) < 0) {
        kill_descendants();
        _exit(EXIT_FAILED);
    }
    for (;;) {
        struct pollfd events[2 + ESCALATED_LIMIT] = {
            {.fd = signals, .events = POLLIN}, {.fd = (int)control, .events = POLLIN}};
        int n = count;
        for (int i = 0; i < n; i++)
            events[2 + i] = (struct pollfd){.fd = escalated[i].stub, .events = POLLIN};
        if (poll(events, 2 + (nfds_t)n, -1) < 0 && errno != EINTR)
            break;
        /* Before the table changes. */
        for (int i = 0; i < n; i++)
            if (events[2 + i].revents)
                serve_stub(&escalated[i]);
        struct signalfd_siginfo arrived;
        while (read(signals, &arrived, sizeof arrived) > 0) {
        }
        reap(bubblewrap);
        if (events[1].revents)
            serve_control((int)control);
    }
    kill_descendants();
    _exit(EXIT_FAILED);
}
