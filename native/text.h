/*
 * Text of others in UTF-8, as it goes into messages: into JSON (wrapper_message.h) and before people (message.h).
 *
 * Privilege: none; it calls nothing.
 */
#ifndef PADDOCK_TEXT_H
#define PADDOCK_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Counts the bytes written, and keeps them if there is room. Callers can write twice: first to measure, then to keep. */
struct text {
    char *room;
    size_t size;
};

static inline void put_byte(struct text *text, char c) {
    if (text->room)
        text->room[text->size] = c;
    text->size++;
}

static inline void put(struct text *text, const char *literal) {
    while (*literal)
        put_byte(text, *literal++);
}

/* Returns the length of the UTF-8 character that begins here, or 0 if it is not valid. The NUL that ends a string is no
 * continuation byte. */
static inline size_t utf8_length(const unsigned char *at) {
    unsigned char lead = at[0];
    size_t length = lead < 0x80 ? 1 : lead < 0xC2 ? 0 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : lead < 0xF5 ? 4 : 0;
    for (size_t i = 1; i < length; i++)
        if ((at[i] & 0xC0) != 0x80)
            return 0;
    /* Overlong, a surrogate, or beyond the last character. */
    if ((lead == 0xE0 && at[1] < 0xA0) || (lead == 0xED && at[1] > 0x9F) || (lead == 0xF0 && at[1] < 0x90) ||
        (lead == 0xF4 && at[1] > 0x8F))
        return 0;
    return length;
}

static inline void put_escape(struct text *text, const char *prefix, unsigned char byte) {
    put(text, prefix);
    put_byte(text, "0123456789abcdef"[byte >> 4]);
    put_byte(text, "0123456789abcdef"[byte & 15]);
}

/* ---- For people ---- */

/* The code of a valid character of this length. */
static inline uint32_t utf8_code(const unsigned char *at, size_t length) {
    uint32_t code = length == 1 ? at[0] : at[0] & (0x7Fu >> length);
    for (size_t i = 1; i < length; i++)
        code = code << 6 | (at[i] & 0x3F);
    return code;
}

/* Characters that a terminal obeys in place of showing them, that end a line, or that nobody sees: controls, direction
 * marks, invisible joiners, tags. The same in kind as what Python's `str.isprintable` rejects; a table of all those
 * would be larger than the init. */
static const struct {
    uint32_t first, last;
} unprintable[] = {
    {0, 0x1F}, {0x7F, 0xA0}, {0xAD, 0xAD}, {0x61C, 0x61C}, {0x180E, 0x180E}, {0x2000, 0x200F}, {0x2028, 0x202F},
    {0x205F, 0x206F}, {0x3000, 0x3000}, {0xE000, 0xF8FF}, {0xFEFF, 0xFEFF}, {0xFFF0, 0xFFFB}, {0xE0000, 0x10FFFF},
};

static inline bool is_printable(uint32_t code) {
    for (size_t i = 0; i < sizeof unprintable / sizeof *unprintable; i++)
        if (code >= unprintable[i].first && code <= unprintable[i].last)
            return false;
    return true;
}

/* The most that `put_printable` writes: two escapes of six bytes. */
enum { PRINTABLE_BYTES = 12 };

/* Writes one character so that it can be shown, and returns what follows it. An unprintable one becomes `\n` or `\u001b`,
 * and a byte that is not valid UTF-8 a lone surrogate, as in src/paddock/printable.py. */
static inline const char *put_printable(struct text *text, const char *from) {
    const unsigned char *at = (const unsigned char *)from;
    size_t length = utf8_length(at);
    if (length == 0) {
        put_escape(text, "\\udc", *at);
        return from + 1;
    }
    uint32_t code = utf8_code(at, length);
    if (is_printable(code)) {
        for (size_t i = 0; i < length; i++)
            put_byte(text, from[i]);
    } else if (code == '\n' || code == '\r' || code == '\t') {
        put(text, code == '\n' ? "\\n" : code == '\r' ? "\\r" : "\\t");
    } else {
        /* JSON writes a character beyond the first 65536 as two. */
        uint32_t high = code > 0xFFFF ? 0xD7C0 + (code >> 10) : 0, low = high ? 0xDC00 | (code & 0x3FF) : code;
        for (int i = high ? 0 : 1; i < 2; i++) {
            uint32_t unit = i ? low : high;
            put_escape(text, "\\u", (unsigned char)(unit >> 8));
            put_escape(text, "", (unsigned char)unit);
        }
    }
    return from + length;
}

#endif
