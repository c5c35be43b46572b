/*
 * Stops everything in a sandbox while its launcher is stopped, as a shell stops a job, and lets it go on afterwards.
 *
 * A command in a session of its own may read a terminal that it has as a standard stream, although a shell is in the
 * foreground there by now: the kernel stops only those who read the terminal of their own session. What somebody types
 * then is meant for the shell. So the launcher asks for this before it stops.
 *
 * Only SIGCONT and SIGKILL act on a stopped process; one that is killed can continue its parent or its child. When
 * nothing runs, nobody but a timer can send them: the filter keeps terminals and sockets from it (F_SETSIG). So a command
 * with such a timer ends. Kernels without CONFIG_CHECKPOINT_RESTORE don't show timers. A process can then continue
 * itself, and stop or end before anybody looks. So this process also compares which tasks there are, and how often each
 * has given up the processor. If that changes, the command ends.
 *
 * Privilege: none. In a pid namespace only, where a signal to everybody reaches no other process.
 */
#ifndef PADDOCK_SUSPENSION_H
#define PADDOCK_SUSPENSION_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "number.h"
#include "suspended_task.h"
#include "task.h"

/* On a busy machine a process may get the processor, and so notice that it is stopped, only after a while: five seconds
 * in all. Without /proc, this process can't see that, and waits for a fifth of a second. */
enum { SETTLING_MS = 5, SETTLING_LOOKS = 1000, BLIND_LOOKS = 40 };

/* Looks in a row that must find the same. One task can continue another, which this process has seen already. */
enum { STILL_LOOKS = 1 };

/* The same if the kernel works for a task. A shell waits for such work, however long it takes, and so does this process.
 * But it can also wait for what is stopped (vfork(2)), or for something that is very slow: it changes nothing then for a
 * third of a second. */
enum { QUIET_LOOKS = 60 };

/* While everything is stopped. */
enum { STOPPED_LOOK_MS = 100 };

/* This process takes at most this share of a processor (1/x) while everything is stopped, and the other one before. */
enum { STOPPED_SHARE = 20, SETTLING_SHARE = 2 };

/* The launcher and the clock get their turn after so many tasks, which take half a millisecond. */
enum { TASKS_IN_A_TURN = 64 };

/* Looks that may find something changed where the kernel shows timers: it was somebody outside, who killed or traced a
 * task. */
enum { FORGIVEN_LOOKS = 2 };

/* Room for the status of a task, whose user may be in thousands of groups, and for several timers. */
enum { STATUS_BYTES = 1 << 16 };

enum { MS_NS = 1000000 };

static struct {
    bool is_on;
    bool shows_timers;
    unsigned looks;  /* before everything was stopped, which found that something ran */
    unsigned quiet;  /* the last looks before that, which found nothing changed */
    unsigned ran;    /* looks after that which found something changed */
    int64_t next_ns; /* when to look again */
    struct tasks tasks;
} suspension;

/* A directory that is being read. */
struct listing {
    int directory; /* -1 at its end */
    long size, at;
    char entries[4096] __attribute__((aligned(8)));
};

/* A look at all tasks, which takes several turns if there are many. */
static struct {
    bool is_under_way;
    int64_t cost_ns;
    uint64_t process;
    struct listing processes, tasks;
    struct tasks found;
} look;

