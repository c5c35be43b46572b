/*
 * paddock-init: the first process of a sandbox, and the parent of its command.
 *
 *     paddock-init [WORD...] -- [PROGRAM [ARGUMENT...]]
 *     paddock-init [WORD...] more=FD
 *     paddock-init [own-mounts=1] [early-mounts=FD:FD:FD] [devices=1] [read-only=PATH...] -- BUBBLEWRAP [ARGUMENT...]
 *
 * It is linked statically, so it runs in any view of the file system. It need not be part of that view: the launcher
 * opens it and bubblewrap executes the descriptor. Each word asks for one thing:
 *
 *     as=BYTES cpu=SECONDS fsize=BYTES nofile=COUNT nproc=COUNT
 *                            limits of each process; nproc applies to all together
 *     cgroup=FD              the cgroup.procs of a control group to enter; it limits the processes instead
 *     memory=FD              the same for another control group, which limits the memory of all together; not given
 *                            if one group limits both
 *     wall=SECONDS           time after which the init kills everything
 *     landlock=FS:NET:SCOPE  rights to take away (hexadecimal, linux/landlock.h)
 *     allow=RIGHTS:PATH      which of these rights stay granted below a path
 *     seccomp=FD             a filter to load, if bubblewrap has not loaded it
 *     trace=FD               a socket: the init receives a second filter on it, for the command alone,
 *                            and sends its listener (seccomp_unotify(2))
 *     keep=FD:NUMBER         a descriptor for the command, and its number there
 *     listen=FD:PORT         a loopback port to listen on for a proxy, and the socket to send the listener
 *                            to (proxy_listener.h); may be repeated
 *     report=FD              a pipe for reports on the command (report.h); the init kills everything
 *                            when the last reader closes it
 *     argv0=NAME             argv[0] of the program, if not PROGRAM
 *     env=NAME=VALUE         a variable of the command; its environment has only these
 *     cwd=PATH               working directory of the command, if not that of this process
 *     mounted=DEV:INODE:PATH the file that must be mounted at a path
 *     isolated=1             nothing mounted elsewhere may appear here (isolation.h)
 *     mask=PATH              a mount that the command must not get around (mask.h); masks in one
 *                            directory are consecutive
 *     guard=PATH             a mask where the command could create files that others obey: the init puts
 *                            those aside
 *     private=PATH           a mask on a file that nobody else would move
 *     placeholder=PATH       a placeholder of a janitor, to be locked (janitor.c)
 *     hold=1                 before `--`, instead of a program: keep the sandbox
 *                            for others to enter, until SIGTERM
 *     wait=FD                with `hold`: a socket on which the command comes later (waiting.h)
 *     more=FD                the last word: a file with the remaining words, each ended by NUL
 *
 * The launcher uses the last form, outside of the sandbox. It executes bubblewrap in a mount namespace that receives no
 * mounts from the host (own_mounts.h), with devices for bubblewrap to show (devices.h), with these paths read-only
 * (read_only.h), and with mounts made early (early_mount.h). The first descriptor of `early-mounts` is a file of paths,
 * each with an `r` or a `w` before it and ended by NUL, to be mounted on themselves, read-only or not. The second has
 * bubblewrap's options. The third has all options that bubblewrap needs if nothing can be mounted here, and replaces
 * the second in that case; with `early-mounts` alone, bubblewrap then runs among the mounts of the host.
 *
 * Promises
 *   - The init enforces everything that was asked for before the program starts. Otherwise the program does not
 *     start: exit status 125 and one line on standard error.
 *   - Mounts keep enforcing: when somebody outside takes a mask away, the init kills everything, with exit status 125
 *     and one line on standard error.
 *   - Exit status: that of the program, or 128 plus the signal that ended it; 127 if there is no such program, 126 if
 *     it can't be executed, 124 if the time was over.
 *   - The command has only descriptors 0, 1, 2 and the one to keep, an empty signal mask and default dispositions.
 *     When it has ended, nothing that it started lives on.
 *   - No standard stream is a /dev/null of the host that belongs to the command's user: the init replaces it with
 *     that of the sandbox.
 *   - A signal reaches the command once. If this process leads a group, the command leads another, and the init
 *     forwards the signals it gets. Otherwise both share the group of the launcher, whose signals reach the command
 *     directly; if the command has moved to its own group, as shells do, the init forwards them. The init forwards
 *     neither signals from the command nor realtime signals (signals.h).
 *   - In a pid namespace and a session of its own, SIGTTIN from outside stops everything until SIGCONT from outside
 *     (suspension.h). If something runs in between, or would by a timer, the init kills everything, with exit status 125
 *     and one line on standard error.
 *
 * Privilege: under bubblewrap it has none left, and runs with the filter in force. Without bubblewrap it has the
 * caller's, and drops every capability before anything else. It trusts its words. It does not trust the command. At
 * most, the command can signal it (before Linux 6.12). The command can't read its memory or its descriptors through
 * /proc, because the init is not dumpable.
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
#include "suspension.h"
#include "task.h"
#include "waiting.h"

/* ---- The command ---- */

