/*
 * paddock-stub: stands in the place of a program that was not executed as its caller said.
 *
 * Whoever decides on the executions of a command (src/paddock/sandbox/denial/executions.py) lets the caller become this
 * program instead: a real process in the right place, with the caller's number, group, terminal and streams. It has no
 * arguments of its own, and no variables. What it is to do it asks for by a call that no kernel makes, and that the
 * decider answers with a descriptor of a file in memory (instruction.h):
 *
 *     deny   write a message to standard error, and end with status 1
 *     run    execute a program, by a path and with arguments that nobody else can change
 *
 * or with a socket, to a program that runs outside of the sandbox in its place (native/leader.c): signals that come from
 * within the sandbox are passed on to that, and this process stops and ends as it does. Signals from outside and from the
 * terminal reach that program by itself, because it is in the same process group.
 *
 * Promises
 *   - Nothing is executed but what the decider has written.
 *   - When the decider is gone, or has said nothing that makes sense: exit status 126 and one line.
 *
 * It is linked statically, because it runs in any view of the file system.
 *
 * Privilege: that of the caller, which is confined. It does not trust others in the sandbox: it is not dumpable, so that none
 * reads or changes its memory.
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

/* No flag of execveat(2): a kernel that is not kept from it refuses the call. */
enum { ASK = 0x50414444 };

static _Noreturn void give_up(const char *what) {
    SAY("can't execute anything: ", what, ": ", strerror(errno));
    _exit(EXIT_NOT_EXECUTABLE);
}

/* The whole of a message, though the other end of a pipe takes it in parts. */
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

/* Asks what to do, and tells which signals are blocked for the program, in the place of a path, and which descriptors are open, so
 * that nobody needs to try them all: the lowest 192, a bit for each. Gives a descriptor, or -1 with errno. */
static int ask(uint64_t blocked) {
    uint64_t open[3] = {0};
    for (int fd = 0; fd < 64 * 3; fd++)
        if (fcntl(fd, F_GETFD) >= 0)
            open[fd / 64] |= (uint64_t)1 << fd % 64;
    return (int)syscall(SYS_execveat, -1, blocked, open[0], open[1], ASK, open[2]);
}

/* ---- In the place of a program outside ---- */

/* As the program has ended. */
static _Noreturn void die(int signo) {
    struct rlimit nothing = {0, 0};
    sigset_t none;
    sigemptyset(&none);
    /* The core of this process is of no use to anybody. */
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
    /* It has stopped, and so do we, until somebody lets both go on. */
    kill(getpid(), SIGSTOP);
}

/* Passes on what came from within. Who is outside has no number here, and the kernel speaks for the terminal. */
static void pass_on(int signals, int program) {
    struct signalfd_siginfo arrived;
    while (read(signals, &arrived, sizeof arrived) == sizeof arrived) {
        int32_t signo = (int32_t)arrived.ssi_signo;
        bool is_from_within = arrived.ssi_code != SI_KERNEL && arrived.ssi_pid != 0;
        if (signo == SIGCHLD || (signo != SIGCONT && !is_from_within))
            continue;
        if (write(program, &signo, sizeof signo) < 0) {
            /* It is gone; that is told next. */
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
    /* Those of the program that its caller meant: they are only there to be seen. */
    (void)argc, (void)argv;
    /* Until the next program: whoever is traced by somebody in the sandbox, which its filter refuses, would not be alone. */
    if (prctl(PR_SET_DUMPABLE, 0) < 0)
        give_up("dumpable");
    sigset_t standard, before;
    uint64_t blocked;
    standard_signals(&standard);
    /* From here on: the program outside runs before we hear of it, and a signal that comes now is for it. */
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
