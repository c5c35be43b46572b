/*
 * Moves this process to its own mount namespace, which receives no mounts from the host.
 *
 * On most hosts all mounts are shared (mount_namespaces(7)): a later mount appears in every copy, and bubblewrap does
 * not change that. It would appear in a running sandbox with the flags of the host: not read-only and with devices. A
 * copy of private mounts receives nothing, so bubblewrap starts among private mounts.
 *
 * Privilege: that of the launcher, outside of every sandbox. A launcher without the capability to mount creates a user
 * namespace for this, as bubblewrap would.
 */
#ifndef PADDOCK_OWN_MOUNTS_H
#define PADDOCK_OWN_MOUNTS_H

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "number.h"
#include "task.h"

#define WITHOUT_OWN_MOUNTS "mounts apart from the host's (docs/how-to/prepare-a-host.md): "

static void write_text(const char *path, const char *text) {
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, text, strlen(text)) < 0)
        refuse(WITHOUT_OWN_MOUNTS, path);
    close(fd);
}

/* Maps one user or group to itself. */
static void map_id(const char *path, unsigned id) {
    char text[2 * NUMBER_BYTES + sizeof "  1"], digits[NUMBER_BYTES];
    const char *said = number_text(digits, id, 10, 1);
    stpcpy(stpcpy(stpcpy(stpcpy(text, said), " "), said), " 1");
    write_text(path, text);
}

/* A mount that the host makes meanwhile is either here when this returns, and bubblewrap treats it like all others, or
 * never appears. */
static void own_mounts(void) {
    unsigned user = (unsigned)syscall(SYS_geteuid), group = (unsigned)syscall(SYS_getegid);
    if (syscall(SYS_unshare, CLONE_NEWNS) < 0) {
        if (errno != EPERM || syscall(SYS_unshare, CLONE_NEWUSER | CLONE_NEWNS) < 0)
            refuse(WITHOUT_OWN_MOUNTS, "unshare");
        write_text("/proc/self/setgroups", "deny");
        map_id("/proc/self/uid_map", user);
        map_id("/proc/self/gid_map", group);
    }
    if (syscall(SYS_mount, NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        refuse(WITHOUT_OWN_MOUNTS, "/");
}

#endif
