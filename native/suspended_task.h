/*
 * What /proc tells about the tasks of a sandbox that is to be stopped (suspension.h).
 *
 * Each task has a print, made of its number and of how often it has given up the processor. The kernel stops a task for
 * which it works, for example one that waits for a disk, only before the task's next instruction. So these are kept
 * apart until they have stopped: their prints may change once everything else is stopped, and no others.
 *
 * Privilege: none; it reads text.
 */
#ifndef PADDOCK_SUSPENDED_TASK_H
#define PADDOCK_SUSPENDED_TASK_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "number.h"

/* Tasks for which the kernel may work at one time. One more counts as running. */
enum { WORKING_LIMIT = 1 << 14 };

/* What one look at all tasks finds. */
struct tasks {
    unsigned count;
    uint64_t print;   /* all prints of tasks that are stopped */
    uint64_t arrived; /* the same of those that have stopped since the last look, when the kernel had worked for them */
    uint64_t work;    /* the same of those for which the kernel works, before everything else is stopped */
    bool is_waiting;  /* there is one of the latter */
    bool is_running;  /* one runs, or can't be compared, or will make an instruction before it stops */
    bool has_timer;   /* one will be continued or killed by a timer of its own */
};

static struct {
    uint64_t key;    /* unknown to the command, which can choose when a task gives up the processor */
    bool is_settled; /* everything is stopped, except for those below */
    unsigned count;
    uint32_t tids[WORKING_LIMIT];
} working;

/* Spreads a number over all bits (the last steps of SplitMix64). */
static uint64_t mixed(uint64_t value) {
    value = (value ^ value >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    value = (value ^ value >> 27) * UINT64_C(0x94d049bb133111eb);
    return value ^ value >> 31;
}

static bool begins(const char *text, const char *label) {
    return strncmp(text, label, strlen(label)) == 0;
}

/* Returns what follows a label at the beginning of a line, or NULL. */
static char *labelled(char *text, const char *label) {
    while (!begins(text, label)) {
        text = strchr(text, '\n');
        if (!text)
            return NULL;
        text++;
    }
    return text + strlen(label);
}

/* Returns whether a line of the status has one of these signals among the pending ones. */
static bool has_pending(char *text, const char *label, uint64_t wanted) {
    char *set = labelled(text, label);
    uint64_t signals;
    return set && read_number(&set, 16, &signals) && signals & wanted;
}

/* Returns whether a task for which the kernel works will not make another instruction of its own. It must have the
 * signal for itself: while another task of its process may still take it, a signal that ends the process wakes this one
 * (complete_signal in the kernel), and its end can continue others (PR_SET_PDEATHSIG). */
static bool is_told(char *text) {
    uint64_t stop = 1u << (SIGSTOP - 1), end = 1u << (SIGKILL - 1);
    /* One that is ending has no memory any more. */
    return has_pending(text, "SigPnd:\t", stop | end) || has_pending(text, "ShdPnd:\t", end) || !labelled(text, "VmSize:\t");
}

/* Returns the place of a task among those for which the kernel worked when everything else had stopped, or NULL. */
static uint32_t *place_of(uint64_t tid) {
    for (unsigned i = 0; i < working.count; i++)
        if (working.tids[i] == tid)
            return working.tids + i;
    return NULL;
}

/* Adds a task that has not stopped by the text of its status. */
static bool add_working(uint64_t tid, uint64_t print, char *text, struct tasks *tasks) {
    tasks->is_waiting = true;
    tasks->work += print;
    if (!working.is_settled && working.count < WORKING_LIMIT)
        working.tids[working.count++] = (uint32_t)tid;
    else if (!working.is_settled)
        tasks->is_running = true;
    if (is_told(text))
        return true;
    tasks->is_running = true;
    return false;
}

/* Adds a task by its number and the text of /proc/PID/task/TID/status, which may be cut off anywhere. Returns false if
 * it must be told to stop. */
static bool add_task(uint64_t tid, char *text, struct tasks *tasks) {
    const char *state = labelled(text, "State:\t");
    char *yielded = labelled(text, "voluntary_ctxt_switches:\t"), *taken = labelled(text, "nonvoluntary_ctxt_switches:\t");
    uint64_t yields, takings;
    tasks->count++;
    char kind = state ? *state : '\0';
    if (kind == 'Z' || kind == 'X')
        return true;
    if (!yielded || !taken || !read_number(&yielded, 10, &yields) || !read_number(&taken, 10, &takings)) {
        tasks->is_running = true;
        return true;
    }
    uint64_t print = mixed(mixed(working.key ^ tid) ^ (yields + takings));
    bool is_stopped = kind == 'T' || kind == 't';
    uint32_t *place = working.is_settled ? place_of(tid) : NULL;
    if (place && is_stopped) {
        *place = working.tids[--working.count];
        tasks->arrived += print;
    } else if (place || (kind == 'D' && !working.is_settled)) {
        return add_working(tid, print, text, tasks);
    } else if (is_stopped || kind == 'D') {
        /* A stopped task looks as if the kernel worked for it while the machine goes to sleep (TASK_FROZEN). */
        tasks->print += print;
    } else {
        tasks->is_running = true;
    }
    return true;
}

/* Reads whole lines of /proc/PID/timers, and returns whether one of these timers sends a signal that acts on a stopped
 * process. `is_such` is about the timer whose lines may go on in the next text. */
static bool has_waking_timer(char *text, bool *is_such) {
    for (char *line = text; *line;) {
        char *end = strchr(line, '\n');
        if (begins(line, "signal: ")) {
            char *number = line + strlen("signal: ");
            uint64_t signo;
            *is_such = !read_number(&number, 10, &signo) || signo == SIGCONT || signo == SIGKILL;
        } else if (*is_such && begins(line, "notify: ") && !begins(line, "notify: none")) {
            return true;
        }
        if (!end)
            break;
        line = end + 1;
    }
    return false;
}

#endif
