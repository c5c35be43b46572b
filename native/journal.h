/*
 * The places that a janitor may have made, in a file that outlives it.
 *
 * Every janitor has a journal of its own, and the lock on it. One that another janitor can
 * lock is of a janitor that was killed, and whatever it names may be left behind. A place
 * is named before it is made, so none is left that no journal names; to name what
 * is not there does no harm. Where no journal can be written, places are made all the
 * same: then the next command that needs one takes it over, and nobody else.
 *
 * A journal is a sequence of items: 'd' or 'f', path, NUL.
 *
 * Privilege: that of the caller, whose user alone may write to the directory.
 */
#ifndef PADDOCK_JOURNAL_H
#define PADDOCK_JOURNAL_H

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "place.h"

/* More than ten thousand usual paths; a command holds some hundred at most. */
enum { JOURNAL_BYTES = 1 << 20 };

static const char *journal_directory;
static struct {
    int fd; /* -1: none */
    size_t size;
    char path[PATH_MAX];
} journal = {.fd = -1};

static void open_journal(void) {
    uint64_t number;
    if (!journal_directory || journal.fd >= 0)
        return;
    mkdir(journal_directory, 0700);
    for (;;) {
        if (getrandom(&number, sizeof number, 0) < 0 ||
            snprintf(journal.path, PATH_MAX, "%s/%016llx", journal_directory, (unsigned long long)number) >= PATH_MAX)
            return;
        int fd = open(journal.path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (fd < 0)
            return;
        if (flock(fd, LOCK_EX | LOCK_NB) == 0 && is_at(fd, journal.path)) {
            journal.fd = fd;
            return;
        }
        /* Another has taken it for one that was left, before it was locked. */
        close(fd);
    }
}

/* Reads all items, of which the last may not be whole, and ends them. Returns their length. */
static size_t read_journal(int fd, char items[JOURNAL_BYTES + 1]) {
    size_t length = 0;
    for (ssize_t n; (n = pread(fd, items + length, JOURNAL_BYTES - length, (off_t)length)) > 0;)
        length += (size_t)n;
    items[length] = '\0';
    return length;
}

/* Writes at the end, or nothing at all. */
static void write_journal(const char *items, size_t length) {
    ssize_t n = pwrite(journal.fd, items, length, (off_t)journal.size);
    if (n == (ssize_t)length)
        journal.size += length;
    else if (ftruncate(journal.fd, (off_t)journal.size) != 0)
        journal.size = (size_t)lseek(journal.fd, 0, SEEK_END);
}

/* Leaves out what is not there any more. Killed meanwhile, it leaves some items twice. */
static void shorten_journal(void) {
    if (journal.fd < 0)
        return;
    static char items[JOURNAL_BYTES + 1];
    size_t length = read_journal(journal.fd, items), kept = 0;
    struct stat found;
    for (char *item = items, *next; item < items + length; item = next) {
        next = item + strlen(item) + 1;
        if (lstat(item + 1, &found) == 0 || errno == EACCES) {
            memmove(items + kept, item, (size_t)(next - item));
            kept += (size_t)(next - item);
        }
    }
    journal.size = 0;
    write_journal(items, kept);
    if (ftruncate(journal.fd, (off_t)journal.size) != 0)
        journal.size = length;
}

/* Whether another journal names a path: its janitor may need the place there, or have been killed. */
static bool is_named_elsewhere(const char *path) {
    static char items[JOURNAL_BYTES + 1];
    bool is_named = false;
    DIR *directory = journal_directory ? opendir(journal_directory) : NULL;
    for (struct dirent *entry; directory && !is_named && (entry = readdir(directory));) {
        int fd = openat(dirfd(directory), entry->d_name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (fd >= 0 && !(journal.fd >= 0 && is_at(fd, journal.path))) {
            size_t length = read_journal(fd, items);
            for (char *item = items; !is_named && item < items + length; item += strlen(item) + 1)
                is_named = strcmp(item + 1, path) == 0;
        }
        if (fd >= 0)
            close(fd);
    }
    if (directory)
        closedir(directory);
    return is_named;
}

/* To be called before the places are made. */
static void note_in_journal(const char *items, size_t length) {
    open_journal();
    if (journal.fd < 0 || length == 0)
        return;
    if (journal.size + length > JOURNAL_BYTES)
        shorten_journal();
    if (journal.size + length <= JOURNAL_BYTES)
        write_journal(items, length);
}

/* Nothing that it names is left. */
static void empty_journal(void) {
    if (journal.fd >= 0 && journal.size > 0 && ftruncate(journal.fd, 0) == 0)
        journal.size = 0;
}

/* What it still names is for the next janitor. */
static void close_journal(void) {
    if (journal.fd >= 0 && journal.size == 0)
        unlink(journal.path);
}

#endif
