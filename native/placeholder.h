/*
 * A placeholder: an empty file or directory in a place where nothing else must be created.
 *
 * It has a mode that nothing else has, so that it can be recognized even after a crash. A .git contains a note for
 * people who find it. This file does not decide who may create or remove one: the caller holds the lock on it
 * (janitor.c).
 *
 * A placeholder is created in its place, never moved there: a move by name would take whatever somebody has put under
 * that name meanwhile. It has to be removed by its name, because there is no other way, after the descriptor has shown
 * that the name refers to it. A process that exchanges it in between can write the directory, and loses only what it
 * could have removed itself: an empty directory, or, in place of a placeholder file, a file.
 *
 * Sockets beside a .git may prevent a bare repository: neither git nor tools that look for packages see a socket, and
 * nobody can open one. So a socket can't be locked either. It belongs to the .git, and both are removed under the lock
 * of the .git.
 *
 * Privilege: that of the caller. Every operation uses a name in a directory that is held open (item.h), and follows no
 * link.
 */
#ifndef PADDOCK_PLACEHOLDER_H
#define PADDOCK_PLACEHOLDER_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* The sticky bit on a private directory, or on a file that nobody writes, means nothing to anybody else. */
enum { DIRECTORY_MODE = S_ISVTX | 0700, FILE_MODE = S_ISVTX | 0400 };
enum { ORDINARY_MODE = 0755, ORDINARY_FILE_MODE = 0644 };

/* JOINED_BIT: a process other than its maker has come to need it. STRANGER_BIT: one of those has a journal that the
 * maker can't see. */
enum { JOINED_BIT = S_IXOTH, STRANGER_BIT = S_IXGRP };

/* A dangling link, because it is cheaper to create than a file, and a listing shows its text. With less than 60
 * characters it fits into an inode of ext4: freeing a block takes ten times as long. */
#define NOTE "PADDOCK"
static const char note[] = "keeps this place while a sandboxed command runs";
_Static_assert(sizeof note <= 60, "the note needs a block of its own");

/* ---- What a placeholder is ---- */

static bool is_at(int fd, int directory, const char *name) {
    struct stat held, found;
    return fstat(fd, &held) == 0 && fstatat(directory, name, &found, AT_SYMLINK_NOFOLLOW) == 0 &&
           held.st_dev == found.st_dev && held.st_ino == found.st_ino;
}

/* Returns whether the file at a name can't be inspected or removed, because a command has closed the directory. */
static bool is_out_of_reach(int directory, const char *name) {
    struct stat found;
    if (fstatat(directory, name, &found, AT_SYMLINK_NOFOLLOW) != 0)
        return errno == EACCES;
    return faccessat(directory, ".", W_OK | X_OK, 0) != 0 && (errno == EACCES || errno == EROFS);
}

static bool is_own(const struct stat *found) {
    return found->st_uid == geteuid() || geteuid() == 0;
}

/* A second link would let somebody write the file. */
static bool is_empty_file(const struct stat *found) {
    return S_ISREG(found->st_mode) && found->st_size == 0 && found->st_nlink == 1;
}

static bool is_placeholder(int fd, bool is_directory) {
    struct stat found;
    if (fstat(fd, &found) != 0 || !is_own(&found))
        return false;
    /* A directory inherits the set-group-ID bit of its parent. */
    mode_t mode = found.st_mode & (S_IFMT | (07777 & ~(S_ISGID | JOINED_BIT | STRANGER_BIT)));
    return is_directory ? mode == (S_IFDIR | DIRECTORY_MODE)
                        : mode == (S_IFREG | FILE_MODE) && is_empty_file(&found);
}

/* Returns whether a file that was a placeholder when it was opened is still unused, though somebody may have changed
 * its mode. */
static bool is_left_alone(int fd, bool is_directory) {
    struct stat found;
    return fstat(fd, &found) == 0 && is_own(&found) &&
           (is_directory ? S_ISDIR(found.st_mode) : S_ISREG(found.st_mode) && found.st_size == 0);
}

static mode_t bits_of(int fd) {
    struct stat found;
    return fstat(fd, &found) == 0 ? found.st_mode & (JOINED_BIT | STRANGER_BIT) : 0;
}

static void set_bits(int fd, bool is_directory, mode_t bits) {
    if (bits_of(fd) != bits)
        fchmod(fd, (is_directory ? DIRECTORY_MODE : FILE_MODE) | bits);
}

/* Returns whether a directory contains nothing but the note. */
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

/* ---- The note ---- */

