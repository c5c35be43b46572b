/*
 * Counts the values and the strings of a JSON document, before anybody makes objects of them.
 *
 * Takes any bytes: of a document that is not JSON it counts what a parser could have made up to the first fault, or more.
 * Goes from the first byte to the last once, or to the value that is one too many, keeps no state and calls nothing.
 *
 * Privilege: none.
 */
#ifndef PADDOCK_VALUE_COUNT_H
#define PADDOCK_VALUE_COUNT_H

#include <stddef.h>
#include <string.h>

/* How far a string is followed byte by byte behind an escape: where they are dense, a search for each takes long. */
#define NEAR_BYTES 64

/* Where a string ends whose content begins at `at`: behind its quote, or at the end of the text. */
static const char *
string_end(const char *at, const char *end)
{
    const char *quote = at;
    while (at < end) {
        /* Looked for again only when it was escaped, so that each byte is looked at three times at most. */
        if (quote <= at)
            quote = memchr(at, '"', (size_t)(end - at));
        if (quote == NULL)
            return end;
        at = memchr(at, '\\', (size_t)(quote - at));
        if (at == NULL)
            return quote + 1;
        const char *far = end - at < NEAR_BYTES ? end : at + NEAR_BYTES;
        while (at < far) {
            if (*at == '"')
                return at + 1;
            at += *at == '\\' ? 2 : 1;
        }
    }
    return end;
}

/* Whether the container that begins before `at` holds something, or its end is missing. */
static int
has_content(const char *at, const char *end)
{
    while (at < end && (*at == ' ' || *at == '\n' || *at == '\r' || *at == '\t'))
        at++;
    return at == end || (*at != ']' && *at != '}');
}

/* The number of strings, keys included; -1 if there are more values than so many, containers included. */
static long
count_strings(const char *text, size_t length, long max_values)
{
    const char *at = text, *end = text + length;
    long values = 1, strings = 0;
    while (at < end && values <= max_values) {
        char sign = *at++;
        if (sign == '"') {
            strings++;
            at = string_end(at, end);
        } else if (sign == ',') {
            values++;
        } else if (sign == '[' || sign == '{') {
            values += has_content(at, end);
        }
    }
    return values > max_values ? -1 : strings;
}

#endif
