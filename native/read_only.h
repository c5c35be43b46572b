/*
 * Starts bubblewrap so that it finds some paths of the host read-only.
 *
 * Bubblewrap shows the host's own device nodes in a sandbox. A command of root's owns them there, too, and could change
 * their modes, times and attributes for the whole host. A mount that is read-only refuses this, and does not keep
 * anybody from writing to a device. What bubblewrap mounts has the flags of the mount that it is taken from, so it
 * starts in a mount namespace in which those are read-only.
 *
 * Privilege: that of the launcher, outside of every sandbox. All words are the launcher's own. Root without the
 * capability to mount makes a user namespace for this, as bubblewrap does then.
 */
#ifndef PADDOCK_READ_ONLY_H
#define PADDOCK_READ_ONLY_H

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "number.h"
#include "task.h"

static void write_text(const char *path, const char *text) {
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, text, strlen(text)) < 0)
        refuse("user namespace: ", path);
    close(fd);
}

/* Maps one user or group to itself. */
static void map_id(const char *path, unsigned id) {
    char text[2 * NUMBER_BYTES + sizeof "  1"], digits[NUMBER_BYTES];
    const char *said = number_text(digits, id, 10, 1);
    stpcpy(stpcpy(stpcpy(stpcpy(text, said), " "), said), " 1");
    write_text(path, text);
}

static void own_mounts(void) {
    unsigned user = (unsigned)syscall(SYS_geteuid), group = (unsigned)syscall(SYS_getegid);
    if (syscall(SYS_unshare, CLONE_NEWNS) < 0) {
        if (errno != EPERM || syscall(SYS_unshare, CLONE_NEWUSER | CLONE_NEWNS) < 0)
            refuse("mount namespace", "");
        write_text("/proc/self/setgroups", "deny");
        map_id("/proc/self/uid_map", user);
        map_id("/proc/self/gid_map", group);
    }
    /* Nothing that is mounted here may appear on the host. */
    if (syscall(SYS_mount, NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) < 0)
        refuse("mount namespace", "");
}

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

/* Executes the program after `--`, with the variables of this process. */
static _Noreturn void start_with_read_only(int argc, char **argv) {
    int i = 1;
    own_mounts();
    for (char *path; i < argc && (path = value_of(argv[i], "read-only")); i++)
        make_read_only(path);
    errno = EINVAL;
    if (i + 1 < argc && strcmp(argv[i], "--") == 0)
        execve(argv[i + 1], argv + i + 1, argv + argc + 1);
    refuse("bubblewrap", "");
}

#endif