/* People and programs take an empty .git for a broken repository. The other names mean nothing to them while they are
 * empty, and each note costs as much as its placeholder. git itself treats an empty .git and one with the note alike:
 * neither is a repository, and it looks further up. */
static bool is_git(const char *name) {
    return strcmp(name, ".git") == 0;
}

static void leave_note(int fd) {
    if (symlinkat(note, fd, NOTE) != 0) {
        /* Usually it is there already. If there is no room, there is no note. */
    }
}

static void remove_note(int fd) {
    char text[sizeof note];
    if (readlinkat(fd, NOTE, text, sizeof text) == sizeof note - 1 && memcmp(text, note, sizeof note - 1) == 0)
        unlinkat(fd, NOTE, 0);
}

/* ---- Sockets ---- */

/* git takes a directory with such entries for a bare repository. */
static const char *const socket_names[] = {"HEAD", "refs", "objects", "commondir"};

/* Returns whether a name is a placeholder beside a .git: a socket, or an empty file where the file system has no
 * sockets. */
static bool is_socket_place(int directory, const char *name) {
    struct stat found;
    if (fstatat(directory, name, &found, AT_SYMLINK_NOFOLLOW) != 0 || !is_own(&found))
        return false;
    return found.st_mode == (S_IFSOCK | FILE_MODE) || (found.st_mode == (S_IFREG | FILE_MODE) && is_empty_file(&found));
}

/* Like `is_socket_place` for a socket of any mode: nobody else creates sockets with these names. */
static bool is_socket(int directory, const char *name) {
    struct stat found;
    return fstatat(directory, name, &found, AT_SYMLINK_NOFOLLOW) == 0 && is_own(&found) && S_ISSOCK(found.st_mode);
}

/* Returns an errno, or 0. The caller holds the .git beside it. */
static int make_socket(int directory, const char *name) {
    if (mknodat(directory, name, S_IFSOCK | FILE_MODE, 0) == 0)
        return 0;
    int fd = errno == EEXIST ? -1 : openat(directory, name, O_RDONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, FILE_MODE);
    if (fd >= 0)
        close(fd);
    return fd >= 0 || (errno == EEXIST && is_socket_place(directory, name)) ? 0 : errno;
}

/* Call this with the exclusive lock on the .git beside them. */
static void remove_sockets(int directory) {
    for (size_t i = 0; i < sizeof socket_names / sizeof *socket_names; i++) {
        const char *name = socket_names[i];
        if (!is_socket_place(directory, name) && !is_socket(directory, name))
            continue;
        /* A file may be a separate placeholder with a lock. */
        int fd = openat(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) == 0)
            unlinkat(directory, name, 0);
        if (fd >= 0)
            close(fd);
    }
}

/* Removes a socket that was left, or copied, where no placeholder .git is beside it: nobody needs it. */
static bool remove_stray_socket(int directory, const char *name) {
    if (!is_socket_place(directory, name) || !is_socket(directory, name))
        return false;
    int fd = openat(directory, ".git", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    bool is_needed = fd >= 0 && is_placeholder(fd, true) && is_unused(fd);
    if (fd >= 0)
        close(fd);
    return !is_needed && unlinkat(directory, name, 0) == 0;
}

/* ---- Making placeholders and removing them ---- */

/* Creates a placeholder and returns it open, or -1 with errno: EAGAIN if somebody removed it at once. */
static int make(int directory, const char *name, bool is_directory) {
    if (!is_directory)
        return openat(directory, name, O_RDONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, FILE_MODE);
    if (mkdirat(directory, name, DIRECTORY_MODE) != 0)
        return -1;
    int fd = openat(directory, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        errno = EAGAIN;
    return fd;
}

/* Removes a placeholder, or leaves it to a process that has begun to use it: rmdir(2) itself checks whether a directory
 * is empty. */
static void unmake(int fd, int directory, const char *name, bool is_directory) {
    if (is_git(name))
        remove_sockets(directory);
    if (!is_directory) {
        unlinkat(directory, name, 0);
        return;
    }
    if (is_git(name))
        remove_note(fd);
    if (unlinkat(directory, name, AT_REMOVEDIR) != 0 && is_placeholder(fd, true))
        fchmod(fd, ORDINARY_MODE);
}

/* Turns a placeholder that somebody moved into an ordinary file or directory. */
static void give_away_moved(int fd, int directory, const char *name, bool is_directory) {
    if (is_at(fd, directory, name) || !is_placeholder(fd, is_directory))
        return;
    if (is_directory)
        remove_note(fd);
    fchmod(fd, is_directory ? ORDINARY_MODE : ORDINARY_FILE_MODE);
}

#endif
