/*
 * paddock-init: the first process of a sandbox, and the parent of its command.
 *
 *     paddock-init [WORD...] -- [PROGRAM [ARGUMENT...]]
 *     paddock-init [WORD...] more=FD
 *     paddock-init [own-mounts=1] [early-mounts=FD:FD:FD] [devices=1] [read-only=PATH...] -- BUBBLEWRAP [ARGUMENT...]
 *
 * It is linked statically, so that it runs in any view of the file system, and
 * it need not be part of that view: the launcher opens it and bubblewrap
 * executes the descriptor. Each word is one thing to do:
 *
 *     as=BYTES cpu=SECONDS fsize=BYTES nofile=COUNT nproc=COUNT
 *                            limits of each process; nproc is for all together
 *     cgroup=FD              a control group to enter, by its cgroup.procs, that limits the processes instead
 *     memory=FD              another, that limits the memory of all together; not given if it is the same one
 *     wall=SECONDS           after which everything is killed
 *     landlock=FS:NET:SCOPE  rights to take away (hexadecimal, linux/landlock.h)
 *     allow=RIGHTS:PATH      of these, what stays granted below a path
 *     seccomp=FD             a filter to load, where bubblewrap has not done it
 *     trace=FD               a socket: a second filter to load comes in, for the command alone,
 *                            and its listener goes out (seccomp_unotify(2))
 *     keep=FD:NUMBER         a descriptor that the command has, under that number
 *     listen=FD:PORT         a port of the loopback to listen on for a proxy, and the socket by which the listener
 *                            goes out (proxy_listener.h); may be repeated
 *     report=FD              a pipe for what became of the command (report.h); when nobody
 *                            can read it any more, everything is killed
 *     argv0=NAME             the name the program is told, if not PROGRAM
 *     env=NAME=VALUE         a variable of the command, whose environment is these and nothing else
 *     cwd=PATH               where the command starts, if not where this process is
 *     mounted=DEV:INODE:PATH what must be mounted at a path
 *     isolated=1             nothing that is mounted elsewhere may appear here (isolation.h)
 *     mask=PATH              a mount that the command must not get around (mask.h); those of one
 *                            directory stand together
 *     guard=PATH             the same, where the command could make what others obey: that is put aside
 *     private=PATH           the same as a mask, where nobody would move what it is on
 *     placeholder=PATH       what a janitor keeps there, to be locked (janitor.c)
 *     hold=1                 before `--`, in place of a program: keep the sandbox
 *                            for others to enter, until SIGTERM
 *     wait=FD                with `hold`: a socket by which the command comes later (waiting.h)
 *     more=FD                the last: what follows is in a file, each ended by NUL
 *
 * The last is for the launcher, outside of the sandbox: bubblewrap is executed among mounts that nothing arrives in
 * (own_mounts.h), where there are devices for it to show (devices.h), where these paths are read-only (read_only.h),
 * and where mounts were made early (early_mount.h). The first descriptor of `early-mounts` is a file of paths,
 * each with an `r` or a `w` before it and ended by NUL, to be mounted on themselves, read-only or not; the second has
 * bubblewrap's options, and the third, which takes its place where nothing can be mounted here, all that it would need
 * then. With `early-mounts` alone, bubblewrap is then executed among the mounts of the host.
 *
 * Promises
 *   - What was asked for is enforced before the program starts, or it does not
 *     start: exit status 125 and one line on standard error.
 *   - What is enforced by mounts stays so: when somebody outside takes away a mask,
 *     everything is killed, with exit status 125 and one line on standard error.
 *   - Exit status: that of the program, or 128 and the signal that ended it; 127
 *     if there is no such program, 126 if it can't be executed, 124 if the
 *     time was over.
 *   - The command has descriptors 0, 1, 2 and the one to keep only, an empty signal mask and
 *     default dispositions. When it has ended, nothing that it started lives on.
 *   - A /dev/null of the host that belongs to the command's user is none of these: the command has that of
 *     the sandbox instead.
 *   - A signal reaches the command once: when this process leads a group, the
 *     command leads another and is sent what arrives here; otherwise both
 *     share the group of the launcher, whose signals reach the command directly,
 *     or are sent on if it has left for a group of its own, as shells do. What the command sends here,
 *     and realtime signals from anybody, are sent on to nobody (signals.h).
 *
 * Privilege: under bubblewrap it has none left, and runs with the filter in
 * force. Without bubblewrap it has the caller's, and drops every capability
 * before anything else. It trusts its words; it does not trust the command,
 * which may signal it at most (before Linux 6.12) and, as it is not dumpable,
 * neither reads its memory nor its descriptors through /proc.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "early_mount.h"
#include "bare.h"
#include "child.h"
#include "confinement.h"
#include "descendants.h"
#include "devices.h"
#include "inherited.h"
#include "limit.h"
#include "listener.h"
#include "mask.h"
#include "message.h"
#include "number.h"
#include "own_mounts.h"
#include "read_only.h"
#include "report.h"
#include "signals.h"
#include "task.h"
#include "waiting.h"

/* ---- The command ---- */

