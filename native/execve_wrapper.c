/*
 * paddock-execve-wrapper: asks a decider whether a program may run, and follows the answer.
 *
 *     paddock-execve-wrapper FILE ARGV0 [ARGUMENT...]
 *
 * A Bash with the patch of patches/ executes this instead of FILE. The variable CODEX_ESCALATE_SOCKET, or
 * PADDOCK_ESCALATE_SOCKET, has the number of a socket that preserves message boundaries. The wrapper sends one message
 * with one descriptor there: one end of a stream that carries the rest. Each message on the stream is a length of four
 * bytes, the lowest first, and JSON (wrapper_message.h):
 *
 *     Run        execute FILE here, with this environment, so that a shell that it starts asks as well
 *     Escalate   send the standard streams to the decider, which starts FILE with them; end with its exit code
 *     Deny       write a line with the reason to standard error; exit status 1
 *
 * Promises
 *   - It executes nothing without permission. Without a decider: exit status 1 and one line.
 *   - If FILE can't be executed: exit status 127 if it does not exist, otherwise 126. A file in a format that the
 *     kernel does not know is a script for the shell that PADDOCK_EXEC_SHELL names, as it is for Bash itself.
 *   - When this process is gone, its stream is closed, and the decider ends the program outside.
 *   - It forwards signals from within the sandbox to the program outside, as {"signal": N}, if the decider is
 *     Paddock's, which PADDOCK_ESCALATE_SOCKET shows.
 *
 * Privilege: that of the caller, which is confined. A process in the sandbox can bypass this program: it only steers,
 * and the sandbox is the boundary.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "bare.h"
#include "child.h"
#include "wrapper_message.h"
#include "message.h"
#include "number.h"

enum { EXIT_REFUSED = 1, EXIT_NOT_EXECUTABLE = 126, EXIT_NOT_FOUND = 127 };

enum { HEAD_BYTES = 4, ANSWER_BYTES = 1 << 20, STREAMS = 3 };

/* Size of any message other than the question. */
enum { MESSAGE_BYTES = 64 };

static _Noreturn void give_up(const char *what) {
    SAY("the execution can't be decided on: ", what, ": ", strerror(errno));
    _exit(EXIT_REFUSED);
}

/* ---- The stream ---- */

