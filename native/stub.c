/*
 * paddock-stub: takes the place of a program that was not executed as its caller asked.
 *
 * The decider on the executions of a command (src/paddock/sandbox/denial/executions.py) turns the caller into this
 * program instead: a real process in the right place, with the caller's pid, group, terminal and streams. It has no
 * arguments of its own, and no variables. It asks for instructions with a system call that no kernel executes. The
 * decider answers with a descriptor of a file in memory (instruction.h):
 *
 *     deny   write a message to standard error, and exit with status 1
 *     run    execute a program, with a path and arguments that nobody else can change
 *
 * or with a socket to a program that runs outside of the sandbox instead (native/leader.c). The stub forwards signals
 * from within the sandbox to that program, and stops and ends when the program does. Signals from outside and from the
 * terminal reach the program directly, because it is in the same process group.
 *
 * Promises
 *   - It executes only what the decider has written.
 *   - If the decider is gone or its answer is malformed: exit status 126 and one line.
 *
 * It is linked statically, because it runs in any view of the file system.
 *
 * Privilege: that of the caller, which is confined. It does not trust others in the sandbox: it is not dumpable, so
 * none of them can read or change its memory.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "bare.h"
#include "child.h"
#include "instruction.h"
#include "message.h"
#include "escalation.h"

enum { EXIT_DENIED = 1, EXIT_NOT_EXECUTABLE = 126, EXIT_NOT_FOUND = 127 };

/* Not a flag of execveat(2): if the call reaches the kernel, the kernel refuses it. */
enum { ASK = 0x50414444 };

static _Noreturn void give_up(const char *what) {
    SAY("can't execute anything: ", what, ": ", strerror(errno));
    _exit(EXIT_NOT_EXECUTABLE);
}

/* Writes the whole message, even if a pipe takes it in parts. */
static void write_message(const char *text, size_t length) {
    while (length) {
        ssize_t n = write(2, text, length);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return;
        text += n;
        length -= (size_t)n;
    }
}

static _Noreturn void run(const struct instruction *instruction) {
    execve(instruction->text, instruction->argv, instruction->environment);
    int error = errno;
    SAY("can't run ", instruction->text, ": ", strerror(error));
    _exit(error == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE);
}

/* Asks what to do. In place of a path, tells which signals are blocked for the program. Also tells which of the lowest
 * 192 descriptors are open, one bit each, so that nobody needs to try them all. Returns a descriptor, or -1 with errno. */
static int ask(uint64_t blocked) {
    uint64_t open[3] = {0};
    for (int fd = 0; fd < 64 * 3; fd++)
        if (fcntl(fd, F_GETFD) >= 0)
            open[fd / 64] |= (uint64_t)1 << fd % 64;
    return (int)syscall(SYS_execveat, -1, blocked, open[0], open[1], ASK, open[2]);
}

/* ---- In the place of a program outside ---- */

/* Ends by the same signal as the program. */
static _Noreturn void die(int signo) {
    struct rlimit nothing = {0, 0};
    sigset_t none;
    sigemptyset(&none);
    /* A core dump of this process is of no use. */
    setrlimit(RLIMIT_CORE, &nothing);
    default_signals();
    sigprocmask(SIG_SETMASK, &none, NULL);
    kill(getpid(), signo);
    _exit(128 + signo);
}

static void obey(int program) {
    int32_t told[2] = {0, 0};
    ssize_t n = recv(program, told, sizeof told, 0);
    if (n < 0 && errno == EINTR)
        return;
    if (n != sizeof told) {
        errno = ECONNRESET;
        give_up("the program outside is gone");
    }
    if (told[0] == STUB_EXIT)
        _exit(told[1]);
    if (told[0] == STUB_DIE)
        die(told[1]);
    /* The program has stopped, so this process stops too, until somebody continues both. */
    kill(getpid(), SIGSTOP);
}

/* Forwards signals from within the sandbox. A sender outside has no pid here, and terminal signals come from the
 * kernel. */
static void pass_on(int signals, int program) {
    struct signalfd_siginfo arrived;
    while (read(signals, &arrived, sizeof arrived) == sizeof arrived) {
        int32_t signo = (int32_t)arrived.ssi_signo;
        bool is_from_within = arrived.ssi_code != SI_KERNEL && arrived.ssi_pid != 0;
        if (signo == SIGCHLD || (signo != SIGCONT && !is_from_within))
            continue;
        if (write(program, &signo, sizeof signo) < 0) {
            /* The program is gone; the next read reports it. */
        }
    }
}

static _Noreturn void stand_for(int program) {
    sigset_t standard;
    standard_signals(&standard);
    sigprocmask(SIG_SETMASK, &standard, NULL);
    int signals = signalfd(-1, &standard, SFD_CLOEXEC | SFD_NONBLOCK);
    if (signals < 0)
        give_up("signals");
    for (;;) {
        struct pollfd events[] = {{.fd = program, .events = POLLIN}, {.fd = signals, .events = POLLIN}};
        if (poll(events, 2, -1) < 0 && errno != EINTR)
            give_up("poll");
        if (events[1].revents)
            pass_on(signals, program);
        if (events[0].revents)
            obey(program);
    }
}

int main(int argc, char **argv) {
    /* The arguments of the program that the caller asked for. They are only there for display. */
    (void)argc, (void)argv;
    /* Holds until the next execve. A tracer in the sandbox, which its filter refuses, could otherwise control this
     * process. */
    if (prctl(PR_SET_DUMPABLE, 0) < 0)
        give_up("dumpable");
    sigset_t standard, before;
    uint64_t blocked;
    standard_signals(&standard);
    /* From here on, because the program outside runs before this process hears of it, and a signal that arrives now is
     * for it. */
    sigprocmask(SIG_BLOCK, &standard, &before);
    memcpy(&blocked, &before, sizeof blocked);
    int file = ask(blocked);
    if (file < 0)
        give_up("nobody decides");
    struct stat status;
    if (fstat(file, &status) < 0)
        give_up("instruction");
    if (S_ISSOCK(status.st_mode))
        stand_for(file);
    sigprocmask(SIG_SETMASK, &before, NULL);
    size_t size = (size_t)status.st_size;
    char *data = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
    if (data == MAP_FAILED)
        give_up("instruction");
    close(file);
    struct instruction instruction;
    errno = EINVAL;
    if (!read_instruction(data, size, &instruction))
        give_up("instruction");
    switch (instruction.kind) {
    case INSTRUCTION_DENY:
        write_message(instruction.text, strlen(instruction.text));
        _exit(EXIT_DENIED);
    case INSTRUCTION_RUN:
        run(&instruction);
    }
    give_up("instruction");
}