static _Noreturn void run(bool leads_group, bool has_terminal) {
    if (leads_group)
        setpgid(0, 0);
    /* Signals are blocked still, so taking the terminal does not stop us (SIGTTOU). */
    if (has_terminal)
        tcsetpgrp(0, getpid());
    default_signals();
    stay_below();
    /* Before the limits, of which the one on descriptors might leave no room for the listener. */
    trace_self();
    /* The same holds here. All others are closed when the program starts. */
    if (task.kept >= 0 && syscall(SYS_dup3, task.kept, task.kept_number, 0) < 0)
        refuse("keep", "");
    give_back_room();
    if (task.cwd && chdir(task.cwd) < 0)
        refuse("working directory ", task.cwd);
    limit_self();
    limit_waiting_signals();
    /* Whoever has read this may send signals: they wait until the next step. */
    report(&(struct report){.kind = REPORT_CONFINED});
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    int error = exec_program(task.program, search_path(task.environment), task.argv, task.environment);
    report(&(struct report){.kind = REPORT_NOT_EXECUTED, .value = error});
    SAY("can't run ", task.program, ": ", strerror(error));
    _exit(error == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE);
}

static pid_t start(void) {
    bool leads_group = getpgrp() == getpid();
    /* After the fork either side may have given the command its group already. */
    bool has_terminal = leads_group && tcgetpgrp(0) == getpgrp();
    pid_t command = fork();
    if (command < 0)
        refuse("fork", "");
    if (command == 0)
        run(leads_group, has_terminal);
    /* Both sides do it, so that no signal is sent to a group that is not there yet. */
    if (leads_group)
        setpgid(command, command);
    return command;
}

/* ---- Watching over it ---- */

/* While the command that has failed is not waited for, it still counts. */
static void report_process_limit(pid_t command) {
    siginfo_t end = {0};
    if (waitid(P_PID, (id_t)command, &end, WEXITED | WNOHANG | WNOWAIT) == 0 && end.si_pid == command &&
        (end.si_code != CLD_EXITED || end.si_status != 0) && is_full())
        report(&(struct report){.kind = REPORT_PROCESS_LIMIT});
}

/* Whatever is below this process is dead when this returns. */
static void kill_everything(void) {
    /* Signals do not leave a pid namespace. */
    if (getpid() == 1)
        kill(-1, SIGKILL);
    else
        kill_descendants();
    while (waitpid(-1, NULL, 0) > 0) {
    }
}

/* Where no child is left, no descendant is either. */
static void kill_the_rest(void) {
    if (waitpid(-1, NULL, WNOHANG) >= 0)
        kill_everything();
}

/* Ends this process and all below it. */
static _Noreturn void finish(int status) {
    kill_the_rest();
    /* A command in the group of bubblewrap may have stopped that, and nobody would learn of the end. */
    if (getpgrp() != getpid())
        kill(0, SIGCONT);
    _exit(status);
}

/* To be called when nothing of the command lives any more. */
static _Noreturn void tell_breach(const struct mask *lost) {
    report(&(struct report){.kind = REPORT_BREACH});
    tell_of_loss(lost);
    finish(EXIT_NOT_CONFINED);
}

/* Ends everything if a mask is lost: the command can reach what it must not. */
static void hold_masks(void) {
    const struct mask *lost = lost_mask();
    if (!lost)
        return;
    kill_everything();
    settle_masks();
    tell_breach(lost);
}

/* Ends everything, and then looks for lost masks: the command may have been quicker than the kernel, which moves first
 * and then tells. Returns if there is none. */
static void end_with_masks(void) {
    if (masks.count == 0)
        return;
    kill_everything();
    const struct mask *lost = settle_masks();
    if (lost)
        tell_breach(lost);
}

/* Closes everything but the way of reports: the streams, at whose end others wait, and the locks of placeholders, which are
 * removed as soon as the exit is reported. The kernel takes longer to take this sandbox down. To be called when nothing of
 * the command lives any more, and its masks were in place to the end. */
static void let_go(void) {
    if (task.report > 0 && syscall(SYS_dup3, task.report, 0, 0) == 0) {
        task.report = 0;
        syscall(SYS_close_range, 1u, ~0u, 0u);
    }
}

/* Reaps what has ended, if the command itself has not. Returns whether there may be more: processes can end as fast as
 * they are reaped, and the command is the first to be found, because it is the oldest child. */
