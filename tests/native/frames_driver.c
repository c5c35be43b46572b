/* The frames of a WebSocket (native/frame.h). Input: whether frames are masked, the longest payload / 256, and what was received. */
#include <stdlib.h>

#include "harness.h"

#include "frame.h"

const char *const dictionary[] = {"\x81", "\x82", "\x81\x80", "\x81\xfe", "\x81\xff", "\x81\x7e", "\x82\x7f", NULL};

/* As the RFC says it (5.3). */
static void check_key(const uint8_t *before, const uint8_t *after, size_t size, const uint8_t *key) {
    for (size_t i = 0; i < size; i++)
        check(after[i] == (before[i] ^ key[i % 4]), "every byte is masked with its byte of the key");
}

void try_input(const uint8_t *data, size_t size) {
    struct input input = {data, data + size};
    bool is_masked = take_byte(&input) & 1;
    size_t max_bytes = (size_t)take_byte(&input) << 8;
    size_t received = left_of(&input);
    uint8_t *buffer = copy_of(input.at, received), *at = buffer, *end = buffer + received;
    struct frame frame;
    for (uint8_t *begin = at; take_frame(&at, end, is_masked, max_bytes, &frame); begin = at) {
        check(frame.bytes <= max_bytes, "no frame is longer than allowed");
        check(frame.payload > begin && at == frame.payload + frame.bytes && at <= end, "a frame is in what was received");
        check((frame.key != NULL) == is_masked, "there is a key if frames are masked");
        if (!frame.key)
            continue;
        check(frame.key >= begin + 2 && frame.key + KEY_BYTES == frame.payload, "the key precedes the payload");
        uint8_t *before = copy_of(frame.payload, frame.bytes);
        apply_key(frame.payload, frame.bytes, frame.key);
        check_key(before, frame.payload, frame.bytes, frame.key);
    }
}
