/*
 * Reads the instructions of paddock-stub from the bytes that the decider wrote
 * (src/paddock/sandbox/denial/stub_instruction.py).
 *
 *     uint32 kind, uint32 count of arguments, uint32 count of variables,
 *     then as many strings, each ended by NUL: a text, the arguments, the variables
 *
 * Privilege: none; it only allocates memory.
 */
#ifndef PADDOCK_INSTRUCTION_H
#define PADDOCK_INSTRUCTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum instruction_kind { INSTRUCTION_DENY = 1, INSTRUCTION_RUN = 2 };

struct instruction {
    uint32_t kind;
    /* The message, or the path of the program. */
    char *text;
    char **argv, **environment;
};

/* Returns the string at `at` and moves past it, or NULL if it does not end before `end`. */
static char *next_string(char **at, const char *end) {
    char *begin = *at;
    for (; *at < end; ++*at)
        if (!**at) {
            ++*at;
            return begin;
        }
    return NULL;
}

/* Returns `count` strings followed by NULL, or NULL if there are fewer. */
static char **next_strings(char **at, const char *end, uint32_t count) {
    /* Each takes at least one byte. */
    if (count > (size_t)(end - *at))
        return NULL;
    char **strings = calloc((size_t)count + 1, sizeof *strings);
    for (uint32_t i = 0; strings && i < count; i++)
        if (!(strings[i] = next_string(at, end)))
            return NULL;
    return strings;
}

/* Returns whether the bytes are a valid instruction. The strings point into `data`. */
static bool read_instruction(char *data, size_t size, struct instruction *instruction) {
    uint32_t head[3];
    if (size < sizeof head)
        return false;
    memcpy(head, data, sizeof head);
    char *at = data + sizeof head, *end = data + size;
    instruction->kind = head[0];
    instruction->text = next_string(&at, end);
    if (!instruction->text)
        return false;
    instruction->argv = next_strings(&at, end, head[1]);
    if (!instruction->argv)
        return false;
    instruction->environment = next_strings(&at, end, head[2]);
    return instruction->environment && at == end;
}

#endif
