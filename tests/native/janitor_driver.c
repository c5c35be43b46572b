/*
 * The packets to paddock-janitor and the journals of dead ones (native/janitor.c). Input: packets, each with its length before it in
 * two bytes. One that begins with 'j' is instead the journal of a dead janitor, which has left its places, one with 't' lets time
 * pass, one with 'x' makes paths lead elsewhere, and one with 'r' says that all packets before it come again, REPEATS times.
 *
 * The files are real, in the directory SCRATCH of the environment, which stands for the root: no other can be
 * opened, because paths are opened here. The clock is not real, so nobody waits.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "harness.h"

/* In place of native/without_links.h. */
#define PADDOCK_WITHOUT_LINKS_H
static int open_without_links(const char *path);

static int fake_status(int fd, struct stat *status);
static int fake_poll(struct pollfd *events, nfds_t count, int timeout_ms);
static int fake_clock(struct timespec *now);
static ssize_t fake_getrandom(void *to, size_t size);
static ssize_t fake_send(const void *answer, size_t size);

#define fstat(fd, status) fake_status(fd, status)
#define poll(events, count, timeout_ms) fake_poll(events, count, timeout_ms)
#define clock_gettime(clock, now) fake_clock(now)
#define getrandom(to, size, flags) fake_getrandom(to, size)
#define send(fd, answer, size, flags) fake_send(answer, size)
#define main janitor_main

#include "janitor.c"

#undef fstat

const char *const dictionary[] = {
    "h", "d", "l", "m", "j", "t", "x", "d10:a:/a/", "f10:a:/a/", "d10:b:/b/c/", "f10:b:/b/c/", ".git", "d10:a:/a/.git", "f10:a:/a/x",
    ":", "/", "..", ".", "ffffffffffffffff", NULL,
};

/* The directories that places can be in: what items call them, and where they are in the scratch directory. */
static struct ground {
    const char *path, *relative;
    uint64_t device, inode; /* in items */
    struct stat real;
} grounds[] = {{.path = "/a", .relative = "a", .device = 0x10, .inode = 0xa},
               {.path = "/b/c", .relative = "b/c", .device = 0x10, .inode = 0xb}};
enum { GROUNDS = sizeof grounds / sizeof *grounds };

static int scratch = -1;
static bool is_elsewhere;
static int64_t clock_ms;
static uint64_t names_given;
static const char *asked;
static size_t asked_bytes;

static int open_without_links(const char *path) {
    for (struct ground *ground = grounds; ground < grounds + GROUNDS; ground++)
        if (strcmp(path, ground->path) == 0)
            return openat(scratch, grounds[(ground - grounds) ^ is_elsewhere].relative, O_PATH | O_CLOEXEC);
    errno = strlen(path) % 2 ? EACCES : ENOENT;
    return -1;
}

static int fake_status(int fd, struct stat *status) {
    int result = fstat(fd, status);
    for (struct ground *ground = grounds; ground < grounds + GROUNDS; ground++)
        if (result == 0 && status->st_ino == ground->real.st_ino && status->st_dev == ground->real.st_dev) {
            status->st_dev = ground->device;
            status->st_ino = ground->inode;
        }
    return result;
}

static int fake_poll(struct pollfd *events, nfds_t count, int timeout_ms) {
    (void)events;
    (void)count;
    clock_ms += timeout_ms > 0 ? timeout_ms : 0;
    return 0;
}

static int fake_clock(struct timespec *now) {
    *now = (struct timespec){clock_ms / 1000, clock_ms % 1000 * 1000000};
    return 0;
}

static ssize_t fake_getrandom(void *to, size_t size) {
    names_given++;
    memcpy(to, &names_given, size);
    return (ssize_t)size;
}

/* The kind of what is at an item's path; 0 if nothing is there, or the item is none. */
static mode_t kind_at(char *text) {
    struct item item;
    struct stat found;
    if (!read_item(text, &item))
        return 0;
    int directory = open_directory_of(&item);
    mode_t kind = directory >= 0 && fstatat(directory, item.name, &found, AT_SYMLINK_NOFOLLOW) == 0 ? found.st_mode & S_IFMT : 0;
    if (directory >= 0)
        close(directory);
    return kind;
}

