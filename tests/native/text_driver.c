/*
 * Numbers (native/number.h), /proc/PID/stat (native/descendants.h), the status and the timers of a task (native/suspended_task.h), paths
 * (native/without_links.h), the table of mounts (native/isolation.h) and names in messages (native/text.h). Input: which base a number is in and how an open ends, and text.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "harness.h"

static int fake_openat(int directory, const char *name);
static ssize_t fake_read(char *to, size_t size);
#define openat(directory, name, flags) fake_openat(directory, name)
#define open(path, ...) 2
#define close(fd) ((void)(fd))
#define read(fd, to, size) ((void)(fd), fake_read(to, size))

#include "descendants.h"
#include "isolation.h"
#include "number.h"
#include "suspended_task.h"
#include "text.h"
#include "without_links.h"

const char *const dictionary[] = {"1 (sh) S 1 ", "(", ")", ") S ", "18446744073709551615", "18446744073709551616", "4194304",
                                  "ffffffffffffffff", "/", "//", "..",
                                  "22 1 8:1 / / rw", " shared:1", " master:2", " unbindable", " - ext4 /dev/a rw", "\n",
                                  "\033]0;", "\xc2\x9b", "\xe2\x80\xae", "\xf0\x9f\x98\x80", "\xf3\xa0\x81\xbf", "\xed\xa0\x80",
                                  "State:\tT", "State:\tR", "\nvoluntary_ctxt_switches:\t", "\nnonvoluntary_ctxt_switches:\t",
                                  "State:\tD", "\nSigPnd:\t0000000000040000", "\nShdPnd:\t0000000000040000", "\nVmSize:\t",
                                  "signal: 18/", "\nsignal: 9/", "\nnotify: signal/pid.2", "\nnotify: none/pid.2", NULL};

static size_t names_left;

static int fake_openat(int directory, const char *name) {
    check(directory >= 0 && *name && strlen(name) <= NAME_MAX && !strchr(name, '/'), "one name is opened after the other");
    if (names_left-- == 0) {
        errno = ELOOP;
        return -1;
    }
    return 3;
}

static struct input table;

/* A piece at a time, of a length that the input says. */
static ssize_t fake_read(char *to, size_t size) {
    size_t piece = names_left % 64 + 1;
    piece = piece < size ? piece : size;
    piece = piece < left_of(&table) ? piece : left_of(&table);
    memcpy(to, table.at, piece);
    table.at += piece;
    return (ssize_t)piece;
}

/* Word for word, as proc_pid_mountinfo(5) describes a line. */
static bool has_shared_line(char *text) {
    for (char *rest_of_text, *line = strtok_r(text, "\n", &rest_of_text); line; line = strtok_r(NULL, "\n", &rest_of_text)) {
        int spaces = 0;
        for (char *at = line; *at; at++) {
            spaces += *at == ' ';
            if (*at != ' ' || spaces < FIRST_TAG)
                continue;
            if (at[1] == '-')
                break;
            if (at[1] == 's' || at[1] == 'm')
                return true;
        }
    }
    return false;
}

static void try_table(char *text, size_t size) {
    table = (struct input){(uint8_t *)text, (uint8_t *)text + strnlen(text, size)};
    bool is_shared = has_receiver(3);
    check(is_shared == has_shared_line(text), "a mount that receives others is found, and no other");
}

static void try_number(char *text, unsigned base) {
    char *rest = text, room[NUMBER_BYTES];
    uint64_t value;
    size_t digits = strspn(text, base == 16 ? "0123456789abcdef" : "0123456789");
    bool is_read = read_number(&rest, base, &value);
    char *alone = room_of(digits + 1, 1);
    memcpy(alone, text, digits);
    errno = 0;
    unsigned long long expected = strtoull(alone, NULL, (int)base);
    if (digits == 0)
        check(!is_read, "what has no digits is no number");
    else if (errno == ERANGE)
        check(!is_read, "a number that is too large is none");
    else
        check(is_read && value == expected && rest == text + digits, "a number is read as the library reads it");
    if (!is_read)
        return;
    char *written = number_text(room, value, base, 1);
    check(written >= room && strtoull(written, NULL, (int)base) == value, "a number is written as it is read");
}

