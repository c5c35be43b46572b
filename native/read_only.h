/*
 * Makes paths of the host read-only in the mount namespace of this process.
 *
 * Bubblewrap shows the host's own device nodes in a sandbox. A command that runs as root owns them there, too, and
 * could change their modes, times and attributes for the whole host. A read-only mount prevents this, but still lets
 * everybody write to a device. A mount of bubblewrap has the flags of its source, so bubblewrap starts in a mount
 * namespace where these paths are read-only.
 *
 * Privilege: that of the launcher, outside of every sandbox (own_mounts.h). All words come from the launcher.
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
    /* These flags have the same numbers in statfs(2) and mount(2). */
    unsigned long flags = (unsigned long)status.f_flags & (MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC);
    if (flags & MS_RDONLY)
        return;
    flags |= MS_REMOUNT | MS_BIND | MS_RDONLY;
    if (syscall(SYS_mount, NULL, path, NULL, flags, NULL) == 0)
        return;
    /* It is not a mount point yet, so make it one. */
    if (errno != EINVAL || syscall(SYS_mount, path, path, NULL, MS_BIND | MS_REC, NULL) < 0 ||
        syscall(SYS_mount, NULL, path, NULL, flags, NULL) < 0)
        refuse("read-only: ", path);
}

#endif