static ssize_t fake_send(const void *answer, size_t size) {
    const char *answers = answer;
    size_t items = 0;
    for (size_t at = 1; at < asked_bytes; items++) {
        char *text = copy_of(asked + at, strlen(asked + at) + 1);
        check(items < size, "each item is answered");
        if ((*asked == 'h' || *asked == 'm') && answers[items] == 0 && !is_elsewhere)
            check(kind_at(text) == (*text == 'd' ? S_IFDIR : S_IFREG), "what is held is there, and of the kind that was asked for");
        at += strlen(asked + at) + 1;
    }
    if (*asked == 'm')
        check(items < size && answers[items++] != 0, "without namespaces, nothing is mounted");
    check(items == size, "nothing else is answered");
    return (ssize_t)size;
}

static void begin(void) {
    const char *path = getenv("SCRATCH");
    check(path, "there is a scratch directory");
    scratch = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    mkdirat(scratch, "b", 0700);
    for (struct ground *ground = grounds; ground < grounds + GROUNDS; ground++) {
        mkdirat(scratch, ground->relative, 0700);
        check(fstatat(scratch, ground->relative, &ground->real, 0) == 0, "the scratch directory can be written");
    }
    static char journals_path[4096];
    stpcpy(stpncpy(journals_path, path, sizeof journals_path - 16), "/journals");
    journal_path = journals_path;
}

static void leave_place(char *text) {
    struct item item;
    int directory = read_item(text, &item) ? open_directory_of(&item) : -1;
    if (directory < 0)
        return;
    int fd = make(directory, item.name, item.is_directory);
    if (fd >= 0)
        close(fd);
    close(directory);
}

/* Ended by NUL, behind it if need be. */
static void leave_journal(char *items, size_t size) {
    open_journals();
    if (journals < 0)
        return;
    for (char *item = items; item < items + size; item += strlen(item) + 1)
        leave_place(item);
    int fd = openat(journals, "dead", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    check(fd >= 0 && write(fd, items, size) == (ssize_t)size, "a journal can be written");
    close(fd);
    sweep();
    clear_unused();
    close_cleared();
}

static void check_empty(const char *relative) {
    int fd = openat(scratch, relative, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *directory = fdopendir(fd);
    for (struct dirent *entry; (entry = readdir(directory));)
        check(strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0, "nothing is left behind");
    closedir(directory);
}

/* Enough for packets of 64 KiB to fill a journal. */
enum { REPEATS = 20 };

/* As native/janitor.c reads one: with a NUL behind it. */
static void take_packet(const uint8_t *data, size_t size) {
    char *packet = room_of(size + 1, 1);
    memcpy(packet, data, size);
    switch (*packet) {
    case 'j':
        leave_journal(packet + 1, size - 1);
        return;
    case 't':
        clock_ms += LINGER_MS;
        drop_dead();
        return;
    case 'x':
        is_elsewhere = !is_elsewhere;
        return;
    default:
        /* Of its own: items are changed for a moment while they are read. */
        asked = copy_of(packet, size + 1);
        asked_bytes = size;
        check(serve(packet, size, (const int[]){-1, -1, -1}, false), "an answer that was sent is known to be sent");
    }
}

/* Stops at one that says to repeat; true if there is one. */
static bool take_packets(struct input *input) {
    while (left_of(input)) {
        size_t length = take_byte(input);
        length |= (size_t)take_byte(input) << 8;
        length = length < left_of(input) ? length : left_of(input);
        const uint8_t *packet = input->at;
        input->at += length;
        if (length && *packet == 'r')
            return true;
        if (length)
            take_packet(packet, length);
    }
    return false;
}

void try_input(const uint8_t *data, size_t size) {
    if (scratch < 0)
        begin();
    struct input input = {data, data + size};
    is_leaving = has_left_some = has_parted = is_elsewhere = false;
    if (take_packets(&input)) {
        for (int i = 0; i < REPEATS; i++)
            take_packets(&(struct input){data, data + size});
        take_packets(&input);
    }
    is_elsewhere = false;
    leave();
    check(!placeholders && !cleared && !directories, "at the end nothing is held");
    close(journal.fd);
    journal.fd = -1;
    journal.size = 0;
    for (struct ground *ground = grounds; ground < grounds + GROUNDS; ground++)
        check_empty(ground->relative);
}
