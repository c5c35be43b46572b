/*
 * Messages to the user: lines on standard error.
 *
 * Privilege: none. The reader of standard error may never read, so this may block forever.
 */
#ifndef PADDOCK_MESSAGE_H
#define PADDOCK_MESSAGE_H

#include <string.h>
#include <sys/uio.h>

enum { MESSAGE_PARTS = 8 };

/* Writes one line, made of the strings up to NULL, MESSAGE_PARTS at most. */
static void say_parts(const char *const *strings) {
    struct iovec parts[MESSAGE_PARTS];
    int count = 0;
    for (; count < MESSAGE_PARTS && strings[count]; count++)
        parts[count] = (struct iovec){.iov_base = (char *)strings[count], .iov_len = strlen(strings[count])};
    if (writev(2, parts, count) < 0) {
        /* Nobody reads. The exit status tells most of it. */
    }
}

#define SAY(...) say_parts((const char *const[]){"paddock: ", __VA_ARGS__, "\n", NULL})

#endif
