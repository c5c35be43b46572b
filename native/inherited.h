/*
 * Settles what paddock-init inherits from its launcher: descriptors, streams, mounts and control groups.
 *
 * A step that fails ends the process.
 *
 * Privilege: that of the init. No code of the command runs yet.
 */
#ifndef PADDOCK_INHERITED_H
#define PADDOCK_INHERITED_H

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "confinement.h"
#include "isolation.h"
#include "mounted.h"
#include "proxy_listener.h"
#include "task.h"

/* Major number 1, minor number 3 (null(4)). */
enum { NULL_DEVICE = 1 << 8 | 3 };

/* Makes descriptors close-on-exec: the command must not write reports, nor keep what the launcher left open. */
static void keep_descriptors(void) {
    if (task.report >= 0 && fcntl(task.report, F_SETFD, FD_CLOEXEC) < 0)
        refuse("report", "");
    close_descriptors(true);
}

/* Returns the read end of an empty, closed pipe, or -1 with errno. */
static int nothing_to_read(void) {
    int ends[2];
    if (syscall(SYS_pipe2, ends, O_CLOEXEC) < 0)
        return -1;
    close(ends[1]);
    return ends[0];
}

/* Replaces the host's /dev/null in the streams. Its owner may change the mode of the node through a descriptor, and no
 * mount of the sandbox protects the host's node. */
static void replace_null_device(void) {
    for (int fd = 0; fd <= 2; fd++) {
        struct stat file;
        if (fstat(fd, &file) < 0 || !S_ISCHR(file.st_mode) || file.st_rdev != NULL_DEVICE ||
            file.st_uid != (uid_t)syscall(SYS_geteuid))
            continue;
        int access = fcntl(fd, F_GETFL) & O_ACCMODE;
        int own = open("/dev/null", access | O_CLOEXEC);
        /* The profile may not grant /dev/null. */
        if (own < 0 && access == O_RDONLY)
            own = nothing_to_read();
        if (own < 0 || syscall(SYS_dup3, own, fd, 0) < 0)
            refuse("/dev/null", "");
        close(own);
    }
}

/* Another command in the same tree can exchange directories for links while bubblewrap mounts them, and so show files
 * that the profile does not grant. Each of these mounts is of another file, and there are as many as were asked for. So
 * if each is there, none shows anything else. */
static void verify_mounts(void) {
    for (int i = 0; i < task.n_words; i++) {
        char *value = value_of(task.words[i], "mounted");
        if (!value)
            continue;
        uint64_t device = number(&value, 10, ':', task.words[i]);
        uint64_t inode = number(&value, 10, ':', task.words[i]);
        if (!is_mounted(device, inode, absolute(value, task.words[i]))) {
            errno = ESTALE;
            refuse("it was exchanged meanwhile: ", value);
        }
    }
}

/* The kernel checks the rights of the process that opened the descriptor (Linux 5.16, or a fix). */
static void enter_cgroup(int entrance) {
    if (entrance >= 0 && write(entrance, "0", 1) != 1)
        refuse("control group", "");
}

/* Call this before `confine`, which allows fewer files to be opened. */
static void settle_inherited(void) {
    enter_cgroup(task.cgroup);
    enter_cgroup(task.memory);
    keep_descriptors();
    verify_mounts();
    if (task.is_isolated)
        verify_isolation();
    replace_null_device();
    give_proxy_listeners();
}

#endif
