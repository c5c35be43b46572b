/*
 * What paddock-execve-wrapper is answered, and what it asks (native/wrapper_message.h). Input: the JSON of an answer; the same bytes,
 * cut at newlines, are the file, the arguments and the variables of a question.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "harness.h"

#include "wrapper_message.h"

const char *const dictionary[] = {
    "{\"action\":\"Run\"}", "{\"action\":{\"Deny\":{\"reason\":", "{\"exit_code\":", "\"Escalate\"", "null", "\\ud83d", "\\ude00",
    "\\udcff", "\\u00e9", "\\\\", "\\\"", "[", "]", "{", "}", ",", ":", "-1", "\303\251", "\360\237\230\200", NULL};

static bool is_within(const char *at, size_t length, const char *data, size_t size) {
    return at >= data && length <= size && (size_t)(at - data) <= size - length;
}

static void try_answers(const uint8_t *input, size_t size) {
    struct answer answer;
    int64_t code;
    char *data = copy_of(input, size);
    if (read_answer(data, size, &answer)) {
        check(answer.action >= ACTION_RUN && answer.action <= ACTION_DENY, "an answer is one of three");
        check(!answer.reason || is_within(answer.reason, answer.length, data, size), "a reason is in the input");
        check(answer.action == ACTION_DENY || !answer.reason, "only a denial has a reason");
    }
    if (read_exit_code(copy_of(input, size), size, &code))
        check(code >= -INT32_MAX && code <= INT32_MAX, "an exit code is a number of 32 bits");
}

/* Bytes of JSON text are UTF-8, whatever was asked about. */
static void check_text(const char *text, size_t size) {
    for (size_t at = 0; at < size;) {
        size_t length = utf8_length((const unsigned char *)text + at);
        check(length > 0 && (unsigned char)text[at] >= ' ', "what is asked is printable UTF-8");
        at += length;
    }
}

static void try_question(const uint8_t *input, size_t size) {
    enum { WORDS = 8 };
    char *words[WORDS + 1] = {0}, *copy = room_of(size + 1, 1);
    size_t count = 0;
    memcpy(copy, input, size);
    for (char *at = copy; at && count < WORDS; count++) {
        char *end = strchr(at, '\n');
        if (end)
            *end = '\0';
        /* A copy with nothing behind its NUL. */
        words[count] = copy_of(at, strlen(at) + 1);
        at = end ? end + 1 : NULL;
    }
    struct text measured = {0}, written;
    put_request(&measured, words[0], words, words[0], words);
    written = (struct text){.room = room_of(measured.size + 1, 1)};
    put_request(&written, words[0], words, words[0], words);
    check(written.size == measured.size, "what was measured is what is written");
    check_text(written.room, written.size);
    struct json json = {written.room, written.room + written.size}, file;
    check(find_member(&json, "file", &file), "what is written can be read");
    char *text;
    size_t length;
    check(take_string(&file, &text, &length), "the file is a string");
    check(length == strlen(words[0]) && memcmp(text, words[0], length) == 0, "and comes back byte by byte");
}

void try_input(const uint8_t *input, size_t size) {
    try_answers(input, size);
    try_question(input, size);
}