static _Noreturn void run(bool leads_group, bool has_terminal) {
    if (leads_group)
        setpgid(0, 0);
    /* Signals are still blocked, so taking the terminal does not stop this process (SIGTTOU). */
    if (has_terminal)
        tcsetpgrp(0, getpid());
    default_signals();
    stay_below();
    /* Before the limits: the limit on descriptors might leave no room for the listener. */
    trace_self();
    /* Before the limits for the same reason. All other descriptors close when the program starts. */
    if (task.kept >= 0 && syscall(SYS_dup3, task.kept, task.kept_number, 0) < 0)
        refuse("keep", "");
    give_back_room();
    if (task.cwd && chdir(task.cwd) < 0)
        refuse("working directory ", task.cwd);
    limit_self();
    limit_waiting_signals();
    /* Once the launcher has read this, it may send signals. They stay pending until the next step. */
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
    /* Checked before the fork: after it, either side may already have given the command its group. */
    bool has_terminal = leads_group && tcgetpgrp(0) == getpgrp();
    pid_t command = fork();
    if (command < 0)
        refuse("fork", "");
    if (command == 0)
        run(leads_group, has_terminal);
    /* Both sides call this, so that nobody signals a group that does not exist yet. */
    if (leads_group)
        setpgid(command, command);
    return command;
}

/* ---- Watching over it ---- */

/* Reports if the failed command had reached its process limit. Called before the wait, because until then the command
 * still counts. */
static void report_process_limit(pid_t command) {
    siginfo_t end = {0};
    if (waitid(P_PID, (id_t)command, &end, WEXITED | WNOHANG | WNOWAIT) == 0 && end.si_pid == command &&
        (end.si_code != CLD_EXITED || end.si_status != 0) && is_full())
        report(&(struct report){.kind = REPORT_PROCESS_LIMIT});
}

/* Kills all descendants. They are dead when this returns. */
static void kill_everything(void) {
    /* Signals do not leave a pid namespace. */
    if (getpid() == 1)
        kill(-1, SIGKILL);
    else
        kill_descendants();
    while (waitpid(-1, NULL, 0) > 0) {
    }
}

/* If no child is left, no descendant is left either. */
static void kill_the_rest(void) {
    if (waitpid(-1, NULL, WNOHANG) >= 0)
        kill_everything();
}

/* Ends this process and its descendants. */
static _Noreturn void finish(int status) {
    kill_the_rest();
    /* The command may have stopped bubblewrap, which is in its group. Then nobody would learn of the end. */
    if (getpgrp() != getpid())
        kill(0, SIGCONT);
    _exit(status);
}

/* Call this only when no process of the command is left. */
static _Noreturn void tell_breach(const struct mask *lost) {
    report(&(struct report){.kind = REPORT_BREACH});
    tell_of_loss(lost);
    finish(EXIT_NOT_CONFINED);
}

/* Kills everything if a mask is lost, because the command can then reach forbidden files. */
static void hold_masks(void) {
    const struct mask *lost = lost_mask();
    if (!lost)
        return;
    kill_everything();
    settle_masks();
    tell_breach(lost);
}

/* Kills everything, then looks for lost masks. The command may have been quicker than the kernel, which first moves a
 * file and then reports it. Returns if no mask is lost. */
static void end_with_masks(void) {
    if (masks.count == 0)
        return;
    kill_everything();
    const struct mask *lost = settle_masks();
    if (lost)
        tell_breach(lost);
}

/* Closes everything except the report pipe: the streams, because others wait for their end, and the locks on
 * placeholders, which the janitor removes as soon as the exit is reported. The kernel needs longer to take the sandbox
 * down. Call this only when no process of the command is left and its masks stayed in place to the end. */
static void let_go(void) {
    if (task.report > 0 && syscall(SYS_dup3, task.report, 0, 0) == 0) {
        task.report = 0;
        syscall(SYS_close_range, 1u, ~0u, 0u);
    }
}

/* Reaps ended processes, and ends this process if the command was one of them. Returns whether there may be more:
 * processes can end as fast as the init reaps them. The kernel finds the command first, because it is the oldest child. */
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
    /* In a pid namespace, a group from outside has the number 0. */
    pid_t group = getpgid(command);
    if (group > 0 && group != getpgrp())
        kill(-group, signo);
}