static void try_name(const char *name) {
    for (const char *next; *name; name = next) {
        char *room = room_of(PRINTABLE_BYTES, 1);
        struct text text = {.room = room};
        next = put_printable(&text, name);
        check(next > name && next <= name + strlen(name), "one character is taken after the other");
        check(text.size > 0 && text.size <= PRINTABLE_BYTES, "a character has room");
        size_t length = (size_t)(next - name);
        if (text.size == length && memcmp(room, name, length) == 0) {
            check(length == 1 ? *name >= ' ' && *name <= '~' : utf8_length((const unsigned char *)name) == length,
                  "what is shown as it is can be shown");
            check(length != 2 || name[0] != '\xc2' || (unsigned char)name[1] > 0xa0, "a control of 8 bits is not shown");
        } else {
            check(*room == '\\', "anything else is escaped");
            for (size_t i = 0; i < text.size; i++)
                check(room[i] >= ' ' && room[i] <= '~', "an escape is plain text");
        }
    }
}

/* Everything is stopped by now. `before` is what the same text has told before that. */
static void try_settled_task(char *text, const struct tasks *before, char state) {
    struct tasks one = {0}, other = {0};
    working.is_settled = true;
    working.count = 1;
    working.tids[0] = 2;
    add_task(2, text, &one);
    add_task(3, text, &other);
    check(!one.print && (!one.arrived || strchr("Tt", state)), "a task that the kernel worked for does not count among the others");
    check(!one.arrived || one.arrived == before->print, "it does so when it has stopped");
    check(working.count == (one.arrived || (strchr("Tt", state) && !one.is_running) ? 0 : 1), "it is one of the others then");
    check(strchr("TtDZX", state) || one.is_waiting || one.is_running, "it may go on for the kernel alone");
    check(strchr("TtDZX", state) || other.is_running, "another may not");
    check(!other.arrived && !other.is_waiting && !other.work, "the kernel works for no other");
}

static void try_task(char *text) {
    struct tasks tasks = {0}, other = {0};
    working.is_settled = false;
    working.count = 0;
    bool is_told = add_task(2, text, &tasks);
    add_task(3, text, &other);
    const char *label = strncmp(text, "State:\t", 7) == 0 ? text - 1 : strstr(text, "\nState:\t");
    char state = label && label[8] ? label[8] : '?';
    check(tasks.count == 1, "a task counts once");
    check(strchr("TtDZX", state) ? is_told || tasks.is_running : tasks.is_running, "what is neither stopped nor told to runs");
    check(state != 'D' || tasks.is_running || strstr(text, "Pnd:\t") || !strstr(text, "\nVmSize:\t"), "what was not told to stop runs");
    check(tasks.is_running || strchr("ZX", state) || tasks.print || tasks.work, "what can't be compared runs");
    check(!(tasks.print || tasks.work) || tasks.print != other.print || tasks.work != other.work, "one task can't stand in for another");
    check(working.count == (tasks.is_waiting ? 2 : 0), "the kernel works for what waits for it");
    try_settled_task(text, &tasks, state);
}

/* Word for word, as proc_pid_timers(5) describes a timer. */
static bool has_such_timer(char *text) {
    bool is_such = false;
    for (char *rest, *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        if (strncmp(line, "signal: ", 8) == 0) {
            errno = 0;
            unsigned long long number = strtoull(line + 8, NULL, 10);
            bool is_number = line[8] >= '0' && line[8] <= '9' && errno == 0;
            is_such = !is_number || number == SIGCONT || number == SIGKILL;
        } else if (strncmp(line, "notify: ", 8) == 0 && is_such && strncmp(line + 8, "none", 4) != 0) {
            return true;
        }
    }
    return false;
}

static void try_timers(char *text) {
    bool is_such = false;
    bool is_found = has_waking_timer(text, &is_such);
    check(is_found == has_such_timer(copy_of(text, strlen(text) + 1)), "a timer that acts on a stopped process is found, and no other");
}

void try_input(const uint8_t *data, size_t size) {
    struct input input = {data, data + size};
    unsigned base = take_byte(&input) & 1 ? 16 : 10;
    names_left = take_byte(&input);
    char *text = room_of(left_of(&input) + 1, 1);
    memcpy(text, input.at, left_of(&input));
    try_number(text, base);
    pid_t parent = parent_in(text);
    check(parent == -1 || (parent >= 0 && parent < PID_LIMIT), "a parent is a process");
    try_task(text);
    try_timers(text);
    walk_without_links(text);
    try_name(text);
    try_table(text, left_of(&input));
}
