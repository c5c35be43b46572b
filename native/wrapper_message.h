/*
 * The messages between paddock-execve-wrapper and its decider, as bytes. Writes questions and reads answers.
 *
 *     {"file": F, "argv": [...], "workdir": W, "env": {...}}               question
 *     {"action": "Run" | "Escalate" | {"Deny": {"reason": TEXT | null}}}   answer
 *     {"exit_code": N}                                                     end of a program outside
 *
 * Text is JSON in UTF-8. A byte that is not valid UTF-8 becomes a lone surrogate, U+DC80 to U+DCFF, as in Python. The
 * other side is src/paddock/intercept/wire.py, or the program that this protocol comes from.
 *
 * Privilege: none; it calls nothing.
 */
#ifndef PADDOCK_WRAPPER_MESSAGE_H
#define PADDOCK_WRAPPER_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "text.h"

/* ---- Writing ---- */

/* ---- Writing ---- */

/* Writes one string, up to NUL or `end`, whichever comes first. */
static inline void put_string(struct text *text, const char *from, const char *end) {
    const unsigned char *at = (const unsigned char *)from;
    put_byte(text, '"');
    while (*at && (const char *)at != end) {
        size_t length = utf8_length(at);
        if (length == 0) {
            put_escape(text, "\\udc", *at++);
        } else if (*at < ' ') {
            put_escape(text, "\\u00", *at++);
        } else {
            if (*at == '"' || *at == '\\')
                put_byte(text, '\\');
            for (; length; length--)
                put_byte(text, (char)*at++);
        }
    }
    put_byte(text, '"');
}

static inline bool is_variable(const char *variable, const char *name) {
    size_t length = strlen(name);
    return strncmp(variable, name, length) == 0 && variable[length] == '=';
}

/* Variables between the shell, the wrapper and the decider. No program outside of the sandbox gets them. */
static const char *const control_variables[] = {
    "CODEX_ESCALATE_SOCKET", "PADDOCK_ESCALATE_SOCKET", "BASH_EXEC_WRAPPER", "EXEC_WRAPPER", "PADDOCK_EXEC_SHELL", NULL};

static inline bool is_control_variable(const char *variable) {
    for (const char *const *name = control_variables; *name; name++)
        if (is_variable(variable, *name))
            return true;
    return false;
}

/* Writes the question about a program. Of two variables with the same name the decider takes the last, but programs see
 * the first. So this writes them in reverse order. */
static inline void put_request(struct text *text, const char *file, char *const *argv, const char *directory,
                               char *const *environment) {
    put(text, "{\"file\":");
    put_string(text, file, NULL);
    put(text, ",\"argv\":[");
    for (size_t i = 0; argv[i]; i++) {
        put(text, i ? "," : "");
        put_string(text, argv[i], NULL);
    }
    put(text, "],\"workdir\":");
    put_string(text, directory, NULL);
    put(text, ",\"env\":{");
    size_t count = 0;
    while (environment[count])
        count++;
    for (bool is_first = true; count > 0; count--) {
        const char *variable = environment[count - 1], *equals = strchr(variable, '=');
        if (!equals || is_control_variable(variable))
            continue;
        put(text, is_first ? "" : ",");
        is_first = false;
        put_string(text, variable, equals);
        put_byte(text, ':');
        put_string(text, equals + 1, NULL);
    }
    put(text, "}}");
}

/* ---- Reading ---- */

/* A JSON reader that goes from front to back. It decodes strings in place, because they never get longer. */
struct json {
    char *at, *end;
};

/* Deeper than any message. */
enum { JSON_DEPTH = 16 };

static inline bool is_at(const struct json *json, char c) {
    return json->at < json->end && *json->at == c;
}

static inline void skip_space(struct json *json) {
    while (is_at(json, ' ') || is_at(json, '\t') || is_at(json, '\n') || is_at(json, '\r'))
        json->at++;
}

/* Takes one character and the space around it. */
static inline bool take(struct json *json, char sign) {
    skip_space(json);
    if (!is_at(json, sign))
        return false;
    json->at++;
    skip_space(json);
    return true;
}

static inline bool take_word(struct json *json, const char *word) {
    size_t length = strlen(word);
    if ((size_t)(json->end - json->at) < length || memcmp(json->at, word, length) != 0)
        return false;
    json->at += length;
    return true;
}

/* Returns the four digits of \uXXXX, or -1. */
static inline int32_t take_code(struct json *json) {
    int32_t code = 0;
    if (json->end - json->at < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        char c = *json->at++, small = (char)(c | ' ');
        if (!(c >= '0' && c <= '9') && !(small >= 'a' && small <= 'f'))
            return -1;
        code = code << 4 | (c <= '9' ? c - '0' : small - 'a' + 10);
    }
    return code;
}

static inline char *put_code(char *to, int32_t code) {
    if (code < 0x80) {
        *to++ = (char)code;
        return to;
    }
    int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    *to++ = (char)(0xFF00 >> (more + 1) | code >> 6 * more);
    while (more--)
        *to++ = (char)(0x80 | (code >> 6 * more & 0x3F));
    return to;
}

