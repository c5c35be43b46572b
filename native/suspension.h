/*
 * Stops everything in a sandbox while its launcher is stopped, as a shell stops a job, and lets it go on afterwards.
 *
 * A command in a session of its own may read a terminal that it has as a standard stream, although a shell is in the
 * foreground there by now: the kernel stops only those who read the terminal of their own session. What somebody types
 * then is meant for the shell. So the launcher asks for this before it stops.
 *
 * A process can arrange to be continued, for example by a timer that sends SIGCONT, and can stop again before anybody
 * looks. It can also end, or have the kernel work for it, whenever somebody looks. So this process compares which tasks
 * there are, and how often each has given up the processor. If that changes, the command ends.
 *
 * Privilege: none. In a pid namespace only, where a signal to everybody reaches no other process.
 */
#ifndef PADDOCK_SUSPENSION_H
#define PADDOCK_SUSPENSION_H

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "number.h"
#include "task.h"

/* On a busy machine a process may get the processor, and so notice that it is stopped, only after a while: five seconds
 * in all. Without /proc, this process can't see that, and waits for a fifth of a second. */
enum { SETTLING_MS = 5, SETTLING_LOOKS = 1000, BLIND_LOOKS = 40 };

/* The kernel stops a task for which it works, for example one that waits for a disk, before its next instruction. A
 * shell waits for that, however long it takes, and so does this process. But such work can also wait for what is
 * stopped (vfork(2)), or for something that is very slow: it changes nothing then for a third of a second. */
enum { QUIET_LOOKS = 60 };

/* While everything is stopped. */
enum { STOPPED_LOOK_MS = 100 };

/* Looks that may find something changed. Older kernels run stopped tasks for a moment when the machine sleeps, and
 * somebody outside may kill a task. */
enum { FORGIVEN_LOOKS = 2 };

/* The same for looks that find a change in tasks for which the kernel works. It may go on after a pause. */
enum { FORGIVEN_WORKING_LOOKS = 50 };

/* Room for the status of a task, whose user may be in thousands of groups. */
enum { STATUS_BYTES = 1 << 16 };

struct tasks {
    unsigned count;
    uint64_t print;  /* tells which are stopped, and how often each has given up the processor */
    uint64_t work;   /* the same of those for which the kernel works */
    bool is_waiting; /* there is one of the latter */
    bool is_told;    /* one has stopped, or will stop or end before its next instruction */
    bool is_running; /* one is neither stopped nor waiting */
};

static struct {
    bool is_on;
    bool is_settled; /* everything was stopped */
    unsigned looks;  /* before that, which found that something ran */
    unsigned quiet;  /* the last looks before that, which found nothing changed */
    unsigned ran;    /* looks after that which found something changed */
    unsigned worked; /* looks after that which found a change in what the kernel does */
    uint64_t key;    /* unknown to the command, which can choose when a task gives up the processor */
    struct tasks tasks;
} suspension;

