/*
 * Numbers (native/number.h), /proc/PID/stat (native/descendants.h), the status of a task (native/suspension.h), paths
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
#include "suspension.h"
#include "text.h"
#include "without_links.h"

const char *const dictionary[] = {"1 (sh) S 1 ", "(", ")", ") S ", "18446744073709551615", "18446744073709551616", "4194304",
                                  "ffffffffffffffff", "/", "//", "..",
                                  "22 1 8:1 / / rw", " shared:1", " master:2", " unbindable", " - ext4 /dev/a rw", "\n",
                                  "\033]0;", "\xc2\x9b", "\xe2\x80\xae", "\xf0\x9f\x98\x80", "\xf3\xa0\x81\xbf", "\xed\xa0\x80",
                                  "State:\tT", "State:\tR", "\nvoluntary_ctxt_switches:\t", "\nnonvoluntary_ctxt_switches:\t", NULL};

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

static void try_task(char *text) {
    struct tasks tasks = {0}, other = {0};
    add_task(2, text, &tasks);
    add_task(3, text, &other);
    const char *label = strncmp(text, "State:\t", 7) == 0 ? text - 1 : strstr(text, "\nState:\t");
    char state = label ? label[8] : '\0';
    check(tasks.count == 1, "a task counts once");
    check(state && strchr("TtDZX", state) ? !tasks.is_running || !(tasks.print || tasks.work) : tasks.is_running,
          "what is not stopped runs, and so does what can't be compared");
    check(tasks.is_waiting == (state == 'D'), "the kernel works for what waits for it");
    check(!(tasks.print || tasks.work) || tasks.print != other.print || tasks.work != other.work, "one task can't stand in for another");
    if (tasks.is_waiting) {
        struct tasks all = {0};
        add_process(&tasks, &all);
        check(all.is_running == (tasks.is_running || !tasks.is_told), "a task that is not to stop runs");
    }
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
    walk_without_links(text);
    try_name(text);
    try_table(text, left_of(&input));
}
