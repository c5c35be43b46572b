/*
 * Messages to the user: lines on standard error.
 *
 * Nothing in a name that somebody else chose ends the line or reaches a terminal as a control. Nor does a message keep
 * its program from going on: nobody may read, or the terminal may be stopped (tcflow(3)), by the command itself too.
 *
 * Privilege: none.
 */
#ifndef PADDOCK_MESSAGE_H
#define PADDOCK_MESSAGE_H

#include <poll.h>
#include <unistd.h>

#include "text.h"

/* What a pipe takes in one piece, and without waiting where poll(2) finds room (PIPE_BUF, pipe(7)). */
enum { MESSAGE_PIECE_BYTES = 4096 };

/* For a reader that takes nothing; one that reads at all takes milliseconds. */
enum { MESSAGE_PATIENCE_MS = 2000 };

/* Writes what is there, and returns whether that went well. If not, the exit status tells most of it. Waits for one
 * message only, however many follow. */
static bool say_piece(struct text *piece) {
    static bool is_unread;
    struct pollfd reader = {.fd = 2, .events = POLLOUT};
    size_t size = piece->size;
    piece->size = 0;
    is_unread = poll(&reader, 1, is_unread ? 0 : MESSAGE_PATIENCE_MS) == 0;
    return !is_unread && write(2, piece->room, size) == (ssize_t)size;
}

/* Writes one line, made of the strings up to NULL. */
static void say_parts(const char *const *strings) {
    char room[MESSAGE_PIECE_BYTES];
    struct text piece = {.room = room};
    put(&piece, "paddock: ");
    for (; *strings; strings++)
        for (const char *at = *strings; *at; at = put_printable(&piece, at))
            if (piece.size > sizeof room - PRINTABLE_BYTES - 1 && !say_piece(&piece))
                return;
    put_byte(&piece, '\n');
    say_piece(&piece);
}

#define SAY(...) say_parts((const char *const[]){__VA_ARGS__, NULL})

#endif