/* Decodes the digits after \u to `to`. Returns the end of the output, or NULL. */
static inline char *take_unicode(struct json *json, char *to) {
    int32_t code = take_code(json);
    if (code < 0)
        return NULL;
    if (code >= 0xDC80 && code <= 0xDCFF) {
        *to = (char)(code & 0xFF);
        return to + 1;
    }
    if (code >= 0xD800 && code <= 0xDBFF && json->end - json->at >= 6 && json->at[0] == '\\' && json->at[1] == 'u') {
        struct json rest = {json->at + 2, json->end};
        int32_t low = take_code(&rest);
        if (low >= 0xDC00 && low <= 0xDFFF) {
            json->at = rest.at;
            return put_code(to, 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00));
        }
    }
    return put_code(to, code >= 0xD800 && code <= 0xDFFF ? 0xFFFD : code);
}

static inline bool take_string(struct json *json, char **text, size_t *length) {
    static const char escapes[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
    if (!is_at(json, '"'))
        return false;
    char *to = *text = ++json->at;
    while (json->at < json->end) {
        char c = *json->at++;
        if (c == '"') {
            *length = (size_t)(to - *text);
            return true;
        }
        if ((unsigned char)c < ' ')
            return false;
        if (c != '\\') {
            *to++ = c;
            continue;
        }
        if (json->at == json->end)
            return false;
        c = *json->at++;
        const char *found = c ? strchr(escapes, c) : NULL;
        if (found)
            *to++ = meant[found - escapes];
        else if (c != 'u' || !(to = take_unicode(json, to)))
            return false;
    }
    return false;
}

static inline bool take_integer(struct json *json, int64_t *value) {
    bool is_negative = take_word(json, "-");
    char *begin = json->at;
    for (*value = 0; json->at < json->end && *json->at >= '0' && *json->at <= '9'; json->at++) {
        *value = *value * 10 + (*json->at - '0');
        if (*value > INT32_MAX)
            return false;
    }
    *value = is_negative ? -*value : *value;
    return json->at > begin;
}

/* Moves past a string, and returns it without decoding. */
static inline bool skip_string(struct json *json, char **text, size_t *length) {
    if (!is_at(json, '"'))
        return false;
    *text = ++json->at;
    for (; json->at < json->end; json->at++) {
        if (*json->at == '\\' && json->end - json->at > 1)
            json->at++;
        else if (*json->at == '"') {
            *length = (size_t)(json->at++ - *text);
            return true;
        }
    }
    return false;
}

/* Moves past a value. Accepts only integers: no message has other numbers. */
static inline bool skip_value(struct json *json, int depth) {
    char *text;
    size_t length;
    int64_t number;
    if (is_at(json, '"'))
        return skip_string(json, &text, &length);
    if (take_word(json, "null") || take_word(json, "true") || take_word(json, "false"))
        return true;
    bool is_object = is_at(json, '{');
    if (!is_object && !is_at(json, '['))
        return take_integer(json, &number);
    if (depth == JSON_DEPTH)
        return false;
    json->at++;
    for (bool is_first = true; !take(json, is_object ? '}' : ']'); is_first = false) {
        if (!is_first && !take(json, ','))
            return false;
        if (is_object && !(skip_string(json, &text, &length) && take(json, ':')))
            return false;
        if (!skip_value(json, depth + 1))
            return false;
    }
    return true;
}

/* Finds the only member of this name in an object, ignores others, and moves past the object. */
static inline bool find_member(struct json *json, const char *name, struct json *found) {
    bool is_found = false;
    if (!take(json, '{'))
        return false;
    for (bool is_first = true; !take(json, '}'); is_first = false) {
        char *key;
        size_t length;
        if ((!is_first && !take(json, ',')) || !skip_string(json, &key, &length) || !take(json, ':'))
            return false;
        char *begin = json->at;
        if (!skip_value(json, 0))
            return false;
        if (length != strlen(name) || memcmp(key, name, length) != 0)
            continue;
        if (is_found)
            return false;
        is_found = true;
        *found = (struct json){begin, json->at};
    }
    return is_found;
}

static inline bool find_only_member(char *data, size_t size, const char *name, struct json *found) {
    struct json json = {data, data + size};
    return find_member(&json, name, found) && json.at == json.end;
}

enum action { ACTION_RUN = 1, ACTION_ESCALATE, ACTION_DENY };

struct answer {
    enum action action;
    /* The reason for the denial; NULL if there is none. */
    char *reason;
    size_t length;
};

/* Returns whether the bytes are a valid answer. The reason points into them. */
static inline bool read_answer(char *data, size_t size, struct answer *answer) {
    struct json action, denial, reason;
    *answer = (struct answer){0};
    if (!find_only_member(data, size, "action", &action))
        return false;
    if (is_at(&action, '"')) {
        answer->action = take_word(&action, "\"Run\"") ? ACTION_RUN : take_word(&action, "\"Escalate\"") ? ACTION_ESCALATE : 0;
        return answer->action != 0;
    }
    if (!find_member(&action, "Deny", &denial))
        return false;
    answer->action = ACTION_DENY;
    if (!find_member(&denial, "reason", &reason) || take_word(&reason, "null"))
        return true;
    return take_string(&reason, &answer->reason, &answer->length);
}

/* Reads the exit code of a program outside. */
static inline bool read_exit_code(char *data, size_t size, int64_t *code) {
    struct json found;
    return find_only_member(data, size, "exit_code", &found) && take_integer(&found, code);
}

#endif
