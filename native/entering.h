/*
 * Lets a process that was created outside of a sandbox enter it, with the confinement of a command.
 *
 * A program that is confined from its first instruction must find its own files in the sandbox, and then its clients
 * can read them, too. A file worker reads everything it needs before it enters.
 *
 * Privilege: entering the user namespace of a sandbox of the same user gives every capability in that namespace, and
 * none outside. They are gone when `enter_confined` returns.
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

/* Makes /proc read-only: a process could write the memory of others through it, and no mount of the sandbox keeps a
 * worker from that. */
static void seal_processes(void) {
    unsigned long flags = MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC;
    /* There may be no /proc. */
    if (syscall(SYS_mount, NULL, "/proc", NULL, flags, NULL) < 0 && errno != EINVAL && errno != ENOENT)
        refuse("/proc", "");
}

/* Enters the namespaces in this order. Only children become members of a pid namespace. */
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

/* Enters the namespaces and applies the words, which must include a filter. The process must have one thread. It keeps
 * only the standard streams. */
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
