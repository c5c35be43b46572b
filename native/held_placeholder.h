/*
 * The placeholders that a janitor holds: which ones, for how many sandboxes, and until when.
 *
 * The janitor holds a placeholder with a shared flock(2). Each user has one, and only the holder of the exclusive lock
 * may remove the placeholder (clearing.h). The janitor holds those of a killed sandbox LINGER_MS longer, because some
 * of its processes may still run.
 *
 * Privilege: that of the launcher. It creates and opens placeholders in directories that it holds open (item.h), never
 * by a path.
 */
#ifndef PADDOCK_HELD_PLACEHOLDER_H
#define PADDOCK_HELD_PLACEHOLDER_H

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "item.h"
#include "journal.h"
#include "placeholder.h"

static const int launcher = 0; /* the socket */

/* Time between the SIGKILL of a sandbox and the last instruction of its processes. A second is more than enough. */
enum { LINGER_MS = 1000 };

/* While the launcher lives, the janitor tries to remove what no other janitor will remove at longer and longer
 * intervals. It doubles LINGER_MS this often, up to about a minute. */
enum { DOUBLINGS = 6 };

/* Races that the janitor may lose to other janitors in a row, and the pause after each: another janitor needs much less
 * time for a placeholder. A command may hold locks on any number of files for any time, while other launches wait for
 * this process. So the pauses are limited for all placeholders of one packet; the launcher may ask again. */
enum { ATTEMPTS = 100, PAUSES = 10, PAUSE_MS = 1 };
static int pauses; /* that are left */

struct placeholder {
    struct placeholder *next;
    struct directory *directory; /* the directory that contains it */
    int fd;                      /* open on the placeholder */
    unsigned users;              /* sandboxes of this launcher */
    unsigned lingering;          /* of these, those that were killed */
    unsigned attempts;           /* failed attempts to remove it */
    int64_t until_ms;            /* when the last lingering sandbox is dead */
    bool is_directory;
    bool is_locked;
    bool is_orphaned; /* a sandbox whose end nobody reports may still have it locked */
    const char *name; /* in the text */
    char text[];      /* of the item */
};
static struct placeholder *placeholders;

static bool is_leaving; /* the launcher is gone, and its sandboxes die with it */

static int64_t now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static struct placeholder *find(const char *text) {
    struct placeholder *placeholder = placeholders;
    while (placeholder && !is_same_placeholder(placeholder->text, text))
        placeholder = placeholder->next;
    return placeholder;
}

static bool is_in_place(const struct placeholder *placeholder) {
    return is_at(placeholder->fd, placeholder->directory->fd, placeholder->name);
}

/* Returns whether there is room for two descriptors: one to create a placeholder and one to open it. */
static bool has_room(void) {
    int first = dup(launcher), second = dup(launcher);
    bool has_both = first >= 0 && second >= 0;
    if (first >= 0)
        close(first);
    if (second >= 0)
        close(second);
    return has_both;
}

/* Opens a placeholder with a shared lock. If nothing is there, creates it or fails with ENOENT. Returns -1 with errno. */
static int acquire(const char *text, const struct item *item, int directory, bool makes) {
    const char *name = item->name;
    if (!has_room())
        return -1;
    for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
        int fd = makes ? make(directory, name, item->is_directory) : -1;
        bool is_made = fd >= 0;
        if (makes && !is_made && errno != EEXIST && errno != EAGAIN)
            return -1;
        if (!is_made)
            fd = openat(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (fd < 0 && errno == ENXIO && makes && !item->is_directory && remove_stray_socket(directory, name))
            continue;
        if (fd < 0 && (errno != ENOENT || !makes)) {
            /* It belongs to another user, or is no placeholder. */
            if (errno != EACCES && errno != ENOENT)
                errno = EEXIST;
            return -1;
        }
        /* The holder of the exclusive lock is about to remove it. */
        if (fd < 0 || flock(fd, LOCK_SH | LOCK_NB) != 0 || !is_at(fd, directory, name)) {
            if (fd >= 0)
                close(fd);
            if (pauses == 0)
                break;
            pauses--;
            poll(NULL, 0, PAUSE_MS);
            continue;
        }
        if (!is_placeholder(fd, item->is_directory) || (item->is_directory && !is_made && !is_unused(fd))) {
            close(fd);
            /* A new one fails this check only where the file system does not keep modes or owners: nobody would
             * recognize it later. */
            if (is_made && unlinkat(directory, name, item->is_directory ? AT_REMOVEDIR : 0) == 0)
                errno = EOPNOTSUPP;
            else
                errno = EEXIST;
            return -1;
        }
        if (!is_made)
            set_bits(fd, item->is_directory,
                     bits_of(fd) | JOINED_BIT | (is_named_elsewhere(text) ? 0 : STRANGER_BIT));
        if (item->is_directory && is_git(name))
            leave_note(fd);
        return fd;
    }
    errno = EBUSY;
    return -1;
}

