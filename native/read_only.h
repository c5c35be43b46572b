/*
 * Makes paths of the host read-only, in a mount namespace of this process.
 *
 * Bubblewrap shows the host's own device nodes in a sandbox. A command of root's owns them there, too, and could change
 * their modes, times and attributes for the whole host. A mount that is read-only refuses this, and does not keep
 * anybody from writing to a device. What bubblewrap mounts has the flags of the mount that it is taken from, so it
 * starts in a mount namespace in which those are read-only.
 *
 * Privilege: that of the launcher, outside of every sandbox (own_mounts.h). All words are the launcher's own.
 */
#ifndef PADDOCK_READ_ONLY_H
#define PADDOCK_READ_ONLY_H

#include <errno.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/vfs.h>

#include "task.h"

static void make_read_only(const char *path) {
    struct statfs status;
    if (syscall(SYS_statfs, path, &status) < 0)
        refuse("read-only: ", path);
    /* These have the same numbers in both (statfs(2), mount(2)). */
    unsigned long flags = (unsigned long)status.f_flags & (MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC);
    if (flags & MS_RDONLY)
        return;
    flags |= MS_REMOUNT | MS_BIND | MS_RDONLY;
    if (syscall(SYS_mount, NULL, path, NULL, flags, NULL) == 0)
        return;
    /* It is no mount point, and becomes one. */
    if (errno != EINVAL || syscall(SYS_mount, path, path, NULL, MS_BIND | MS_REC, NULL) < 0 ||
        syscall(SYS_mount, NULL, path, NULL, flags, NULL) < 0)
        refuse("read-only: ", path);
}

#endif
