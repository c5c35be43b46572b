/*
 * Counts the values and the strings of a JSON document, before a parser creates objects for them.
 *
 * Accepts any bytes. In a document that is not JSON, it counts at least what a parser would create up to the first
 * fault. Makes one pass, up to the value that exceeds the limit, keeps no state and calls nothing.
 *
 * Privilege: none.
 */
#ifndef PADDOCK_VALUE_COUNT_H
#define PADDOCK_VALUE_COUNT_H

#include <stddef.h>
#include <string.h>

/* How far to follow a string byte by byte after an escape: where escapes are dense, a search for each takes long. */
#define NEAR_BYTES 64

/* Return the end of a string whose content begins at `at`: past its quote, or the end of the text. */
static const char *
string_end(const char *at, const char *end)
{
    const char *quote = at;
    while (at < end) {
        /* Searched again only if the quote was escaped, so that each byte is read three times at most. */
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

/* Return whether the container that begins before `at` has content, or has no end. */
static int
has_content(const char *at, const char *end)
{
    while (at < end && (*at == ' ' || *at == '\n' || *at == '\r' || *at == '\t'))
        at++;
    return at == end || (*at != ']' && *at != '}');
}

/* Return the number of strings, keys included, or -1 if there are more than `max_values` values, containers included. */
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
