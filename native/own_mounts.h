/*
 * Gives this process mounts of its own, in a mount namespace that nothing arrives in from the host.
 *
 * On most hosts all mounts are shared (mount_namespaces(7)): what somebody mounts later appears in every copy, and
 * bubblewrap leaves that so. It would appear in a running sandbox with the flags that it has on the host: not read-only
 * and with devices. A copy of mounts that are private gets nothing, and so bubblewrap starts among such.
 *
 * Privilege: that of the launcher, outside of every sandbox. Who lacks the capability to mount makes a user namespace for
 * this, as bubblewrap does then.
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

/* Whatever is mounted on the host meanwhile is either here when this returns, and bubblewrap treats it as all the rest,
 * or never. */
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
