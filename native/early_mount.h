/*
 * Makes mounts before bubblewrap starts, in the mount namespace that it starts in.
 *
 * Bubblewrap reads the table of all mounts for each mount it makes, which takes seconds for a thousand. This file makes
 * the binds of a path on itself in a directory that bubblewrap shows with all its mounts. The first process of the
 * sandbox verifies them like those of bubblewrap.
 *
 * Privilege: that of the launcher, outside of every sandbox (own_mounts.h). All words come from the launcher.
 */
#ifndef PADDOCK_EARLY_MOUNT_H
#define PADDOCK_EARLY_MOUNT_H

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "own_mounts.h"
#include "task.h"
#include "without_links.h"

/* All exist since Linux 5.12; older headers lack some. */
enum { OPEN_TREE = 428, MOVE_MOUNT = 429, MOUNT_SETATTR = 442 };
enum { TREE_CLONE = 1, TREE_RECURSIVE = 0x8000, TREE_FROM_DESCRIPTOR = 0x04, TREE_TO_DESCRIPTOR = 0x40 };
enum { ATTRIBUTE_READ_ONLY = 1, ATTRIBUTE_NO_SUID = 2, ATTRIBUTE_NO_DEVICES = 4 };

struct mount_attributes {
    uint64_t set, clear, propagation, user_namespace;
};

/* Binds a path on itself, with all mounts in it, as bubblewrap does. Returns false with errno. */
static bool bind_on_itself(const char *path, bool is_read_only) {
    struct mount_attributes wanted = {.set = ATTRIBUTE_NO_SUID | ATTRIBUTE_NO_DEVICES |
                                             (is_read_only ? ATTRIBUTE_READ_ONLY : 0)};
    int place = open_without_links(path);
    if (place < 0)
        return false;
    int tree = (int)syscall(OPEN_TREE, place, "", AT_EMPTY_PATH | TREE_RECURSIVE | TREE_CLONE | O_CLOEXEC);
    bool is_done =
        tree >= 0 &&
        syscall(MOUNT_SETATTR, tree, "", AT_EMPTY_PATH | TREE_RECURSIVE, &wanted, sizeof wanted) == 0 &&
        syscall(MOVE_MOUNT, tree, "", place, "", TREE_FROM_DESCRIPTOR | TREE_TO_DESCRIPTOR) == 0;
    int error = errno;
    close(tree);
    close(place);
    errno = error;
    return is_done;
}

/* Tries it in a child, because a process can't leave a user namespace that lacks the right to mount. */
static bool can_bind(void) {
    int status;
    pid_t child = fork();
    if (child == 0) {
        /* The reason for a failure does not matter. */
        close(2);
        own_mounts();
        _exit(bind_on_itself("/dev", true) ? 0 : 1);
    }
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

static void bind_all(char *list, size_t size) {
    for (char *item = list; item < list + size; item += strlen(item) + 1) {
        bool is_read_only = *item == 'r';
        if ((!is_read_only && *item != 'w') || item[1] != '/')
            errno = EINVAL;
        else if (bind_on_itself(item + 1, is_read_only))
            continue;
        refuse("mount: ", item);
    }
}

/* Returns the paths to mount, or NULL where that is not possible: bubblewrap then gets all of its options. */
static char *take_early(char *value, const char *word, size_t *size) {
    int list = (int)number(&value, 10, ':', word), options = (int)number(&value, 10, ':', word);
    int all_options = (int)number(&value, 10, '\0', word);
    if (can_bind())
        return map_strings(list, size);
    if (syscall(SYS_dup3, all_options, options, 0) < 0)
        refuse("options", "");
    return NULL;
}

#endif
