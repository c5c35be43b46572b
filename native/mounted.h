/*
 * Checks whether a certain file is mounted at a path.
 *
 * Privilege: that of the caller. It follows no link, even if somebody makes one
 * meanwhile.
 */
#ifndef PADDOCK_MOUNTED_H
#define PADDOCK_MOUNTED_H

#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <unistd.h>

#include "without_links.h"

/* Since Linux 5.8; older headers lack it. */
#define IS_MOUNT_ROOT 0x2000

static bool is_mounted(uint64_t device, uint64_t inode, const char *path) {
    struct stat file;
    struct statx more;
    int fd = open_without_links(path);
    if (fd < 0)
        return false;
    bool is_same = fstat(fd, &file) == 0 && file.st_dev == device && file.st_ino == inode;
    /* If the kernel can't tell whether it is a mount, only the identity of the file counts. */
    if (is_same && statx(fd, "", AT_EMPTY_PATH, 0, &more) == 0 && more.stx_attributes_mask & IS_MOUNT_ROOT)
        is_same = more.stx_attributes & IS_MOUNT_ROOT;
    close(fd);
    return is_same;
}

#endif
