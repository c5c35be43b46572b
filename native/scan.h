/*
 * Finds the parts of a message in plain JSON: a request, a notification or a result.
 *
 * Reads from the first byte to the last, keeps no state and calls nothing, so tests need no Python. Plain means no
 * escapes and no bytes beyond ASCII in strings, no fractions, and no duplicate key. It knows the envelope, but no
 * method: for a string of the body that may be base64, it only reports its position.
 *
 * Privilege: none.
 */
#ifndef PADDOCK_SCAN_H
#define PADDOCK_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* Limits of a plain message: depth, keys in one object, and bytes of a key. Any real message is below them. The scan
 * compares keys with each other, so their number and length bound the work. */
#define MAX_DEPTH 16
#define MAX_KEYS 64
#define MAX_KEY_BYTES 256

/* A string of the body with this length may be base64, and there are faster decoders for that than a JSON parser's. A
 * shorter one may be base64 if it ends with padding, which parsers do not check. */
#define LONG_BYTES 1024

/* Usual distance of a long string's end from the end of a message. */
#define TAIL_BYTES 256

/* Integers with this many digits fit into 64 bits. */
#define MAX_DIGITS 18

struct span {
    const char *begin;
    const char *end;
};

struct scan {
    const char *at;
    const char *end;
    long values_left;
    int depth_left;
    struct span id;
    struct span method;
    /* The parameters or the result if they are an object, whether either was present, and whether it was a result. */
    struct span body;
    bool has_body;
    bool is_result;
    /* The string of the body that may be base64, and its key. The content of a long one is unchecked. */
    struct span encoded_key;
    struct span encoded;
    /* Whether the end of that string is a guess, and whether guessing is allowed. */
    bool is_guess;
    bool may_guess;
};

static bool
is_text(struct span span, const char *text)
{
    size_t length = strlen(text);
    return (size_t)(span.end - span.begin) == length && memcmp(span.begin, text, length) == 0;
}

static void
skip_space(struct scan *scan)
{
    while (scan->at < scan->end &&
           (*scan->at == ' ' || *scan->at == '\n' || *scan->at == '\r' || *scan->at == '\t'))
        scan->at++;
}

/* Take one character, with the space before it. */
static bool
take(struct scan *scan, char sign)
{
    skip_space(scan);
    if (scan->at == scan->end || *scan->at != sign)
        return false;
    scan->at++;
    return true;
}

static bool
take_string(struct scan *scan, struct span *content)
{
    if (!take(scan, '"'))
        return false;
    content->begin = scan->at;
    for (; scan->at < scan->end; scan->at++) {
        char sign = *scan->at;
        if (sign == '"') {
            content->end = scan->at++;
            return true;
        }
        if (sign < 0x20 || sign > 0x7e || sign == '\\')
            return false;
    }
    return false;
}

static bool
take_integer(struct scan *scan)
{
    if (*scan->at == '-')
        scan->at++;
    const char *digits = scan->at;
    while (scan->at < scan->end && *scan->at >= '0' && *scan->at <= '9')
        scan->at++;
    long count = scan->at - digits;
    if (count < 1 || count > MAX_DIGITS || (count > 1 && *digits == '0'))
        return false;
    return scan->at < scan->end && strchr(",]} \t\r\n", *scan->at) != NULL && *scan->at != '\0';
}

static bool
take_word(struct scan *scan, const char *word)
{
    size_t length = strlen(word);
    if ((size_t)(scan->end - scan->at) < length || memcmp(scan->at, word, length) != 0)
        return false;
    scan->at += length;
    return true;
}

static bool take_object(struct scan *scan, bool is_body);
static bool take_array(struct scan *scan);

static bool
take_value(struct scan *scan)
{
    struct span ignored;
    skip_space(scan);
    if (scan->at == scan->end || scan->values_left-- <= 0)
        return false;
    switch (*scan->at) {
    case '{':
        return take_object(scan, false);
    case '[':
        return take_array(scan);
    case '"':
        return take_string(scan, &ignored);
    case 't':
        return take_word(scan, "true");
    case 'f':
        return take_word(scan, "false");
    case 'n':
        return take_word(scan, "null");
    default:
        return take_integer(scan);
    }
}

static bool
take_array(struct scan *scan)
{
    if (scan->depth_left-- <= 0 || !take(scan, '['))
        return false;
    if (!take(scan, ']')) {
        do {
            if (!take_value(scan))
                return false;
        } while (take(scan, ','));
        if (!take(scan, ']'))
            return false;
    }
    scan->depth_left++;
    return true;
}

