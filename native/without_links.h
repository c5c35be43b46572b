/*
 * Opens paths that contain no symbolic link.
 *
 * Another command may at any moment replace a directory that it can write with a link. To act on a path that others can
 * change, open it here, verify the descriptor, and then act on the descriptor alone.
 *
 * Privilege: that of the caller.
 */
#ifndef PADDOCK_WITHOUT_LINKS_H
#define PADDOCK_WITHOUT_LINKS_H

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* openat2(2), since Linux 5.6; older headers lack it. */
enum { OPENAT2 = 437, NO_LINKS = 0x04 };

/* Like `open_without_links`, one name after the other. */
static int walk_without_links(const char *path) {
    int directory = open("/", O_PATH | O_CLOEXEC);
    while (directory >= 0 && *(path += strspn(path, "/"))) {
        char name[256];
        size_t length = strcspn(path, "/");
        int next = -1;
        if (length < sizeof name) {
            *(char *)mempcpy(name, path, length) = '\0';
            next = openat(directory, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
        } else
            errno = ENAMETOOLONG;
        int error = errno;
        close(directory);
        errno = error;
        directory = next;
        path += length;
    }
    return directory;
}

/* Opens an absolute path to inspect or to act in. A link on the way is an error; a link at the end is opened itself.
 * Returns -1 with errno. */
static int open_without_links(const char *path) {
    struct {
        uint64_t flags, mode, resolve;
    } how = {.flags = O_PATH | O_NOFOLLOW | O_CLOEXEC, .resolve = NO_LINKS};
    int fd = (int)syscall(OPENAT2, AT_FDCWD, *path ? path : "/", &how, sizeof how);
    /* A filter that does not know the call answers with EPERM. */
    return fd < 0 && (errno == ENOSYS || errno == EPERM) ? walk_without_links(path) : fd;
}

#endif