/* Only a process outside of the pid namespace has no number here, and kill(2) lets nobody choose the number. A command
 * in the session of its launcher is stopped like every job there. It gets this signal like any other, of which a client
 * may send as many as it likes. */
static bool is_about_suspension(const struct signalfd_siginfo *arrived) {
    bool is_from_outside = getpid() == 1 && arrived->ssi_code == SI_USER && arrived->ssi_pid == 0;
    bool has_own_session = getpgrp() == getpid();
    return is_from_outside && has_own_session && task.program &&
           (arrived->ssi_signo == SIGTTIN || (arrived->ssi_signo == SIGCONT && suspension.is_on));
}

/* Handles the signals that have arrived so far and no more, so that the clock and the launcher get their turn. */
static void serve_signals(int signals, pid_t command) {
    struct signalfd_siginfo arrived[ARRIVALS_LIMIT];
    /* 0 if the read fails. */
    ssize_t count = read(signals, arrived, sizeof arrived) / (ssize_t)sizeof *arrived;
    bool is_told_of_masks = false;
    for (const struct signalfd_siginfo *each = arrived; each < arrived + count; each++) {
        bool is_of_masks = each->ssi_signo == MASK_SIGNAL;
        /* No matter who sent it: while one from another sender is pending, the kernel does not add its own. */
        is_told_of_masks = is_told_of_masks || is_of_masks;
        if (is_about_suspension(each)) {
            each->ssi_signo == SIGCONT ? resume() : suspend();
            continue;
        }
        if (each->ssi_signo != SIGCHLD && !(is_of_masks && each->ssi_code == SI_KERNEL) && is_for_command(each))
            pass_on((int)each->ssi_signo, command);
    }
    if (is_told_of_masks)
        hold_masks();
}

static _Noreturn void end_overdue(void) {
    char digits[NUMBER_BYTES];
    end_with_masks();
    /* Before the message, which may have to wait for its reader. */
    kill_the_rest();
    report(&(struct report){.kind = REPORT_WALL_LIMIT});
    SAY("the command was killed, because it took longer than ", number_text(digits, task.wall_s, 10, 1), " s");
    finish(EXIT_WALL);
}

static _Noreturn void end_running(void) {
    end_with_masks();
    kill_the_rest();
    report(&(struct report){.kind = REPORT_RAN});
    SAY("the command was killed, because ", unrest());
    finish(EXIT_NOT_CONFINED);
}

/* Returns a descriptor that becomes readable when the time is over, or -1. */
static int start_clock(void) {
    if (!task.wall_s)
        return -1;
    struct itimerspec when = {.it_value.tv_sec = (time_t)task.wall_s};
    int clock = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
    if (clock < 0 || timerfd_settime(clock, 0, &when, NULL) < 0)
        refuse("time limit", "");
    return clock;
}

/* Executes the program after `--`, with the environment of this process. */
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

/* Returns whether this first word belongs to the form that starts bubblewrap. */
static bool is_for_bubblewrap(char *word) {
    return value_of(word, "own-mounts") || value_of(word, "early-mounts") || value_of(word, "devices") ||
           value_of(word, "read-only");
}

int main(int argc, char **argv) {
    if (argc > 1 && is_for_bubblewrap(argv[1]))
        start_bubblewrap(argc, argv);
    parse(argc, argv);
    prctl(PR_SET_NAME, "paddock-init");
    /* Not earlier, as an option of bubblewrap: if bubblewrap were killed while its child waits for it, the child would
     * stay. */
    if (getpid() == 1 && prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
        refuse("parent", "");
    settle_inherited();
    confine();
    /* Without a pid namespace, this process adopts orphans as a subreaper. */
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
    /* The launcher may have died before all this, or bubblewrap may have, and the launcher then closed its end. */
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
        /* Each turn does a bounded amount of work, and starts with the work that the command must not be able to delay. */
        int wait_ms = suspension.is_on ? next_look_ms() : masks.has_unwatched ? LOOK_MS : -1;
        if (poll(events, 4, has_more ? 0 : wait_ms) < 0 && errno != EINTR)
            refuse("poll", "");
        if (events[2].revents)
            finish(EXIT_ABANDONED);
        if (events[3].revents || masks.has_unwatched)
            hold_masks();
        if (events[0].revents)
            serve_signals(signals, command);
        if (suspension.is_on && !keeps_still())
            end_running();
        /* Before the clock, so that a command that ended in time counts as such. */
        if (events[0].revents || events[1].revents || has_more)
            has_more = reap(command);
        if (events[1].revents)
            end_overdue();
    }
}
