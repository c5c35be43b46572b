/*
 * How a process that has been made outside of a sandbox enters it, and is confined there as a command would be.
 *
 * A program that is confined from its first instruction must find its own files in the sandbox, and then whoever it
 * works for can read them, too. A file worker has read all it needs before it enters.
 *
 * Privilege: to enter the user namespace of a sandbox that the same user made gives every capability in that
 * namespace, and none outside. They are gone when `enter_confined` returns.
 */
#ifndef PADDOCK_ENTERING_H
#define PADDOCK_ENTERING_H

#include <errno.h>
#include <linux/nsfs.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/syscall.h>

#include "confinement.h"
#include "task.h"

/* The memory of a process can be written through its /proc. No mount of the sandbox keeps a worker from that. */
static void seal_processes(void) {
    unsigned long flags = MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC;
    /* There may be none. */
    if (syscall(SYS_mount, NULL, "/proc", NULL, flags, NULL) < 0 && errno != EINVAL && errno != ENOENT)
        refuse("/proc", "");
}

/* In this order. Of a pid namespace only children are part. */
static void enter(int count, const int *namespaces) {
    bool has_files = false;
    for (int i = 0; i < count; i++) {
        if (syscall(SYS_setns, namespaces[i], 0) < 0)
            refuse("namespace", "");
        if (syscall(SYS_ioctl, namespaces[i], NS_GET_NSTYPE) != CLONE_NEWNS)
            continue;
        seal_processes();
        has_files = true;
    }
    if (!has_files) {
        errno = EINVAL;
        refuse("namespace", "");
    }
}

/* Enters the namespaces and takes on what the words say, among which a filter must be. The process must have one thread.
 * It keeps the standard streams alone. */
static void enter_confined(int argc, char **argv, int count, const int *namespaces) {
    parse(argc, argv);
    if (task.filter < 0) {
        errno = EINVAL;
        refuse("seccomp", "");
    }
    enter(count, namespaces);
    confine();
    close_descriptors(false);
}

#endif
