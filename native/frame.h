/*
 * The plain frames of a WebSocket: whole messages in one frame each (RFC 6455, 5.2).
 *
 * Reads only the bytes it is given and calls nothing, so tests need no Python. Leaves anything but a whole plain frame
 * to the caller.
 *
 * Privilege: none.
 */
#ifndef PADDOCK_FRAME_H
#define PADDOCK_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* RFC 6455, 5.2: the last frame of a message, without extensions, text or binary. */
#define WHOLE_TEXT 0x81
#define WHOLE_BINARY 0x82
#define MASKED 0x80
#define TWO_BYTES_FOLLOW 126
#define EIGHT_BYTES_FOLLOW 127

enum { KEY_BYTES = 4 };

/* Several registers at once; compilers split it where the processor has smaller ones. */
typedef uint64_t block __attribute__((vector_size(64)));

struct frame {
    unsigned char *payload;
    size_t bytes;
    /* NULL if the peer does not mask. */
    const unsigned char *key;
};

static void
apply_key(unsigned char *data, size_t bytes, const unsigned char *key)
{
    uint32_t word;
    memcpy(&word, key, sizeof word);
    if (word == 0)
        return;
    block blocks = ((uint64_t)word << 32 | word) - (block){0};
    size_t at = 0;
    for (; at + sizeof blocks <= bytes; at += sizeof blocks) {
        block masked;
        memcpy(&masked, data + at, sizeof masked);
        masked ^= blocks;
        memcpy(data + at, &masked, sizeof masked);
    }
    for (; at < bytes; at++)
        data[at] ^= key[at % KEY_BYTES];
}

/* Take the frame at `*at` if it is plain and whole and has the shortest encoding of its length. */
static bool
take_frame(unsigned char **at, const unsigned char *end, bool is_masked, size_t max_bytes, struct frame *frame)
{
    unsigned char *head = *at;
    size_t received = (size_t)(end - head);
    size_t key_bytes = is_masked ? KEY_BYTES : 0;
    if (received < 2 || (head[0] != WHOLE_TEXT && head[0] != WHOLE_BINARY) || !(head[1] & MASKED) == is_masked)
        return false;
    uint64_t bytes = head[1] & ~MASKED;
    size_t head_bytes = 2;
    if (bytes == TWO_BYTES_FOLLOW) {
        head_bytes = 4;
        if (received < head_bytes)
            return false;
        bytes = (uint64_t)head[2] << 8 | head[3];
        if (bytes < TWO_BYTES_FOLLOW)
            return false;
    } else if (bytes == EIGHT_BYTES_FOLLOW) {
        head_bytes = 10;
        if (received < head_bytes)
            return false;
        bytes = 0;
        for (size_t digit = 2; digit < head_bytes; digit++)
            bytes = bytes << 8 | head[digit];
        if (bytes <= UINT16_MAX)
            return false;
    }
    head_bytes += key_bytes;
    if (bytes > max_bytes || received < head_bytes || received - head_bytes < bytes)
        return false;
    frame->payload = head + head_bytes;
    frame->bytes = (size_t)bytes;
    frame->key = is_masked ? frame->payload - KEY_BYTES : NULL;
    *at = frame->payload + frame->bytes;
    return true;
}

#endif
