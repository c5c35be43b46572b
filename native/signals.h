/*
 * The signals of paddock-init: which ones it handles, from whom, and how many per turn.
 *
 * A command may send signals without end, to this process as well. They must not keep this process from the clock and
 * the launcher, and none may queue: queued signals count against the user (RLIMIT_SIGPENDING), whose other programs
 * would then get no timers. At most one instance of each standard signal is pending. Realtime signals queue, so this
 * process ignores them and the kernel drops them.
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

/* The most that a signalfd returns in one turn: each signal once, or one of them repeatedly if somebody sends it again
 * meanwhile. */
enum { ARRIVALS_LIMIT = LAST_STANDARD_SIGNAL };

/* Signals and timers of the command that may be pending at one time: a fifteenth of a user's total with 4 GiB of
 * memory. */
enum { WAITING_SIGNALS_LIMIT = 1024 };

/* Since Linux 6.12; older headers lack it. */
enum { LANDLOCK_SCOPE_OF_SIGNALS = 1 << 1 };

/* The right to move or link a file into another directory. Every domain refuses this unless it grants it, whether it
 * handles the right or not (landlock(7)). */
enum { LANDLOCK_RIGHT_TO_REFER = 1 << 13 };

/* Returns a descriptor to read the standard signals from. */
static int take_signals(void) {
    sigset_t standard;
    standard_signals(&standard);
    /* In this order: a blocked signal becomes pending even if it is ignored. */
    ignore_realtime_signals();
    sigprocmask(SIG_SETMASK, &standard, NULL);
    return signalfd(-1, &standard, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* Returns whether to forward a signal to the command, that is, whether it comes from elsewhere. In a pid namespace, a
 * sender outside has the pid 0. kill(2) and similar calls name the sender, and terminal signals come from the kernel.
 * sigqueue(3) lets its caller set the pid. A command that gets around this, by filling the queue, only signals itself,
 * which it can do anyway. */
static bool is_for_command(const struct signalfd_siginfo *arrived) {
    bool names_sender = arrived->ssi_code == SI_USER || arrived->ssi_code == SI_TKILL;
    return getpid() != 1 || arrived->ssi_code == SI_KERNEL || (names_sender && arrived->ssi_pid == 0);
}

/* Keeps the command from signalling this process and bubblewrap, if the kernel can. The command enters a nested
 * Landlock domain, and reaches only the processes that it starts itself. The command calls this before it is executed. */
static void stay_below(void) {
    struct landlock_ruleset scope = {.handled_fs = LANDLOCK_RIGHT_TO_REFER, .scoped = LANDLOCK_SCOPE_OF_SIGNALS};
    int ruleset = (int)syscall(LANDLOCK_CREATE, &scope, sizeof scope, 0u);
    if (ruleset < 0)
        return;
    /* The enclosing domain restricts files. */
    struct landlock_rule everywhere = {.rights = LANDLOCK_RIGHT_TO_REFER, .parent = open("/", O_PATH | O_CLOEXEC)};
    if (everywhere.parent < 0 || syscall(LANDLOCK_ADD_RULE, ruleset, RULE_PATH_BENEATH, &everywhere, 0u) < 0 ||
        syscall(LANDLOCK_RESTRICT, ruleset, 0u) < 0)
        refuse("Landlock", "");
    close(everywhere.parent);
    close(ruleset);
}

/* Limits the command, so that it can't use up what the user's other programs need. */
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
