/*
 * The strings of a program without a C library (native/bare_string.h), held against those of the library. Input: a number, a character,
 * and two strings, of which the first is ended by NUL.
 */
#define _GNU_SOURCE
#include <string.h>

#include "harness.h"

/* Under names of their own: the compiler and the sanitizers know what functions of the library do. */
#define memcpy bare_memcpy
#define memset bare_memset
#define mempcpy bare_mempcpy
#define memcmp bare_memcmp
#define strlen bare_strlen
#define stpcpy bare_stpcpy
#define strncmp bare_strncmp
#define strcmp bare_strcmp
#define strchrnul bare_strchrnul
#define strchr bare_strchr
#define strrchr bare_strrchr
#define strspn bare_strspn
#define strcspn bare_strcspn

#include "bare_string.h"

#undef memcpy
#undef memset
#undef mempcpy
#undef memcmp
#undef strlen
#undef stpcpy
#undef strncmp
#undef strcmp
#undef strchrnul
#undef strchr
#undef strrchr
#undef strspn
#undef strcspn

const char *const dictionary[] = {"PATH=", "PATH", "/", "//", ":", "\xff", "\x80", "aaaaaaaa", NULL};

static int sign(int number) {
    return (number > 0) - (number < 0);
}

static void compare(const char *one, const char *other, size_t count, char c) {
    size_t length = strlen(one), least = length < strlen(other) ? length : strlen(other);
    check(bare_strlen(one) == length, "strlen");
    check(sign(bare_strcmp(one, other)) == sign(strcmp(one, other)), "strcmp");
    check(sign(bare_strncmp(one, other, count)) == sign(strncmp(one, other, count)), "strncmp");
    check(sign(bare_memcmp(one, other, least)) == sign(memcmp(one, other, least)), "memcmp");
    check(bare_strchr(one, c) == strchr(one, c), "strchr");
    check(bare_strchrnul(one, c) == strchrnul(one, c), "strchrnul");
    if (c)
        check(bare_strrchr(one, c) == strrchr(one, c), "strrchr");
    check(bare_strspn(one, other) == strspn(one, other), "strspn");
    check(bare_strcspn(one, other) == strcspn(one, other), "strcspn");
}

static void copy(const char *text, char c) {
    size_t length = strlen(text);
    char *room = room_of(length + 1, 1);
    check(bare_stpcpy(room, text) == room + length && strcmp(room, text) == 0, "stpcpy");
    check(bare_memset(room, c, length) == room && room[length] == '\0', "memset");
    for (size_t i = 0; i < length; i++)
        check(room[i] == c, "memset");
    check(bare_mempcpy(room, text, length) == room + length && memcmp(room, text, length + 1) == 0, "mempcpy");
}

void try_input(const uint8_t *data, size_t size) {
    struct input input = {data, data + size};
    size_t count = take_byte(&input);
    char c = (char)take_byte(&input);
    size_t length = strnlen((const char *)input.at, left_of(&input));
    char *one = room_of(length + 1, 1);
    memcpy(one, input.at, length);
    input.at += length + (length < left_of(&input));
    char *other = room_of(left_of(&input) + 1, 1);
    memcpy(other, input.at, left_of(&input));
    compare(one, other, count, c);
    compare(other, one, count, c);
    copy(one, c);
    copy(other, c);
}
