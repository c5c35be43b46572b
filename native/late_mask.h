/*
 * Mounts placeholders in a sandbox that waits for its command, each read-only on itself.
 *
 * An unused sandbox holds no placeholder in the tree. When its command arrives, the janitor creates them, and a child
 * of the janitor enters the mount namespace of the sandbox and the user namespace that owns it. There it opens each
 * placeholder without following links, checks that it is the one that the janitor holds, and then acts on descriptors
 * alone. The first process of the sandbox checks afterwards that all of them are in place (waiting.h).
 *
 * Privilege: entering the user namespace of a sandbox of the same user gives every capability in it, and none outside.
 * The child does nothing else, runs no program and exits.
 */
#ifndef PADDOCK_LATE_MASK_H
#define PADDOCK_LATE_MASK_H

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "held_placeholder.h"
#include "item.h"
#include "without_links.h"

/* Since Linux 5.2 and 5.12 on every machine (open_tree(2), move_mount(2), mount_setattr(2)); older headers lack them. */
enum { OPEN_TREE = 428, MOVE_MOUNT = 429, MOUNT_SETATTR = 442 };
enum { TREE_CLONE = 1, BOTH_BY_DESCRIPTOR = 0x04 | 0x40 };
enum { READ_ONLY = 1, WITHOUT_SET_USER_ID = 2, WITHOUT_DEVICES = 4 };

struct mount_attributes {
    uint64_t set, clear, propagation, user_namespace;
};

static bool is_same_file(int fd, int other) {
    struct stat found, expected;
    return fstat(fd, &found) == 0 && fstat(other, &expected) == 0 && found.st_dev == expected.st_dev &&
           found.st_ino == expected.st_ino;
}

/* Returns an errno, or 0. Closes nothing, because the process exits after the last. */
static int mask_placeholder(const struct placeholder *placeholder, const char *path) {
    struct mount_attributes attributes = {.set = READ_ONLY | WITHOUT_SET_USER_ID | WITHOUT_DEVICES};
    int at = open_without_links(path);
    if (at < 0)
        return errno;
    if (!is_same_file(at, placeholder->fd))
        return ESTALE;
    int tree = (int)syscall(OPEN_TREE, at, "", AT_EMPTY_PATH | TREE_CLONE | O_CLOEXEC);
    if (tree < 0 || syscall(MOUNT_SETATTR, tree, "", AT_EMPTY_PATH, &attributes, sizeof attributes) != 0 ||
        syscall(MOVE_MOUNT, tree, "", at, "", BOTH_BY_DESCRIPTOR) != 0)
        return errno;
    return 0;
}

/* Masks the items up to `end`, which the janitor holds. Returns an errno, or 0. */
static int mask_all(char *items, const char *end, const int namespaces[2]) {
    if (setns(namespaces[0], CLONE_NEWUSER) != 0 || setns(namespaces[1], CLONE_NEWNS) != 0)
        return errno;
    for (char *text = items; text < end; text += strlen(text) + 1) {
        struct item item;
        const struct placeholder *placeholder = find(text);
        int problem = !placeholder || !read_item(text, &item) ? EINVAL : mask_placeholder(placeholder, item.path);
        if (problem)
            return problem;
    }
    return 0;
}

/* Masks held placeholders in the sandbox with these user and mount namespaces. Returns an errno, or 0.
 *
 * The child shares the memory of the janitor, which waits meanwhile: copying it would take as long as all the mounts.
 * Nothing can reach that memory through the child, because only the init runs in the sandbox so far. The kernel makes
 * the memory undumpable when the child changes its credentials, and nobody needs to trace a janitor. */
static int mask_late(char *items, const char *end, const int namespaces[2]) {
    int status;
    pid_t child = vfork();
    if (child < 0)
        return errno;
    if (child == 0)
        _exit(mask_all(items, end, namespaces));
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return errno;
    return WIFEXITED(status) ? WEXITSTATUS(status) : EIO;
}

#endif
