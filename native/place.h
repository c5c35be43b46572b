/*
 * A place: an empty file or directory that stands where something must not be made.
 *
 * It has a mode that nothing else has, so that it is known for what it is even after a
 * crash. A .git holds a note for whoever finds it, from the first moment to the last: it
 * is made and taken apart beside its place, and moved. Who may do so is not decided
 * here: the caller has the lock on it (janitor.c).
 *
 * Privilege: that of the caller. No link is followed at the end of a path.
 */
#ifndef PADDOCK_PLACE_H
#define PADDOCK_PLACE_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The sticky bit on a private directory, or on a file that nobody writes, means nothing to anybody else. */
enum { DIRECTORY_MODE = S_ISVTX | 0700, FILE_MODE = S_ISVTX | 0400 };
enum { ORDINARY_MODE = 0755, ORDINARY_FILE_MODE = 0644 };

/* Set when another than its maker has come to need a place, and of these one whose journal its maker can't see. */
enum { JOINED_BIT = S_IXOTH, STRANGER_BIT = S_IXGRP };

/* A link that leads nowhere, for it is cheaper to make than a file, and a listing shows what it says. With less than
 * 60 characters it fits into an inode of ext4: to free a block takes ten times as long. */
#define NOTE "PADDOCK"
static const char note[] = "keeps this place while a sandboxed command runs";
_Static_assert(sizeof note <= 60, "the note needs a block of its own");

/* ---- What a place is ---- */

static bool is_at(int fd, const char *path) {
    struct stat held, found;
    return fstat(fd, &held) == 0 && lstat(path, &found) == 0 && held.st_dev == found.st_dev &&
           held.st_ino == found.st_ino;
}

/* Whether it can't be told what is at a path: a command has closed a directory above it. */
static bool is_out_of_reach(const char *path) {
    struct stat found;
    return lstat(path, &found) != 0 && errno == EACCES;
}

static bool is_place(int fd, bool is_directory) {
    struct stat found;
    if (fstat(fd, &found) != 0 || (found.st_uid != geteuid() && geteuid() != 0))
        return false;
    /* A directory takes over the set-group-ID bit of its parent. */
    mode_t mode = found.st_mode & (S_IFMT | (07777 & ~(S_ISGID | JOINED_BIT | STRANGER_BIT)));
    return is_directory ? mode == (S_IFDIR | DIRECTORY_MODE)
                        : mode == (S_IFREG | FILE_MODE) && found.st_size == 0;
}

static mode_t bits_of(int fd) {
    struct stat found;
    return fstat(fd, &found) == 0 ? found.st_mode & (JOINED_BIT | STRANGER_BIT) : 0;
}

static void set_bits(int fd, bool is_directory, mode_t bits) {
    if (bits_of(fd) != bits)
        fchmod(fd, (is_directory ? DIRECTORY_MODE : FILE_MODE) | bits);
}

/* People and programs take an empty .git for a broken repository; the other names mean nothing to them
 * while they are empty, and each note costs as much as its place. */
static bool has_note(const char *path) {
    size_t length = strlen(path);
    return length > 5 && strcmp(path + length - 5, "/.git") == 0;
}

/* Whether a directory holds nothing but the note. */
static bool is_unused(int fd) {
    int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *directory = copy >= 0 ? fdopendir(copy) : NULL;
    bool is_empty = directory;
    for (struct dirent *entry; is_empty && (entry = readdir(directory));)
        is_empty = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
                   strcmp(entry->d_name, NOTE) == 0;
    if (directory)
        closedir(directory);
    return is_empty;
}

/* ---- Making places and taking them apart ---- */

/* The same for all, so that what was left there by a janitor that was killed is used by the next. */
static bool name_beside(const char *path, char beside[PATH_MAX]) {
    return snprintf(beside, PATH_MAX, "%s-paddock", path) < PATH_MAX;
}

