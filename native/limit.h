/*
 * The limits of the command: set on itself alone, and whether it has reached that of processes.
 *
 * Privilege: none, for limits are only ever lowered.
 */
#ifndef PADDOCK_LIMIT_H
#define PADDOCK_LIMIT_H

#include <errno.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <unistd.h>

#include "task.h"

static void set_limit(int i) {
    int resource = limit_names[i].resource;
    struct rlimit now, wanted = {task.limits[i], task.limits[i]};
    if (!task.limits[i])
        return;
    /* The kernel counts this process too. */
    if (resource == RLIMIT_NPROC)
        wanted.rlim_cur = ++wanted.rlim_max;
    /* SIGXCPU at the limit, which says why; SIGKILL a second later for those that catch it. */
    if (resource == RLIMIT_CPU)
        wanted.rlim_max++;
    if (getrlimit(resource, &now) < 0)
        refuse("limit ", limit_names[i].word);
    /* A stricter one that is in force already stays, and can't be raised anyway. */
    if (wanted.rlim_max > now.rlim_max)
        wanted.rlim_max = now.rlim_max;
    if (wanted.rlim_cur > wanted.rlim_max)
        wanted.rlim_cur = wanted.rlim_max;
    if (setrlimit(resource, &wanted) < 0)
        refuse("limit ", limit_names[i].word);
}

/* Only for the command: a limit on this process might keep it from its work. */
static void limit_self(void) {
    for (int i = 0; i < LIMITS; i++)
        set_limit(i);
}

/* Whether there are as many processes as may be. The kernel keeps no record of those it has refused. */
static bool is_full(void) {
    bool is_limited = task.cgroup >= 0;
    for (int i = 0; i < LIMITS; i++) {
        if (limit_names[i].resource == RLIMIT_NPROC && task.limits[i]) {
            set_limit(i);
            is_limited = true;
        }
    }
    pid_t another = is_limited ? fork() : 0;
    if (is_limited && another == 0)
        _exit(0);
    return another < 0 && errno == EAGAIN;
}

#endif
