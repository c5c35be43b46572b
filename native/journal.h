/*
 * A file that lists the placeholders a janitor may have created, and that outlives the janitor.
 *
 * Every janitor has its own journal, and the lock on it. If another janitor can lock a journal, its owner was killed,
 * and everything it lists may be left behind. A janitor lists a placeholder before it creates it, so every leftover is
 * in a journal. Listing one that does not exist does no harm. Where no journal can be written, janitors create
 * placeholders all the same. Then only the next command that needs one takes it over.
 *
 * A journal is a sequence of items (item.h), each ended by NUL. A path in it may be old and lead elsewhere by now; the
 * item identifies the directory.
 *
 * Privilege: that of the caller. Only its user may write to the directory. It is opened once, and journals are names in
 * it.
 */
#ifndef PADDOCK_JOURNAL_H
#define PADDOCK_JOURNAL_H

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "item.h"
#include "placeholder.h"

/* More than ten thousand ordinary paths; a command holds a few hundred at most. */
enum { JOURNAL_BYTES = 1 << 20 };

static const char *journal_path; /* of the directory, or NULL */
static int journals = -1;       /* the directory, once it is open */
static struct {
    int fd; /* -1: none */
    size_t size;
    char name[NUMBER_BYTES];
} journal = {.fd = -1};

/* Opens the directory, if it is there and nobody else may write to it. */
static void open_journals(void) {
    struct stat found;
    if (!journal_path || journals >= 0)
        return;
    journals = open(journal_path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (journals >= 0 && (fstat(journals, &found) != 0 || found.st_uid != geteuid() || found.st_mode & 022)) {
        close(journals);
        journals = -1;
    }
}

/* Lists the directory from its beginning; NULL if there is none. */
static DIR *list_journals(void) {
    open_journals();
    int copy = journals >= 0 ? openat(journals, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    DIR *list = copy >= 0 ? fdopendir(copy) : NULL;
    if (!list && copy >= 0)
        close(copy);
    return list;
}

static void open_journal(void) {
    uint64_t number;
    char digits[NUMBER_BYTES];
    if (!journal_path || journal.fd >= 0)
        return;
    if (journals < 0)
        mkdir(journal_path, 0700);
    open_journals();
    while (journals >= 0 && getrandom(&number, sizeof number, 0) >= 0) {
        strcpy(journal.name, number_text(digits, number, 16, 16));
        int fd = openat(journals, journal.name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd < 0)
            return;
        if (flock(fd, LOCK_EX | LOCK_NB) == 0 && is_at(fd, journals, journal.name)) {
            journal.fd = fd;
            return;
        }
        /* Another janitor took it for a leftover before it was locked. */
        close(fd);
    }
}

/* Reads all items and adds a NUL, because the last may be cut off. Returns their length. */
static size_t read_journal(int fd, char items[JOURNAL_BYTES + 1]) {
    size_t length = 0;
    for (ssize_t n; (n = pread(fd, items + length, JOURNAL_BYTES - length, (off_t)length)) > 0;)
        length += (size_t)n;
    items[length] = '\0';
    return length;
}

/* Appends everything, or nothing. */
static void write_journal(const char *items, size_t length) {
    ssize_t n = pwrite(journal.fd, items, length, (off_t)journal.size);
    if (n == (ssize_t)length)
        journal.size += length;
    else if (ftruncate(journal.fd, (off_t)journal.size) != 0)
        journal.size = (size_t)lseek(journal.fd, 0, SEEK_END);
}

/* Returns whether the placeholder of an item still exists, or may exist below a closed directory. */
static bool may_be_there(char *text) {
    struct item item;
    struct stat found;
    if (!read_item(text, &item))
        return false;
    int directory = open_directory_of(&item);
    if (directory < 0)
        return errno == EACCES;
    bool is_there = fstatat(directory, item.name, &found, AT_SYMLINK_NOFOLLOW) == 0 || errno == EACCES;
    close(directory);
    return is_there;
}

/* Removes the items that no longer exist. If the janitor is killed meanwhile, some items remain twice. */
static void shorten_journal(void) {
    if (journal.fd < 0)
        return;
    static char items[JOURNAL_BYTES + 1];
    size_t length = read_journal(journal.fd, items), kept = 0;
    for (char *item = items, *next; item < items + length; item = next) {
        next = item + strlen(item) + 1;
        if (may_be_there(item)) {
            memmove(items + kept, item, (size_t)(next - item));
            kept += (size_t)(next - item);
        }
    }
    journal.size = 0;
    write_journal(items, kept);
    if (ftruncate(journal.fd, (off_t)journal.size) != 0)
        journal.size = length;
}

/* Returns whether another journal lists a placeholder: its janitor may need it, or may have been killed. */
static bool is_named_elsewhere(const char *text) {
    static char items[JOURNAL_BYTES + 1];
    bool is_named = false;
    DIR *list = list_journals();
    for (struct dirent *entry; list && !is_named && (entry = readdir(list));) {
        int fd = openat(journals, entry->d_name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (fd >= 0 && !(journal.fd >= 0 && strcmp(entry->d_name, journal.name) == 0)) {
            size_t length = read_journal(fd, items);
            for (char *item = items; !is_named && item < items + length; item += strlen(item) + 1)
                is_named = is_same_placeholder(item, text);
        }
        if (fd >= 0)
            close(fd);
    }
    if (list)
        closedir(list);
    return is_named;
}

/* Call this before creating the placeholders. */
static void note_in_journal(const char *items, size_t length) {
    open_journal();
    if (journal.fd < 0 || length == 0)
        return;
    if (journal.size + length > JOURNAL_BYTES)
        shorten_journal();
    if (journal.size + length <= JOURNAL_BYTES)
        write_journal(items, length);
}

/* Call this when nothing in the journal is left. */
static void empty_journal(void) {
    if (journal.fd >= 0 && journal.size > 0 && ftruncate(journal.fd, 0) == 0)
        journal.size = 0;
}

/* Leaves the remaining items to the next janitor. */
static void close_journal(void) {
    if (journal.fd >= 0 && journal.size == 0)
        unlinkat(journals, journal.name, 0);
}

#endif