static bool move(const char *from, const char *to) {
    return syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0;
}

/* Opens the directory beside a path, made if need be, with an exclusive lock. Returns -1 with EAGAIN if another
 * janitor is at it, with EEXIST if something else has the name: any command may have made that, and what is in it
 * must not come to the place. */
static int open_beside(const char *beside) {
    bool is_new = mkdir(beside, DIRECTORY_MODE) == 0;
    if (!is_new && errno != EEXIST)
        return -1;
    int fd = open(beside, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        errno = errno == ENOENT ? EAGAIN : EEXIST;
        return -1;
    }
    if (!is_place(fd, true)) {
        /* A file system that does not keep modes. */
        if (is_new)
            rmdir(beside);
        errno = EEXIST;
    } else if (flock(fd, LOCK_EX | LOCK_NB) != 0 || !is_at(fd, beside))
        errno = EAGAIN;
    else if (!is_unused(fd))
        errno = EEXIST;
    else
        return fd;
    int error = errno;
    close(fd);
    errno = error;
    return -1;
}

/* Makes a directory with the note in it, or in the worst case without. With EAGAIN another janitor is at it. */
static bool make_with_note(const char *path) {
    char beside[PATH_MAX];
    int fd = name_beside(path, beside) ? open_beside(beside) : -1;
    if (fd < 0 && errno == EAGAIN)
        return false;
    bool is_made = fd >= 0 && (symlinkat(note, fd, NOTE) == 0 || errno == EEXIST) && move(beside, path);
    bool is_taken = !is_made && fd >= 0 && errno == EEXIST;
    if (fd >= 0 && !is_made) {
        unlinkat(fd, NOTE, 0);
        rmdir(beside);
    }
    if (fd >= 0)
        close(fd);
    /* Somebody else's file has the name, the file system can't move without replacing, or is full: then it is made in
     * its place, where somebody might see it empty for an instant. */
    if (!is_made && !is_taken)
        return mkdir(path, DIRECTORY_MODE) == 0;
    errno = EEXIST;
    return is_made;
}

static bool make(const char *path, bool is_directory) {
    struct stat found;
    if (is_directory && has_note(path)) {
        errno = EEXIST;
        return lstat(path, &found) != 0 && make_with_note(path);
    }
    if (is_directory)
        return mkdir(path, DIRECTORY_MODE) == 0;
    int fd = open(path, O_RDONLY | O_CREAT | O_EXCL | O_CLOEXEC, FILE_MODE);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

/* Removes a directory, or leaves it to whoever has begun to use it. */
static void take_apart(int fd, const char *path) {
    char beside[PATH_MAX];
    const char *place = path;
    /* rmdir(2) looks for itself whether a directory is empty. */
    if (has_note(path) && is_unused(fd) && name_beside(path, beside) && move(path, beside))
        place = beside;
    if (has_note(path))
        unlinkat(fd, NOTE, 0);
    if (rmdir(place) == 0)
        return;
    fchmod(fd, ORDINARY_MODE);
    if (place != path)
        move(beside, path);
}

/* Leaves what was moved from its path to whoever did so, as a file or directory like others. */
static void give_away_moved(int fd, const char *path, bool is_directory) {
    if (is_at(fd, path) || !is_place(fd, is_directory))
        return;
    if (is_directory)
        unlinkat(fd, NOTE, 0);
    fchmod(fd, is_directory ? ORDINARY_MODE : ORDINARY_FILE_MODE);
}

/* Removes what a janitor that was killed has left beside a place, unless another is at it. */
static void clear_beside(const char *path) {
    char beside[PATH_MAX];
    if (!has_note(path) || !name_beside(path, beside))
        return;
    int fd = open(beside, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0 && is_at(fd, beside) && is_place(fd, true) && is_unused(fd)) {
        unlinkat(fd, NOTE, 0);
        rmdir(beside);
    }
    close(fd);
}

#endif
