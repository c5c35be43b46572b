/*
 * Tries inputs on a driver (harness.h): those of files, and then changed ones, always the same for the same seed.
 *
 *     DRIVER SEED COUNT FAILURE FILE...
 *
 * An input that reaches code which none has reached before is kept and changed further. The compiler tells what is
 * reached (-fsanitize-coverage=trace-pc); this file is compiled without. When a sanitizer or a check ends the process, the
 * input is in the file FAILURE. At the end it says how many inputs there were, and how many of them are kept.
 */
#include <sanitizer/common_interface_defs.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness.h"

/* The longest that is made. A packet to the janitor is 64 KiB, and nothing else needs as much. */
enum { INPUT_BYTES = 80 << 10 };

/* An input that takes longer than this many seconds never ends. */
enum { HANG_S = 10 };

enum { KEPT_LIMIT = 4096, COPIES_LIMIT = 1 << 16 };

struct kept {
    uint8_t *data;
    size_t size;
};
static struct kept kept[KEPT_LIMIT];
static size_t kept_count;
static size_t tried;

static const uint8_t *current;
static size_t current_size;
static const char *failure_path;

/* ---- Random numbers ---- */

static uint64_t state;

/* splitmix64, by Sebastiano Vigna, in the public domain. */
static uint64_t next_number(void) {
    uint64_t z = (state += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
}

static size_t below(size_t limit) {
    return limit ? (size_t)(next_number() % limit) : 0;
}

/* ---- What is reached ---- */

enum { PLACES = 1 << 16 };
static uint8_t is_reached[PLACES];
static bool has_reached_more;
static uintptr_t came_from;

void __sanitizer_cov_trace_pc(void);
void __sanitizer_cov_trace_pc(void) {
    /* Relative to this file, because a program is loaded to a random address. */
    uintptr_t place = (uintptr_t)__builtin_return_address(0) - (uintptr_t)&next_number;
    uintptr_t way = (place ^ came_from << 1) % PLACES;
    came_from = place;
    if (!is_reached[way])
        is_reached[way] = has_reached_more = true;
}

/* ---- Memory ---- */

static void *copies[COPIES_LIMIT];
static size_t copies_count;

void *room_of(size_t count, size_t size) {
    void *room = calloc(count, size);
    if (!room || copies_count == COPIES_LIMIT)
        abort();
    copies[copies_count++] = room;
    return room;
}

void *copy_of(const void *from, size_t size) {
    void *copy = room_of(size, 1);
    if (size)
        memcpy(copy, from, size);
    return copy;
}

void free_copies(void) {
    while (copies_count)
        free(copies[--copies_count]);
}

/* ---- Failing ---- */

static void save(void) {
    FILE *file = current ? fopen(failure_path, "wb") : NULL;
    if (file) {
        fwrite(current, 1, current_size, file);
        fclose(file);
    }
}

void check(bool holds, const char *promise) {
    if (holds)
        return;
    fprintf(stderr, "harness: does not hold: %s\n", promise);
    save();
    _exit(1);
}

static void hang(int signo) {
    (void)signo;
    check(false, "every input ends");
}

/* As which the sanitizer of undefined behaviour ends a process (sanitizer.py): it knows nothing of death callbacks. */
static void aborted(int signo) {
    save();
    _exit(128 + signo);
}

/* ---- Changing ---- */

static const uint64_t numbers[] = {
    0, 1, 2, 3, 4, 7, 8, 16, 24, 31, 32, 63, 64, 100, 125, 126, 127, 128, 131, 255, 256, 1023, 1024, 4095, 4096, 32767, 65535,
    65536, 0x7fffffff, 0x80000000, 0xffffffff, 0x100000000, 0x7fffffffffffffff, 0x8000000000000000, 0xffffffffffffffff,
};

static size_t insert(uint8_t *data, size_t size, size_t at, const void *piece, size_t length) {
    if (size + length > INPUT_BYTES)
        return size;
    memmove(data + at + length, data + at, size - at);
    memcpy(data + at, piece, length);
    return size + length;
}

static size_t overwrite_number(uint8_t *data, size_t size) {
    uint64_t number = numbers[below(sizeof numbers / sizeof *numbers)] + below(3) - 1;
    size_t width = (size_t)1 << below(4);
    uint8_t bytes[8];
    bool is_big_endian = below(2);
    for (size_t i = 0; i < width; i++)
        bytes[is_big_endian ? width - 1 - i : i] = (uint8_t)(number >> 8 * i);
    if (size >= width)
        memcpy(data + below(size - width + 1), bytes, width);
    return size;
}

static size_t insert_word(uint8_t *data, size_t size) {
    char text[32];
    size_t count = 0;
    while (dictionary[count])
        count++;
    const char *word = below(8) ? dictionary[below(count)] : text;
    uint64_t number = numbers[below(sizeof numbers / sizeof *numbers)];
    snprintf(text, sizeof text, below(2) ? "%llu" : "%llx", (unsigned long long)number);
    /* With the NUL that ends it, now and then. */
    return insert(data, size, below(size + 1), word, strlen(word) + !below(4));
}

static size_t splice(uint8_t *data, size_t size) {
    const struct kept *other = &kept[below(kept_count)];
    size_t from = below(other->size + 1), length = below(other->size - from + 1);
    if (below(2) || size + length > INPUT_BYTES) {
        size_t at = below(size + 1);
        length = length < INPUT_BYTES - at ? length : INPUT_BYTES - at;
        memcpy(data + at, other->data + from, length);
        return at + length;
    }
    return insert(data, size, below(size + 1), other->data + from, length);
}

static size_t change(uint8_t *data, size_t size) {
    size_t at = below(size), length = 1 + below(below(16) ? 8 : 1024);
    uint8_t byte = (uint8_t)next_number();
    if (size == 0)
        return insert_word(data, size);
    length = length < size - at ? length : size - at;
    switch (below(9)) {
    case 0:
        data[at] ^= (uint8_t)(1 << below(8));
        return size;
    case 1:
        data[at] = byte;
        return size;
    case 2:
        return overwrite_number(data, size);
    case 3:
        return insert_word(data, size);
    case 4:
        return splice(data, size);
    case 5:
        memmove(data + at, data + at + length, size - at - length);
        return size - length;
    case 6:
        return below(4) ? size : at;
    case 7: {
        uint8_t piece[1024];
        memcpy(piece, data + at, length);
        return insert(data, size, below(size + 1), piece, length);
    }
    default:
        return insert(data, size, at, &byte, 1);
    }
}

/* ---- Trying ---- */

static void keep(const uint8_t *data, size_t size) {
    if (kept_count == KEPT_LIMIT)
        return;
    kept[kept_count] = (struct kept){malloc(size + 1), size};
    if (size)
        memcpy(kept[kept_count].data, data, size);
    kept_count++;
}

/* Tells whether it reached anything new. */
static bool try(const uint8_t *data, size_t size) {
    uint8_t *copy = copy_of(data, size);
    current = copy;
    current_size = size;
    came_from = 0;
    has_reached_more = false;
    if (tried++ % 256 == 0)
        alarm(HANG_S);
    try_input(copy, size);
    current = NULL;
    free_copies();
    return has_reached_more;
}

static void try_file(const char *path) {
    static uint8_t data[INPUT_BYTES];
    FILE *file = fopen(path, "rb");
    if (!file) {
        perror(path);
        exit(2);
    }
    size_t size = fread(data, 1, sizeof data, file);
    fclose(file);
    keep(data, size);
    try(data, size);
}

int main(int argc, char **argv) {
    static uint8_t data[INPUT_BYTES];
    if (argc < 5) {
        fprintf(stderr, "usage: %s SEED COUNT FAILURE FILE...\n", argv[0]);
        return 2;
    }
    state = strtoull(argv[1], NULL, 10);
    size_t count = strtoull(argv[2], NULL, 10);
    failure_path = argv[3];
    __sanitizer_set_death_callback(save);
    signal(SIGALRM, hang);
    signal(SIGABRT, aborted);
    for (int i = 4; i < argc; i++)
        try_file(argv[i]);
    for (size_t i = 0; i < count; i++) {
        const struct kept *from = &kept[below(kept_count)];
        size_t size = from->size;
        memcpy(data, from->data, size);
        for (size_t changes = 1 + below(below(2) ? 2 : 8); changes > 0; changes--)
            size = change(data, size);
        if (try(data, size))
            keep(data, size);
    }
    printf("%zu inputs tried, %zu kept\n", tried, kept_count);
    return 0;
}
