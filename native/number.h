/*
 * Reads and writes numbers as text without the C library's formats and locales.
 *
 * Privilege: none; it calls nothing.
 */
#ifndef PADDOCK_NUMBER_H
#define PADDOCK_NUMBER_H

#include <stdbool.h>
#include <stdint.h>

/* Room for any number in base 10 or 16, with its NUL. */
enum { NUMBER_BYTES = 21 };

/* Reads lower-case digits and moves `text` past them. Returns false if there are none, or if the number is too large. */
static inline bool read_number(char **text, unsigned base, uint64_t *value) {
    char *begin = *text;
    for (*value = 0;; ++*text) {
        char c = **text;
        unsigned digit = c >= '0' && c <= '9' ? (unsigned)(c - '0') : c >= 'a' && c <= 'f' ? c - 'a' + 10u : base;
        if (digit >= base)
            return *text > begin;
        if (__builtin_mul_overflow(*value, base, value) || __builtin_add_overflow(*value, digit, value))
            return false;
    }
}

/* Writes a number into `room`, with leading zeros up to `digits` digits. Returns where it begins. */
static inline char *number_text(char room[NUMBER_BYTES], uint64_t value, unsigned base, int digits) {
    char *begin = room + NUMBER_BYTES - 1;
    *begin = '\0';
    for (; value || digits > 0; value /= base, digits--)
        *--begin = "0123456789abcdef"[value % base];
    return begin;
}

#endif
