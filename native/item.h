/*
 * Items identify placeholders and their directories in packets and journals.
 *
 *     'd' or 'f', DEVICE ':' INODE ':' PATH      numbers in lower-case hexadecimal digits
 *
 * DEVICE and INODE are those of the directory in the launcher's plan. A path leads elsewhere as soon as somebody
 * exchanges one of its directories, so the janitor never acts on a path alone. It opens the directory without following
 * links, checks that it is the planned one, and keeps it open as long as it has a placeholder in it. Everything else
 * uses names in that descriptor. If somebody moves the directory meanwhile, the janitor acts in its new place. It is
 * still the planned directory, and nobody can move a directory to or from a place that he may not write himself.
 *
 * Privilege: that of the caller.
 */
#ifndef PADDOCK_ITEM_H
#define PADDOCK_ITEM_H

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "number.h"
#include "without_links.h"

struct item {
    bool is_directory;
    bool is_socket;
    uint64_t device, inode; /* of its directory */
    char *path, *name;      /* in the text */
};

/* Parses an item. Returns false if the text is malformed. */
static bool read_item(char *text, struct item *item) {
    item->is_directory = *text == 'd';
    item->is_socket = *text == 's';
    if (*text != 'd' && *text != 'f' && *text != 's')
        return false;
    text++;
    if (!read_number(&text, 16, &item->device) || *text++ != ':' || !read_number(&text, 16, &item->inode) ||
        *text++ != ':' || *text != '/')
        return false;
    item->path = text;
    item->name = strrchr(text, '/') + 1;
    return *item->name && strcmp(item->name, ".") != 0 && strcmp(item->name, "..") != 0;
}

/* Returns whether two texts name the same placeholder, of whatever kind. */
static bool is_same_placeholder(const char *text, const char *other) {
    return *text && *other && strcmp(text + 1, other + 1) == 0;
}

/* Opens the directory of an item. Returns -1 with errno: ESTALE if it is another directory now, or a link is on the
 * way. */
static int open_directory_of(const struct item *item) {
    struct stat found;
    char *end = item->name - 1;
    *end = '\0';
    int fd = open_without_links(item->path);
    *end = '/';
    if (fd < 0) {
        if (errno == ELOOP || errno == ENOTDIR)
            errno = ESTALE;
        return -1;
    }
    if (fstat(fd, &found) == 0 && S_ISDIR(found.st_mode) && found.st_dev == item->device &&
        found.st_ino == item->inode)
        return fd;
    close(fd);
    errno = ESTALE;
    return -1;
}

struct directory {
    struct directory *next;
    int fd;
    unsigned placeholders;
    uint64_t device, inode;
    size_t length;
    char path[];
};
static struct directory *directories;

/* Returns the directory of an item for one more placeholder, or NULL with errno. Pair it with `leave_directory`. */
static struct directory *enter_directory(const struct item *item) {
    size_t length = (size_t)(item->name - item->path);
    struct directory *directory = directories;
    while (directory && !(directory->device == item->device && directory->inode == item->inode &&
                          directory->length == length && memcmp(directory->path, item->path, length) == 0))
        directory = directory->next;
    if (directory) {
        directory->placeholders++;
        return directory;
    }
    int fd = open_directory_of(item);
    if (fd < 0)
        return NULL;
    directory = malloc(sizeof *directory + length);
    if (!directory) {
        close(fd);
        errno = ENOMEM;
        return NULL;
    }
    *directory = (struct directory){.next = directories, .fd = fd, .placeholders = 1, .device = item->device,
                                    .inode = item->inode, .length = length};
    memcpy(directory->path, item->path, length);
    directories = directory;
    return directory;
}

/* Preserves errno. */
static void leave_directory(struct directory *directory) {
    int error = errno;
    if (--directory->placeholders == 0) {
        struct directory **link = &directories;
        while (*link != directory)
            link = &(*link)->next;
        *link = directory->next;
        close(directory->fd);
        free(directory);
    }
    errno = error;
}

#endif
