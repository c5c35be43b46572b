/*
 * What paddock-stub is told to do (native/instruction.h), and requests to paddock-leader (native/escalation.h). Input: the bytes as the
 * decider writes them.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "harness.h"

#include "instruction.h"
#include "escalation.h"

const char *const dictionary[] = {"\1\0\0\0", "\2\0\0\0", "\377\377\377\377", "/bin/sh", "A=1", NULL};

static size_t strings_in(char **strings, const char *data, size_t size) {
    size_t count = 0;
    for (; strings[count]; count++)
        check(strings[count] >= data && strings[count] + strlen(strings[count]) < data + size, "each string is in the input");
    return count;
}

static void try_escalation(const uint8_t *input, size_t size) {
    struct escalation escalation = {0};
    memcpy(&escalation, input, size < sizeof escalation ? size : sizeof escalation);
    for (int n = 0; n <= FIRST_FILE + ESCALATION_FILES; n++)
        if (is_escalation(&escalation, n)) {
            check(n == (int)(FIRST_FILE + escalation.n_files), "an escalation has as many descriptors as it says");
            for (uint32_t i = 0; i < escalation.n_files; i++)
                check(escalation.numbers[i] >= 0 && escalation.numbers[i] < 1 << 20, "each has a number that can be");
        }
}

void try_input(const uint8_t *input, size_t size) {
    try_escalation(input, size);
    char *data = room_of(size, 1);
    struct instruction instruction;
    memcpy(data, input, size);
    if (!read_instruction(data, size, &instruction))
        return;
    uint32_t head[3];
    memcpy(head, input, sizeof head);
    check(instruction.kind == head[0] && strlen(instruction.text) < size, "a whole instruction has a kind and a text");
    check(strings_in(instruction.argv, data, size) == head[1], "there are as many arguments as it says");
    check(strings_in(instruction.environment, data, size) == head[2], "there are as many variables as it says");
}
