/*
 * What a driver and the engine (engine.c) know of each other.
 *
 * A driver includes a source of native/, replaces the system calls that it makes, and gives it one input at a time. Inputs
 * are exact copies on the heap, so that the address sanitizer sees the first byte read beyond.
 */
#ifndef PADDOCK_TESTS_HARNESS_H
#define PADDOCK_TESTS_HARNESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* By the driver: one input. It leaves no state behind that the next could see. */
void try_input(const uint8_t *data, size_t size);

/* By the driver: words that inputs of its kind hold, ended by NULL. */
extern const char *const dictionary[];

/* By the engine: ends the process, saying what is wrong, if a promise of the code under test does not hold. */
void check(bool holds, const char *promise);

/* By the engine: a heap copy, or an empty room, that `free_copies` frees. With the size it asks for and not a byte more. */
void *copy_of(const void *from, size_t size);
void *room_of(size_t count, size_t size);
void free_copies(void);

/* Takes numbers and bytes from the front of an input. */
struct input {
    const uint8_t *at, *end;
};

static inline uint8_t take_byte(struct input *input) {
    return input->at < input->end ? *input->at++ : 0;
}

static inline size_t left_of(const struct input *input) {
    return (size_t)(input->end - input->at);
}

#endif