static bool
take_long_string(struct scan *scan, struct span *content)
{
    const char *begin = scan->at + 1;
    if (scan->end - begin < LONG_BYTES || memchr(begin, '"', LONG_BYTES) != NULL)
        return false;
    /* Searching all of it takes as long as decoding a third. If the guess is wrong, there is a quote in between, which
     * base64 never has, and usually the rest of the message is invalid. */
    const char *from = scan->may_guess && scan->end - begin > 2 * LONG_BYTES ? scan->end - TAIL_BYTES : begin;
    const char *quote = memchr(from, '"', (size_t)(scan->end - from));
    if (quote == NULL)
        return false;
    scan->is_guess = from != begin;
    *content = (struct span){begin, quote};
    scan->at = quote + 1;
    return true;
}

/* Take a value of the body. */
static bool
take_body_value(struct scan *scan, struct span key)
{
    struct span content;
    skip_space(scan);
    if (scan->at == scan->end || *scan->at != '"')
        return take_value(scan);
    if (scan->values_left-- <= 0)
        return false;
    if (!take_long_string(scan, &content)) {
        if (!take_string(scan, &content))
            return false;
        if (content.end[-1] != '=')
            return true;
    }
    if (scan->encoded.begin != NULL)
        return false;
    scan->encoded_key = key;
    scan->encoded = content;
    return true;
}

/* Take the key of a member and the colon. Fails for a duplicate key. */
static bool
take_key(struct scan *scan, struct span *keys, int count)
{
    if (count == MAX_KEYS || !take_string(scan, &keys[count]) || !take(scan, ':'))
        return false;
    size_t length = (size_t)(keys[count].end - keys[count].begin);
    if (length > MAX_KEY_BYTES)
        return false;
    for (int other = 0; other < count; other++)
        if ((size_t)(keys[other].end - keys[other].begin) == length &&
            memcmp(keys[other].begin, keys[count].begin, length) == 0)
            return false;
    return true;
}

static bool
take_object(struct scan *scan, bool is_body)
{
    struct span keys[MAX_KEYS];
    int count = 0;
    if (scan->depth_left-- <= 0 || !take(scan, '{'))
        return false;
    if (!take(scan, '}')) {
        do {
            if (!take_key(scan, keys, count))
                return false;
            if (!(is_body ? take_body_value(scan, keys[count]) : take_value(scan)))
                return false;
            count++;
        } while (take(scan, ','));
        if (!take(scan, '}'))
            return false;
    }
    scan->depth_left++;
    return true;
}

static bool
take_id(struct scan *scan)
{
    struct span ignored;
    skip_space(scan);
    const char *begin = scan->at;
    if (begin == scan->end || scan->values_left-- <= 0)
        return false;
    if (!(*begin == '"' ? take_string(scan, &ignored) : take_integer(scan)))
        return false;
    scan->id = (struct span){begin, scan->at};
    return true;
}

static bool
take_body(struct scan *scan, bool is_result)
{
    skip_space(scan);
    const char *begin = scan->at;
    if (begin == scan->end || scan->has_body || scan->values_left-- <= 0)
        return false;
    scan->has_body = true;
    scan->is_result = is_result;
    if (*begin == 'n')
        return take_word(scan, "null");
    if (!take_object(scan, true))
        return false;
    scan->body = (struct span){begin, scan->at};
    return true;
}

static bool
take_member(struct scan *scan, struct span key)
{
    if (is_text(key, "id"))
        return take_id(scan);
    if (is_text(key, "method"))
        return scan->values_left-- > 0 && take_string(scan, &scan->method);
    if (is_text(key, "params") || is_text(key, "result"))
        return take_body(scan, is_text(key, "result"));
    return is_text(key, "jsonrpc") && take_value(scan);
}

/* Only a message without a method is a result. */
static bool
take_message(struct scan *scan)
{
    struct span keys[MAX_KEYS];
    int count = 0;
    if (scan->values_left-- <= 0 || scan->depth_left-- <= 0 || !take(scan, '{'))
        return false;
    do {
        if (!take_key(scan, keys, count) || !take_member(scan, keys[count]))
            return false;
        count++;
    } while (take(scan, ','));
    if (!take(scan, '}'))
        return false;
    skip_space(scan);
    return scan->at == scan->end && scan->is_result == (scan->method.begin == NULL);
}

/* Return whether a message is plain. If so, `found` has the positions of its parts; missing parts are NULL. */
static bool
scan_message(const char *text, size_t length, long max_values, long max_depth, struct scan *found)
{
    struct scan begin = {
        .at = text,
        .end = text + length,
        .values_left = max_values,
        .depth_left = max_depth < MAX_DEPTH ? (int)max_depth : MAX_DEPTH,
    };
    *found = begin;
    found->may_guess = true;
    if (take_message(found))
        return true;
    bool is_guess = found->is_guess;
    *found = begin;
    return is_guess && take_message(found);
}

#endif