static bool reap(pid_t command) {
    report_process_limit(command);
    for (int i = 0; i < REAPED_IN_A_TURN; i++) {
        int status;
        struct rusage usage;
        pid_t pid = wait4(-1, &status, WNOHANG, &usage);
        if (pid <= 0)
            return false;
        if (pid != command)
            continue;
        end_with_masks();
        kill_the_rest();
        let_go();
        report(&(struct report){
            .kind = REPORT_EXITED, .value = status,
            .user_us = microseconds(usage.ru_utime), .system_us = microseconds(usage.ru_stime),
            .max_rss_kib = (uint64_t)usage.ru_maxrss,
        });
        finish(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
    }
    return true;
}

static void pass_on(int signo, pid_t command) {
    if (!task.program && signo == SIGTERM)
        finish(0);
    /* In a pid namespace a group from outside is 0. */
    pid_t group = getpgid(command);
    if (group > 0 && group != getpgrp())
        kill(-group, signo);
}

/* Takes what has arrived by now, and no more: the clock and the launcher are looked at in between. */
static void serve_signals(int signals, pid_t command) {
    struct signalfd_siginfo arrived[ARRIVALS_LIMIT];
    /* None if it fails. */
    ssize_t count = read(signals, arrived, sizeof arrived) / (ssize_t)sizeof *arrived;
    bool is_told_of_masks = false;
    for (const struct signalfd_siginfo *each = arrived; each < arrived + count; each++) {
        bool is_of_masks = each->ssi_signo == MASK_SIGNAL;
        /* Whoever sent it: the kernel does not say it again while one waits that somebody else has sent. */
        is_told_of_masks = is_told_of_masks || is_of_masks;
        if (each->ssi_signo != SIGCHLD && !(is_of_masks && each->ssi_code == SI_KERNEL) && is_for_command(each))
            pass_on((int)each->ssi_signo, command);
    }
    if (is_told_of_masks)
        hold_masks();
}

static _Noreturn void end_overdue(void) {
    char digits[NUMBER_BYTES];
    end_with_masks();
    report(&(struct report){.kind = REPORT_WALL_LIMIT});
    SAY("the command was killed, because it took longer than ", number_text(digits, task.wall_s, 10, 1), " s");
    finish(EXIT_WALL);
}

/* A descriptor that becomes readable when the time is over, or -1. */
static int start_clock(void) {
    if (!task.wall_s)
        return -1;
    struct itimerspec when = {.it_value.tv_sec = (time_t)task.wall_s};
    int clock = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
    if (clock < 0 || timerfd_settime(clock, 0, &when, NULL) < 0)
        refuse("time limit", "");
    return clock;
}

/* Executes the program after `--`, with the variables of this process. */
static _Noreturn void start_bubblewrap(int argc, char **argv) {
    int i = 1;
    size_t size = 0;
    bool has_own = value_of(argv[i], "own-mounts");
    i += has_own;
    char *value = i < argc ? value_of(argv[i], "early-mounts") : NULL;
    char *paths = value ? take_early(value, argv[i++], &size) : NULL;
    if (has_own || paths || (i < argc && strcmp(argv[i], "--") != 0))
        own_mounts();
    bind_all(paths, size);
    for (; i < argc && strcmp(argv[i], "--") != 0; i++) {
        char *path = value_of(argv[i], "read-only");
        if (path)
            make_read_only(path);
        else
            make_devices();
    }
    errno = EINVAL;
    if (i + 1 < argc)
        execve(argv[i + 1], argv + i + 1, argv + argc + 1);
    refuse("bubblewrap", "");
}

/* Whether the words are those of a start of bubblewrap, of which this is the first. */
static bool is_for_bubblewrap(char *word) {
    return value_of(word, "own-mounts") || value_of(word, "early-mounts") || value_of(word, "devices") ||
           value_of(word, "read-only");
}

int main(int argc, char **argv) {
    if (argc > 1 && is_for_bubblewrap(argv[1]))
        start_bubblewrap(argc, argv);
    parse(argc, argv);
    prctl(PR_SET_NAME, "paddock-init");
    /* Not earlier, as an option of bubblewrap: killed while its child waits for it, it would leave that behind. */
    if (getpid() == 1 && prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
        refuse("parent", "");
    settle_inherited();
    confine();
    /* Where there is no pid namespace, orphans come here all the same. */
    if (getpid() != 1 && prctl(PR_SET_CHILD_SUBREAPER, 1) < 0)
        refuse("subreaper", "");
    int signals = take_signals();
    if (signals < 0)
        refuse("signalfd", "");
    hold_placeholders();
    watch_masks();
    if (task.waiting >= 0)
        await_command(signals);
    int clock = start_clock();
    /* The launcher, or bubblewrap and then the launcher has closed its end, may have died before all this. */
    struct pollfd launcher = {.fd = task.report};
    if (poll(&launcher, 1, 0) > 0)
        _exit(EXIT_ABANDONED);
    pid_t command = task.program ? start() : -1;
    if (!task.program)
        report(&(struct report){.kind = REPORT_CONFINED});
    struct pollfd events[] = {
        {.fd = signals, .events = POLLIN}, {.fd = clock, .events = POLLIN}, {.fd = task.report},
        {.fd = masks.mounts, .events = POLLPRI}};
    for (bool has_more = false;;) {
        /* Each turn does a bounded amount of work, and begins with what the command must not be able to put off. */
        if (poll(events, 4, has_more ? 0 : masks.has_unwatched ? LOOK_MS : -1) < 0 && errno != EINTR)
            refuse("poll", "");
        if (events[2].revents)
            finish(EXIT_ABANDONED);
        if (events[3].revents || masks.has_unwatched)
            hold_masks();
        if (events[0].revents)
            serve_signals(signals, command);
        /* Before the clock: a command that ended in time did. */
        if (events[0].revents || events[1].revents || has_more)
            has_more = reap(command);
        if (events[1].revents)
            end_overdue();
    }
}
