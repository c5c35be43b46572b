/*
 * Numbers (native/number.h), /proc/PID/stat (native/descendants.h) and paths (native/without_links.h). Input: which base a number
 * is in and how an open ends, and text.
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
#define openat(directory, name, flags) fake_openat(directory, name)
#define open(path, ...) 2
#define close(fd) ((void)(fd))

#include "descendants.h"
#include "number.h"
#include "without_links.h"

const char *const dictionary[] = {"1 (sh) S 1 ", "(", ")", ") S ", "18446744073709551615", "18446744073709551616", "4194304",
                                  "ffffffffffffffff", "/", "//", "..", NULL};

static size_t names_left;

static int fake_openat(int directory, const char *name) {
    check(directory >= 0 && *name && strlen(name) <= NAME_MAX && !strchr(name, '/'), "one name is opened after the other");
    if (names_left-- == 0) {
        errno = ELOOP;
        return -1;
    }
    return 3;
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

void try_input(const uint8_t *data, size_t size) {
    struct input input = {data, data + size};
    unsigned base = take_byte(&input) & 1 ? 16 : 10;
    names_left = take_byte(&input);
    char *text = room_of(left_of(&input) + 1, 1);
    memcpy(text, input.at, left_of(&input));
    try_number(text, base);
    pid_t parent = parent_in(text);
    check(parent == -1 || (parent >= 0 && parent < PID_LIMIT), "a parent is a process");
    walk_without_links(text);
}