static int64_t clock_ns(int clock) {
    struct timespec now = {0};
    syscall(SYS_clock_gettime, clock, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/* ---- One look ---- */

/* Opens a file of /proc, and returns -1 if it can't. What can't be seen runs, except if it has ended. */
static int opened(const char *path, int flags) {
    int fd = open(path, flags | O_RDONLY | O_CLOEXEC);
    if (fd < 0 && errno != ENOENT && errno != ESRCH)
        look.found.is_running = true;
    return fd;
}

static void open_listing(struct listing *listing, const char *path) {
    listing->directory = opened(path, O_DIRECTORY);
    listing->size = listing->at = 0;
}

static void close_listing(struct listing *listing) {
    if (listing->directory >= 0)
        close(listing->directory);
    listing->directory = -1;
}

/* Returns the next number that a directory lists, except that of this process, or 0 at the end. */
static uint64_t next_number(struct listing *listing) {
    while (listing->directory >= 0) {
        if (listing->at >= listing->size) {
            listing->size = syscall(SYS_getdents64, listing->directory, listing->entries, sizeof listing->entries);
            listing->at = 0;
            if (listing->size <= 0)
                close_listing(listing);
            continue;
        }
        struct dirent *entry = (struct dirent *)(listing->entries + listing->at);
        char *digits = entry->d_name;
        uint64_t number;
        listing->at += entry->d_reclen;
        if (read_number(&digits, 10, &number) && !*digits && number != 1)
            return number;
    }
    return 0;
}

static char status_text[STATUS_BYTES];

/* Writes "/proc/PROCESS" and what follows. */
static char *put_path(char *name, uint64_t process, const char *rest) {
    char digits[NUMBER_BYTES];
    return stpcpy(stpcpy(stpcpy(name, "/proc/"), number_text(digits, process, 10, 1)), rest);
}

static void look_at_task(uint64_t tid) {
    char name[sizeof "/proc//task//status" + 2 * NUMBER_BYTES], digits[NUMBER_BYTES];
    stpcpy(stpcpy(put_path(name, look.process, "/task/"), number_text(digits, tid, 10, 1)), "/status");
    int file = opened(name, 0);
    if (file < 0)
        return;
    ssize_t length = read(file, status_text, sizeof status_text - 1);
    close(file);
    /* It may have ended by now. */
    if (length <= 0)
        return;
    status_text[length] = '\0';
    if (!add_task(tid, status_text, &look.found))
        syscall(SYS_tgkill, (pid_t)look.process, (pid_t)tid, SIGSTOP);
}

/* A process has a thousand timers at most (limit_waiting_signals). */
static void look_at_timers(void) {
    char name[sizeof "/proc//timers" + NUMBER_BYTES];
    ssize_t length;
    off_t offset = 0;
    bool is_such = false;
    put_path(name, look.process, "/timers");
    int file = opened(name, 0);
    if (file < 0)
        return;
    while ((length = pread(file, status_text, sizeof status_text - 1, offset)) > 0) {
        status_text[length] = '\0';
        /* The last line may go on in the next text. */
        char *end = strrchr(status_text, '\n');
        if (!end)
            break;
        end[1] = '\0';
        offset += end + 1 - status_text;
        look.found.has_timer = look.found.has_timer || has_waking_timer(status_text, &is_such);
    }
    close(file);
}

/* Looks at the next tasks. Returns whether these were the last. A process that is stopped makes no more timers. */
static bool goes_to_the_end(void) {
    char name[sizeof "/proc//task" + NUMBER_BYTES];
    for (int i = 0; i < TASKS_IN_A_TURN; i++) {
        uint64_t tid = next_number(&look.tasks);
        if (tid) {
            look_at_task(tid);
            continue;
        }
        if (look.process && suspension.shows_timers && !working.is_settled)
            look_at_timers();
        look.process = next_number(&look.processes);
        if (!look.process)
            return true;
        put_path(name, look.process, "/task");
        open_listing(&look.tasks, name);
    }
    return false;
}

static void begin_look(void) {
    look.is_under_way = true;
    look.cost_ns = 0;
    look.process = 0;
    look.found = (struct tasks){0};
    look.tasks.directory = -1;
    open_listing(&look.processes, "/proc");
    if (!working.is_settled)
        working.count = 0;
}

static void end_look(void) {
    if (look.is_under_way) {
        close_listing(&look.tasks);
        close_listing(&look.processes);
    }
    look.is_under_way = false;
}

/* ---- The suspension ---- */

/* Returns whether the kernel shows the timers of processes, such as this one. */
static bool shows_timers(void) {
    int file = open("/proc/1/timers", O_RDONLY | O_CLOEXEC);
    if (file >= 0)
        close(file);
    return file >= 0;
}

/* The kernel lets no process that is being made escape a signal to everybody (copy_process). */
static void suspend(void) {
    end_look();
    memset(&suspension, 0, sizeof suspension);
    suspension.is_on = true;
    suspension.shows_timers = shows_timers();
    working.is_settled = false;
    if (syscall(SYS_getrandom, &working.key, sizeof working.key, GRND_NONBLOCK) < 0) {
        /* The machine has just started. A command has no time then to calculate two states that look the same. */
    }
    kill(-1, SIGSTOP);
}

static void resume(void) {
    end_look();
    suspension.is_on = false;
    kill(-1, SIGCONT);
}

/* Judges a look before everything was stopped. Returns whether to wait on. */
static bool may_settle(const struct tasks *now) {
    bool is_same = now->print == suspension.tasks.print && now->work == suspension.tasks.work;
    suspension.quiet = is_same ? suspension.quiet + 1 : 0;
    suspension.looks += now->is_running || !now->count;
    if (now->count)
        working.is_settled = !now->is_running && suspension.quiet >= (now->is_waiting ? QUIET_LOOKS : STILL_LOOKS);
    else
        working.is_settled = suspension.looks > BLIND_LOOKS;
    /* A process that was about to continue another may have done so after the first signal. */
    if (now->is_running)
        kill(-1, SIGSTOP);
    if (working.is_settled)
        report(&(struct report){.kind = REPORT_SUSPENDED});
    return working.is_settled || suspension.looks < SETTLING_LOOKS;
}

/* Judges a look after that. Returns whether everything has stayed as it was. */
static bool has_stayed(const struct tasks *now) {
    suspension.ran += now->is_running || now->print != suspension.tasks.print + suspension.tasks.arrived;
    return suspension.ran <= (suspension.shows_timers ? FORGIVEN_LOOKS : 0);
}

/* Looks at some tasks if it is time to, and reports once that all of them are stopped. Returns false if something keeps
 * running, or will run. */
static bool keeps_still(void) {
    if (!look.is_under_way && clock_ns(CLOCK_MONOTONIC) < suspension.next_ns)
        return true;
    if (!look.is_under_way)
        begin_look();
    int64_t begin_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    bool is_complete = goes_to_the_end();
    look.cost_ns += clock_ns(CLOCK_PROCESS_CPUTIME_ID) - begin_ns;
    if (!is_complete)
        return true;
    end_look();
    bool is_good = !look.found.has_timer && (working.is_settled ? has_stayed(&look.found) : may_settle(&look.found));
    suspension.tasks = look.found;
    int64_t least_ns = (int64_t)MS_NS * (working.is_settled ? STOPPED_LOOK_MS : SETTLING_MS);
    int64_t pause_ns = look.cost_ns * ((working.is_settled ? STOPPED_SHARE : SETTLING_SHARE) - 1);
    suspension.next_ns = clock_ns(CLOCK_MONOTONIC) + (pause_ns > least_ns ? pause_ns : least_ns);
    return is_good;
}

/* Returns why the command ends when it does not keep still. */
static const char *unrest(void) {
    return suspension.tasks.has_timer ? "a timer of it would let it go on while it is stopped" : "it went on while it was stopped";
}

/* Returns how long nothing needs to be done, rounded up. */
static int next_look_ms(void) {
    int64_t left_ns = look.is_under_way ? 0 : suspension.next_ns - clock_ns(CLOCK_MONOTONIC);
    return left_ns > 0 ? (int)(left_ns / MS_NS) + 1 : 0;
}

#endif
