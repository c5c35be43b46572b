/*
 * The signals of paddock-init: which ones it takes, from whom, and how many in one turn.
 *
 * A command may send signals without end, to this process as well. So no number of them may keep this process from
 * the clock and the launcher, and none may wait in a queue: that counts against the user (RLIMIT_SIGPENDING), whose other
 * programs would then get no timers. The standard signals wait once each. The realtime ones, which wait as often as
 * they are sent, are ignored here, and the kernel drops them.
 *
 * Privilege: none.
 */
#ifndef PADDOCK_SIGNALS_H
#define PADDOCK_SIGNALS_H

#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "child.h"
#include "confinement.h"
#include "task.h"

/* What a signalfd gives in one turn: each once, or one of them as often if somebody sends it again meanwhile. */
enum { ARRIVALS_LIMIT = LAST_STANDARD_SIGNAL };

/* Of signals and timers of the command that wait at one time: a fifteenth of what a user has in all with 4 GiB of memory. */
enum { WAITING_SIGNALS_LIMIT = 1024 };

/* Since Linux 6.12; older headers lack it. */
enum { LANDLOCK_SCOPE_OF_SIGNALS = 1 << 1 };

/* To move or link a file into another directory: what every domain refuses unless it grants it, whether it handles it or
 * not (landlock(7)). */
enum { LANDLOCK_RIGHT_TO_REFER = 1 << 13 };

/* A descriptor from which the standard signals can be read. */
static int take_signals(void) {
    sigset_t standard;
    standard_signals(&standard);
    /* In this order: one that is blocked waits, ignored or not. */
    ignore_realtime_signals();
    sigprocmask(SIG_SETMASK, &standard, NULL);
    return signalfd(-1, &standard, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* Whether a signal is for the command: not from the command itself. In a pid namespace whoever is outside has no number.
 * kill(2) and its like name the sender, and the terminal is the kernel; sigqueue(3) says what its caller likes. Should
 * somebody get around this, by using up all that may wait, he signals the command, as he can by himself. */
static bool is_for_command(const struct signalfd_siginfo *arrived) {
    bool names_sender = arrived->ssi_code == SI_USER || arrived->ssi_code == SI_TKILL;
    return getpid() != 1 || arrived->ssi_code == SI_KERNEL || (names_sender && arrived->ssi_pid == 0);
}

/* Keeps the command from signalling this process and bubblewrap at all, where the kernel can. It is in a Landlock domain
 * further in then, and reaches only what it starts itself. To be called by the command before it is executed. */
static void stay_below(void) {
    struct landlock_ruleset scope = {.handled_fs = LANDLOCK_RIGHT_TO_REFER, .scoped = LANDLOCK_SCOPE_OF_SIGNALS};
    int ruleset = (int)syscall(LANDLOCK_CREATE, &scope, sizeof scope, 0u);
    if (ruleset < 0)
        return;
    /* Files are the business of the domain around this one. */
    struct landlock_rule everywhere = {.rights = LANDLOCK_RIGHT_TO_REFER, .parent = open("/", O_PATH | O_CLOEXEC)};
    if (everywhere.parent < 0 || syscall(LANDLOCK_ADD_RULE, ruleset, RULE_PATH_BENEATH, &everywhere, 0u) < 0 ||
        syscall(LANDLOCK_RESTRICT, ruleset, 0u) < 0)
        refuse("Landlock", "");
    close(everywhere.parent);
    close(ruleset);
}

/* The command's own, so that it can't use up what the user's other programs need. */
static void limit_waiting_signals(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_SIGPENDING, &limit) < 0)
        refuse("limit ", "sigpending");
    if (limit.rlim_max > WAITING_SIGNALS_LIMIT)
        limit.rlim_max = WAITING_SIGNALS_LIMIT;
    if (limit.rlim_cur > limit.rlim_max)
        limit.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_SIGPENDING, &limit) < 0)
        refuse("limit ", "sigpending");
}

#endif