/* Spreads a number over all bits (the last steps of SplitMix64). */
static uint64_t mixed(uint64_t value) {
    value = (value ^ value >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    value = (value ^ value >> 27) * UINT64_C(0x94d049bb133111eb);
    return value ^ value >> 31;
}

/* Returns what follows a label at the beginning of a line, or NULL. */
static char *labelled(char *text, const char *label) {
    size_t length = strlen(label);
    while (strncmp(text, label, length) != 0) {
        text = strchr(text, '\n');
        if (!text)
            return NULL;
        text++;
    }
    return text + length;
}

/* Returns whether a line of the status has a signal among the pending ones that stops or ends a task. */
static bool awaits_end(char *text, const char *label) {
    char *set = labelled(text, label);
    uint64_t signals;
    return set && read_number(&set, 16, &signals) && signals & (1u << (SIGSTOP - 1) | 1u << (SIGKILL - 1));
}

/* Returns whether a task for which the kernel works will not make another instruction of its own. */
static bool is_told(char *text) {
    /* One that is ending has no memory any more. */
    return awaits_end(text, "SigPnd:\t") || awaits_end(text, "ShdPnd:\t") || !labelled(text, "VmSize:\t");
}

/* Adds a task by its number and the text of /proc/PID/task/TID/status, which may be cut off anywhere. */
static void add_task(uint64_t tid, char *text, struct tasks *tasks) {
    const char *state = labelled(text, "State:\t");
    char *yielded = labelled(text, "voluntary_ctxt_switches:\t"), *taken = labelled(text, "nonvoluntary_ctxt_switches:\t");
    uint64_t yields, takings;
    tasks->count++;
    if (!state)
        state = "";
    switch (*state) {
    case 'T':
    case 't':
        tasks->is_told = true;
        break;
    case 'D':
        tasks->is_waiting = true;
        tasks->is_told = tasks->is_told || is_told(text);
        break;
    case 'Z':
    case 'X':
        return;
    default:
        tasks->is_running = true;
    }
    if (yielded && taken && read_number(&yielded, 10, &yields) && read_number(&taken, 10, &takings))
        *(*state == 'D' ? &tasks->work : &tasks->print) += mixed(mixed(suspension.key ^ tid) ^ (yields + takings));
    else
        tasks->is_running = true;
}

/* Adds the tasks of a process. One of them takes the signal, and stops them all. Where none has, somebody has taken the
 * signal back. */
static void add_process(const struct tasks *process, struct tasks *tasks) {
    tasks->count += process->count;
    tasks->print += process->print;
    tasks->work += process->work;
    tasks->is_waiting = tasks->is_waiting || process->is_waiting;
    tasks->is_running = tasks->is_running || process->is_running || (process->is_waiting && !process->is_told);
}

/* Adds everything that a directory lists under a number, except this process. In /proc, these are processes, and
 * `inside` is the directory of the tasks of each; there, `inside` is NULL. */
static void add_listed(const char *path, const char *inside, struct tasks *tasks) {
    static char text[STATUS_BYTES];
    char entries[4096] __attribute__((aligned(8))), name[sizeof "/proc//task//status" + 2 * NUMBER_BYTES];
    long n;
    int directory = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory < 0)
        return;
    while ((n = syscall(SYS_getdents64, directory, entries, sizeof entries)) > 0) {
        struct dirent *entry;
        for (char *at = entries; at < entries + n; at += entry->d_reclen) {
            entry = (struct dirent *)at;
            char *digits = entry->d_name;
            uint64_t number;
            if (!read_number(&digits, 10, &number) || *digits || number == 1)
                continue;
            stpcpy(stpcpy(stpcpy(stpcpy(name, path), "/"), entry->d_name), inside ? inside : "/status");
            if (inside) {
                struct tasks process = {0};
                add_listed(name, NULL, &process);
                add_process(&process, tasks);
                continue;
            }
            int file = open(name, O_RDONLY | O_CLOEXEC);
            ssize_t length = file < 0 ? -1 : read(file, text, sizeof text - 1);
            if (file >= 0)
                close(file);
            /* It may have ended by now. */
            if (length <= 0)
                continue;
            text[length] = '\0';
            add_task(number, text, tasks);
        }
    }
    close(directory);
}

/* The kernel lets no process that is being made escape a signal to everybody (copy_process). */
static void suspend(void) {
    memset(&suspension, 0, sizeof suspension);
    suspension.is_on = true;
    if (syscall(SYS_getrandom, &suspension.key, sizeof suspension.key, GRND_NONBLOCK) < 0) {
        /* The machine has just started. A command has no time then to calculate two states that look the same. */
    }
    kill(-1, SIGSTOP);
}

static void resume(void) {
    suspension.is_on = false;
    kill(-1, SIGCONT);
}

/* Looks at all tasks, and reports once that all of them are stopped. Returns false if something keeps running. */
static bool keeps_still(void) {
    struct tasks now = {0}, before = suspension.tasks;
    add_listed("/proc", "/task", &now);
    suspension.tasks = now;
    bool has_worked = now.work != before.work, has_changed = has_worked || now.print != before.print;
    if (suspension.is_settled) {
        if (now.is_running || (has_changed && !has_worked))
            suspension.ran++;
        else if (has_worked)
            suspension.worked++;
        return suspension.ran <= FORGIVEN_LOOKS && suspension.worked <= FORGIVEN_WORKING_LOOKS;
    }
    suspension.looks += now.is_running || !now.count;
    suspension.quiet = has_changed ? 0 : suspension.quiet + 1;
    if (now.count)
        suspension.is_settled = !now.is_running && (!now.is_waiting || suspension.quiet >= QUIET_LOOKS);
    else
        suspension.is_settled = suspension.looks > BLIND_LOOKS;
    if (suspension.is_settled)
        report(&(struct report){.kind = REPORT_SUSPENDED});
    return suspension.is_settled || suspension.looks < SETTLING_LOOKS;
}

static int next_look_ms(void) {
    return suspension.is_settled && !suspension.tasks.is_running ? STOPPED_LOOK_MS : SETTLING_MS;
}

#endif