/* Adds a placeholder, and takes ownership of the directory and the descriptor. Returns an errno, or 0. */
static int enlist(const char *text, const struct item *item, struct directory *directory, int fd, unsigned users) {
    struct placeholder *placeholder = malloc(sizeof *placeholder + strlen(text) + 1);
    if (!placeholder) {
        close(fd);
        leave_directory(directory);
        return ENOMEM;
    }
    *placeholder = (struct placeholder){.next = placeholders, .directory = directory, .fd = fd, .users = users,
                            .is_directory = item->is_directory, .is_locked = true};
    strcpy(placeholder->text, text);
    placeholder->name = placeholder->text + (item->name - text);
    placeholders = placeholder;
    return 0;
}

static int hold(const char *text, const struct item *item) {
    struct placeholder *placeholder = find(text);
    if (placeholder && placeholder->is_directory == item->is_directory && placeholder->is_locked &&
        is_in_place(placeholder)) {
        placeholder->users++;
        return 0;
    }
    struct directory *directory = enter_directory(item);
    if (!directory)
        return errno == ENOENT || errno == ESTALE ? EEXIST : errno;
    int fd = acquire(text, item, directory->fd, true);
    if (fd < 0) {
        leave_directory(directory);
        return errno;
    }
    if (!placeholder)
        return enlist(text, item, directory, fd, 1);
    /* The janitor left it to others, or somebody removed it although it is needed. In the second case its users end
     * (mask.h). */
    leave_directory(directory);
    give_away_moved(placeholder->fd, placeholder->directory->fd, placeholder->name, placeholder->is_directory);
    close(placeholder->fd);
    placeholder->fd = fd;
    placeholder->is_directory = item->is_directory;
    placeholder->is_locked = true;
    placeholder->users++;
    return 0;
}

/* Creates a socket. The .git beside it holds it; the launcher names that first and holds it as long. */
static int hold_socket(const struct item *item) {
    for (struct placeholder *placeholder = placeholders; placeholder; placeholder = placeholder->next)
        if (placeholder->users > 0 && placeholder->is_locked && is_git(placeholder->name) &&
            placeholder->directory->device == item->device && placeholder->directory->inode == item->inode)
            return make_socket(placeholder->directory->fd, item->name);
    return EEXIST;
}

static int drop(const char *text) {
    struct placeholder *placeholder = find(text);
    if (!placeholder || placeholder->users == placeholder->lingering)
        return ENOENT;
    placeholder->users--;
    return 0;
}

static void keep_a_moment(struct placeholder *placeholder) {
    unsigned doublings = is_leaving ? 0 : placeholder->attempts < DOUBLINGS ? placeholder->attempts : DOUBLINGS;
    placeholder->until_ms = now_ms() + ((int64_t)LINGER_MS << doublings);
}

static int linger(const char *text) {
    struct placeholder *placeholder = find(text);
    if (!placeholder || placeholder->users == placeholder->lingering)
        return ENOENT;
    placeholder->lingering++;
    placeholder->is_orphaned = true;
    keep_a_moment(placeholder);
    return 0;
}

#endif
