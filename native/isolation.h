/*
 * Checks whether mounts made elsewhere would appear in this mount namespace.
 *
 * Privilege: that of the caller.
 */
#ifndef PADDOCK_ISOLATION_H
#define PADDOCK_ISOLATION_H

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <unistd.h>

#include "task.h"

/* Number of the first tag in a line of the table of mounts, proc_pid_mountinfo(5). A "-" follows the tags. No field has
 * a space. */
enum { FIRST_TAG = 6, NO_TAGS = -1 };

/* Returns whether a mount in the table receives mounts made elsewhere: its tag says "shared:" or "master:". */
static bool has_receiver(int table) {
    char text[4096], before = '\n';
    ssize_t count;
    int field = 0;
    while ((count = read(table, text, sizeof text)) > 0) {
        for (const char *at = text; at < text + count; before = *at++) {
            bool is_start = before == ' ' || before == '\n';
            if (*at == '\n')
                field = 0;
            else if (*at == ' ')
                field += field != NO_TAGS;
            else if (is_start && field >= FIRST_TAG && *at == '-')
                field = NO_TAGS;
            else if (is_start && field >= FIRST_TAG && (*at == 's' || *at == 'm'))
                return true;
        }
    }
    if (count < 0)
        refuse("mounts", "");
    return false;
}

/* The launcher has checked that the host has no such mounts, but perhaps too early. */
static void verify_isolation(void) {
    int table = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);
    if (table < 0)
        refuse("mounts", "");
    if (has_receiver(table)) {
        errno = EOPNOTSUPP;
        refuse("what the host mounts would appear in the sandbox", "");
    }
    close(table);
}

#endif
