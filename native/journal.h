/*
 * The placeholders that a janitor may have made, in a file that outlives it.
 *
 * Every janitor has a journal of its own, and the lock on it. One that another janitor can
 * lock is of a janitor that was killed, and whatever it names may be left behind. A placeholder
 * is named before it is made, so none is left that no journal names; to name what
 * is not there does no harm. Where no journal can be written, placeholders are made all the
 * same: then the next command that needs one takes it over, and nobody else.
 *
 * A journal is a sequence of items (item.h), each ended by NUL. A path in it is of an earlier time and may
 * lead elsewhere by now; the item tells which directory was meant.
 *
 * Privilege: that of the caller, whose user alone may write to the directory. It is opened once, and journals are
 * names in it.
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

/* More than ten thousand usual paths; a command holds some hundred at most. */
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

/* Whether the placeholder of an item is still there, or a directory above it is closed, so that nobody can tell. */
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

/* Leaves out what is not there any more. Killed meanwhile, it leaves some items twice. */
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

/* Whether another journal names a placeholder: its janitor may need it, or have been killed. */
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

/* To be called before the placeholders are made. */
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
        unlinkat(journals, journal.name, 0);
}

#endif
