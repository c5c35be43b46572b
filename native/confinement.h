/*
 * What paddock-init takes away from itself, and so from the command: `confine` is the order of it.
 *
 * All of it is in force when `confine` returns; a step that fails ends the process.
 *
 * Privilege: under bubblewrap there is none left. Without it, the caller's capabilities are
 * dropped on the way.
 */
#ifndef PADDOCK_CONFINEMENT_H
#define PADDOCK_CONFINEMENT_H

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "mounted.h"
#include "task.h"

enum { RULE_PATH_BENEATH = 1 };

/* Major number 1, minor number 3 (null(4)). */
enum { NULL_DEVICE = 1 << 8 | 3 };

/* The longest filter that the kernel takes. */
#define FILTER_LIMIT_BYTES (BPF_MAXINSNS * sizeof(struct sock_filter))

struct __attribute__((packed)) landlock_rule {
    uint64_t rights;
    int32_t parent;
};
/* Execute, write, read, truncate, ioctl: the kernel refuses the others for a path that is no directory. */
static const uint64_t file_rights = 1 << 0 | 1 << 1 | 1 << 2 | 1 << 14 | 1 << 15;

/* Ours alone: the command must not write reports, nor keep what the launcher left open. */
static void keep_descriptors(void) {
    if (task.report >= 0 && fcntl(task.report, F_SETFD, FD_CLOEXEC) < 0)
        refuse("report", "");
    /* A kernel without it (before 5.11) leaves what the launcher opened without close-on-exec. */
    struct rlimit limit;
    if (syscall(SYS_close_range, 3u, ~0u, 4u /* CLOSE_RANGE_CLOEXEC */) < 0 && getrlimit(RLIMIT_NOFILE, &limit) == 0)
        for (int fd = 3; (rlim_t)fd < limit.rlim_cur; fd++)
            fcntl(fd, F_SETFD, FD_CLOEXEC);
}

/* An end of a pipe that nothing comes out of, or -1 with errno. */
static int nothing_to_read(void) {
    int ends[2];
    if (syscall(SYS_pipe2, ends, O_CLOEXEC) < 0)
        return -1;
    close(ends[1]);
    return ends[0];
}

/* Whoever owns a node may change its mode through a descriptor, and that of the host has no mount of ours on it. */
static void replace_null_device(void) {
    for (int fd = 0; fd <= 2; fd++) {
        struct stat file;
        if (fstat(fd, &file) < 0 || !S_ISCHR(file.st_mode) || file.st_rdev != NULL_DEVICE ||
            file.st_uid != (uid_t)syscall(SYS_geteuid))
            continue;
        int access = fcntl(fd, F_GETFL) & O_ACCMODE;
        int own = open("/dev/null", access | O_CLOEXEC);
        /* The profile may not grant it. */
        if (own < 0 && access == O_RDONLY)
            own = nothing_to_read();
        if (own < 0 || syscall(SYS_dup3, own, fd, 0) < 0)
            refuse("/dev/null", "");
        close(own);
    }
}

/* Another command in the same tree can exchange directories for links while bubblewrap mounts them, and have
 * it show what the profile does not grant. Each such mount is of another file, and there are as many as
 * were asked for; so if each is there, none shows anything else. */
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

/* Root without a user namespace of its own has capabilities, and would get them back in execve. */
static void drop_capabilities(void) {
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2];
    if (syscall(SYS_capget, &header, data) < 0)
        refuse("capget", "");
    if (!(data[0].permitted | data[1].permitted))
        return;
    for (int capability = 0; prctl(PR_CAPBSET_READ, capability) >= 0; capability++)
        prctl(PR_CAPBSET_DROP, capability);
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    memset(data, 0, sizeof data);
    if (syscall(SYS_capset, &header, data) < 0)
        refuse("capset", "");
}

static void allow(int ruleset, char *value, const char *word) {
    struct landlock_rule rule = {.rights = number(&value, 16, ':', word)};
    struct stat file;
    rule.parent = open(absolute(value, word), O_PATH | O_CLOEXEC);
    /* What can't be reached needs no grant. */
    if (rule.parent < 0 && (errno == ENOENT || errno == EACCES || errno == ENOTDIR))
        return;
    if (rule.parent < 0 || fstat(rule.parent, &file) < 0)
        refuse("Landlock: ", value);
    if (!S_ISDIR(file.st_mode))
        rule.rights &= file_rights;
    rule.rights &= task.landlock.handled_fs;
    if (rule.rights && syscall(LANDLOCK_ADD_RULE, ruleset, RULE_PATH_BENEATH, &rule, 0u) < 0)
        refuse("Landlock: ", value);
    close(rule.parent);
}

static void restrict_files(void) {
    if (!task.has_landlock)
        return;
    /* A kernel that does not know the last fields takes them as long as they are zero. */
    int ruleset = (int)syscall(LANDLOCK_CREATE, &task.landlock, sizeof task.landlock, 0u);
    if (ruleset < 0)
        refuse("Landlock", "");
    for (int i = 0; i < task.n_words; i++) {
        char *value = value_of(task.words[i], "allow");
        if (value)
            allow(ruleset, value, task.words[i]);
    }
    if (syscall(LANDLOCK_RESTRICT, ruleset, 0u) < 0)
        refuse("Landlock", "");
    close(ruleset);
}

static void load_filter(void) {
    static struct sock_filter code[BPF_MAXINSNS];
    if (task.filter < 0)
        return;
    ssize_t n = pread(task.filter, code, FILTER_LIMIT_BYTES, 0);
    struct sock_fprog program = {.len = (unsigned short)(n / (ssize_t)sizeof *code), .filter = code};
    if (n < 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0)
        refuse("seccomp", "");
}

/* Whoever opened the descriptor had the right to it, which is what the kernel looks at (Linux 5.16, or a fix). */
static void enter_cgroup(void) {
    if (task.cgroup >= 0 && write(task.cgroup, "0", 1) != 1)
        refuse("control group", "");
}

static void confine(void) {
    enter_cgroup();
    keep_descriptors();
    verify_mounts();
    replace_null_device();
    drop_capabilities();
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        refuse("no_new_privs", "");
    restrict_files();
    load_filter();
    /* Until the program is executed: its memory is its own. */
    prctl(PR_SET_DUMPABLE, 0);
}

#endif
