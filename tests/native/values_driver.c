/* What counts the values of a message (native/value_count.h). Input: a limit of values, and a message. */
#include "harness.h"

#include "value_count.h"

const char *const dictionary[] = {
    "{", "}", "[", "]", ",", ":", "\"", "\\", "\\\"", "\\\\", "null", "[]", "{}", "[ ]", "\"\"", "\"a\":", NULL,
};

void try_input(const uint8_t *data, size_t size) {
    struct input input = {data, data + size};
    long max_values = take_byte(&input);
    size_t length = left_of(&input);
    long strings = count_strings(copy_of(input.at, length), length, max_values);
    check(strings >= -1 && strings <= (long)length, "there are no more strings than bytes");
}