/* Sends bytes, with the descriptors on the first of them. */
static void send_all(int file, const char *data, size_t size, const int *files, size_t n_files) {
    union {
        char room[CMSG_SPACE(STREAMS * sizeof(int))];
        struct cmsghdr aligned;
    } control = {.room = {0}};
    while (size) {
        struct iovec part = {.iov_base = (char *)data, .iov_len = size};
        struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
        if (n_files) {
            message.msg_control = control.room;
            message.msg_controllen = CMSG_SPACE(n_files * sizeof(int));
            struct cmsghdr *header = CMSG_FIRSTHDR(&message);
            *header = (struct cmsghdr){
                .cmsg_len = CMSG_LEN(n_files * sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
            memcpy(CMSG_DATA(header), files, n_files * sizeof(int));
        }
        ssize_t n = sendmsg(file, &message, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            give_up("nobody takes the question");
        n_files = 0;
        data += n;
        size -= (size_t)n;
    }
}

static void put_head(char *data, size_t size) {
    for (int i = 0; i < HEAD_BYTES; i++)
        data[i] = (char)(size >> 8 * i);
}

static void read_all(int file, char *data, size_t size) {
    while (size) {
        ssize_t n = read(file, data, size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n == 0)
            errno = ECONNRESET;
        if (n <= 0)
            give_up("nobody answers");
        data += n;
        size -= (size_t)n;
    }
}

/* Receives one whole message. It stays in memory for good. */
static char *receive(int stream, size_t *size) {
    unsigned char head[HEAD_BYTES];
    read_all(stream, (char *)head, sizeof head);
    *size = head[0] | (size_t)head[1] << 8 | (size_t)head[2] << 16 | (size_t)head[3] << 24;
    errno = EMSGSIZE;
    char *data = *size && *size <= ANSWER_BYTES ? calloc(*size, 1) : NULL;
    if (!data)
        give_up("the answer");
    read_all(stream, data, *size);
    return data;
}

/* ---- What is asked ---- */

/* Returns the value of a variable, or NULL. */
static const char *variable(char *const *environment, const char *name) {
    for (; *environment; environment++)
        if (is_variable(*environment, name))
            return *environment + strlen(name) + 1;
    return NULL;
}

/* Returns the socket that leads every wrapper of the command to the decider. */
static int decider(char *const *environment) {
    const char *value = variable(environment, control_variables[0]);
    if (!value)
        value = variable(environment, control_variables[1]);
    char *digits = (char *)value;
    uint64_t number;
    errno = EBADF;
    if (!digits || !read_number(&digits, 10, &number) || *digits || number > INT_MAX)
        give_up("CODEX_ESCALATE_SOCKET names no descriptor");
    return (int)number;
}

/* Returns a new stream, and sends its other end to the decider. */
static int open_stream(int socket) {
    int ends[2];
    if (syscall(SYS_socketpair, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
        give_up("socket");
    send_all(socket, "", 1, &ends[1], 1);
    close(ends[1]);
    return ends[0];
}

static void ask(int stream, const char *file, char *const *argv, char *const *environment) {
    static char directory[PATH_MAX];
    struct text text = {0};
    errno = ENOENT;
    /* A directory that was moved out of sight has a name, but no path. */
    if (syscall(SYS_getcwd, directory, sizeof directory) < 0 || *directory != '/')
        give_up("the working directory");
    put_request(&text, file, argv, directory, environment);
    char *frame = calloc(HEAD_BYTES + text.size, 1);
    if (!frame || text.size > UINT32_MAX)
        give_up("memory");
    put_head(frame, text.size);
    text = (struct text){.room = frame + HEAD_BYTES};
    put_request(&text, file, argv, directory, environment);
    send_all(stream, frame, HEAD_BYTES + text.size, NULL, 0);
}

/* ---- What becomes of it ---- */

/* Runs a file of unknown format as a script, as Bash does. Returns only if there is no shell. */
static void run_as_script(char *file, char **argv, char **environment) {
    const char *named = variable(environment, "PADDOCK_EXEC_SHELL");
    const char *const shells[] = {named && *named == '/' ? named : "/bin/bash", "/bin/bash", "/bin/sh"};
    size_t count = 0;
    while (argv[count])
        count++;
    char **words = calloc(count + 2, sizeof *words);
    if (!words)
        return;
    words[1] = file;
    /* The arguments after argv[0]. */
    for (size_t i = 1; i < count; i++)
        words[i + 1] = argv[i];
    for (size_t i = 0; i < sizeof shells / sizeof *shells; i++) {
        words[0] = (char *)shells[i];
        execve(shells[i], words, environment);
    }
}

static _Noreturn void run(char *file, char **argv, char **environment) {
    execve(file, argv, environment);
    int error = errno;
    if (error == ENOEXEC)
        run_as_script(file, argv, environment);
    SAY("can't run ", file, ": ", strerror(error));
    _exit(error == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE);
}

/* Sends a short message with descriptors. */
static void tell(int stream, const char *text, const int *files, size_t n_files) {
    char frame[HEAD_BYTES + MESSAGE_BYTES];
    size_t size = strlen(text);
    put_head(frame, size);
    memcpy(frame + HEAD_BYTES, text, size);
    send_all(stream, frame, HEAD_BYTES + size, files, n_files);
}

/* Forwards signals from within the sandbox. Those from the terminal and from outside reach the program directly,
 * because it is in the same group. Stop signals are not forwarded: this process stops as well. */
static void pass_on(int signals, int stream, uint64_t *arrived) {
    struct signalfd_siginfo one;
    while (read(signals, &one, sizeof one) == sizeof one) {
        char digits[NUMBER_BYTES], text[MESSAGE_BYTES];
        bool is_from_within = one.ssi_code != SI_KERNEL && one.ssi_pid != 0;
        *arrived |= 1ul << (one.ssi_signo - 1);
        if (one.ssi_signo != SIGCONT && !is_from_within)
            continue;
        stpcpy(stpcpy(stpcpy(text, "{\"signal\":"), number_text(digits, one.ssi_signo, 10, 1)), "}");
        tell(stream, text, NULL, 0);
    }
}

/* Waits for an answer and forwards signals meanwhile. Returns the set of signals that have arrived. */
static uint64_t forward_signals(int stream) {
    static const int forwarded[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGALRM, SIGWINCH, SIGCONT};
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof forwarded / sizeof *forwarded; i++)
        sigaddset(&set, forwarded[i]);
    sigprocmask(SIG_BLOCK, &set, NULL);
    int signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (signals < 0)
        give_up("signals");
    for (uint64_t arrived = 0;;) {
        struct pollfd events[] = {{.fd = stream, .events = POLLIN}, {.fd = signals, .events = POLLIN}};
        if (poll(events, 2, -1) < 0 && errno != EINTR)
            give_up("poll");
        if (events[1].revents)
            pass_on(signals, stream, &arrived);
        if (events[0].revents)
            return arrived;
    }
}

/* Ends by a signal, because a shell treats an end by a terminal signal differently from an exit status. */
static void die_as(int signo) {
    sigset_t none;
    sigemptyset(&none);
    setrlimit(RLIMIT_CORE, (&(struct rlimit){0, 0}));
    default_signals();
    sigprocmask(SIG_SETMASK, &none, NULL);
    kill(getpid(), signo);
}

/* Waits for the program outside. Only Paddock's decider accepts signals. The original protocol has no message for them,
 * and they end this process. */
static _Noreturn void stand_for(int stream, bool has_signals) {
    static const int files[STREAMS] = {0, 1, 2};
    tell(stream, "{\"fds\":[0,1,2]}", files, STREAMS);
    uint64_t arrived = has_signals ? forward_signals(stream) : 0;
    size_t size;
    char *data = receive(stream, &size);
    int64_t code;
    errno = EBADMSG;
    if (!read_exit_code(data, size, &code))
        give_up("the exit code");
    if (code > 128 && code <= 128 + LAST_SIGNAL && arrived >> (code - 129) & 1)
        die_as((int)code - 128);
    _exit((int)code);
}

/* Writes the reason in one piece, because others may write to the same file. A pipe may still take it in parts. */
static _Noreturn void deny(const struct answer *answer) {
    static const char said[] = "Execution denied", before[] = ": ";
    char *line = calloc(sizeof said + sizeof before + answer->length, 1), *end = line;
    if (!line)
        _exit(EXIT_REFUSED);
    end = mempcpy(end, said, sizeof said - 1);
    if (answer->reason)
        end = mempcpy(mempcpy(end, before, sizeof before - 1), answer->reason, answer->length);
    *end++ = '\n';
    while (line < end) {
        ssize_t n = write(2, line, (size_t)(end - line));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        line += n;
    }
    _exit(EXIT_REFUSED);
}

int main(int argc, char **argv) {
    char **environment = argv + argc + 1;
    errno = EINVAL;
    if (argc < 3)
        give_up("a file and its name are needed");
    int stream = open_stream(decider(environment));
    ask(stream, argv[1], argv + 2, environment);
    struct answer answer;
    size_t size;
    char *data = receive(stream, &size);
    errno = EBADMSG;
    if (!read_answer(data, size, &answer))
        give_up("the answer");
    switch (answer.action) {
    case ACTION_RUN:
        run(argv[1], argv + 2, environment);
    case ACTION_ESCALATE:
        stand_for(stream, variable(environment, control_variables[1]));
    case ACTION_DENY:
        deny(&answer);
    }
    give_up("the answer");
}
