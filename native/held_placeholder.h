/*
 * The placeholders that a janitor holds: which, for how many sandboxes, and until when.
 *
 * A placeholder is held by a shared flock(2) on it. Whoever needs it has one, and whoever removes it must get the
 * exclusive one (clearing.h). Those of a sandbox that was killed are held LINGER_MS longer, because it may not be quite dead.
 *
 * Privilege: that of the launcher. Places are made and opened in directories that are held open (item.h), never by a path.
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

/* Between the SIGKILL of a sandbox and the last instruction of its processes; a second is an age for that. */
enum { LINGER_MS = 1000 };

/* While the launcher lives, attempts to clear away what no other janitor will come at longer and longer intervals:
 * LINGER_MS doubled so often, which is about a minute. */
enum { DOUBLINGS = 6 };

/* Races that can be lost to other janitors in a row, and the pause after each: what another does to a placeholder takes
 * much less. A command may hold a lock for as long as it likes, on as many files as it likes, while other launches wait
 * for this process. So there are so many pauses for all placeholders of one packet; the launcher may ask again. */
enum { ATTEMPTS = 100, PAUSES = 10, PAUSE_MS = 1 };
static int pauses; /* that are left */

struct placeholder {
    struct placeholder *next;
    struct directory *directory; /* that it is in */
    int fd;                      /* open on the placeholder */
    unsigned users;              /* sandboxes of this launcher */
    unsigned lingering;          /* of these, those that were killed */
    unsigned attempts;           /* to clear it away, in vain */
    int64_t until_ms;            /* when the last of the lingering is dead */
    bool is_directory;
    bool is_locked;
    bool is_orphaned; /* a sandbox may still have it locked whose end nobody reports */
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

/* Whether a placeholder can be opened after it was made: making needs a descriptor, too. */
static bool has_room(void) {
    int first = dup(launcher), second = dup(launcher);
    bool has_both = first >= 0 && second >= 0;
    if (first >= 0)
        close(first);
    if (second >= 0)
        close(second);
    return has_both;
}

/* Opens a placeholder with a shared lock; if nothing is there, makes it or fails with ENOENT. Returns -1 with errno. */
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
            /* Of another user, or no placeholder at all. */
            if (errno != EACCES && errno != ENOENT)
                errno = EEXIST;
            return -1;
        }
        /* Whoever has the exclusive lock is about to remove it. */
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
            /* What was made just now is none only where modes or owners are not kept: nobody would know it later. */
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

/* Takes over the directory and the descriptor. Returns an errno, or 0. */
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
    /* It was left to others, or somebody has taken it away though it is needed: then those that needed it end
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

/* A socket is held by the .git beside it, which the launcher names first and holds for as long. */
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
