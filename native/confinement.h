/*
 * Confines a process that works for a command or a client. `confine` gives the order of the steps.
 *
 * This is the only implementation. paddock-init uses it, and its command inherits the confinement; file workers use it
 * too (worker.c). The words are those of the init (init.c). Everything is permanently in force when `confine` returns.
 * A step that fails ends the process.
 *
 * Privilege: under bubblewrap there is none left. Otherwise `confine` drops the caller's capabilities, and those that a
 * worker got in the user namespace of a sandbox.
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

#include "task.h"

enum { RULE_PATH_BENEATH = 1 };

struct __attribute__((packed)) landlock_rule {
    uint64_t rights;
    int32_t parent;
};
/* Execute, write, read, truncate, ioctl: the kernel refuses the others for a path that is no directory. */
static const uint64_t file_rights = 1 << 0 | 1 << 1 | 1 << 2 | 1 << 14 | 1 << 15;

/* Closes everything except the standard streams, now or when a program is executed. */
static void close_descriptors(bool is_for_exec) {
    struct rlimit limit;
    if (syscall(SYS_close_range, 3u, ~0u, is_for_exec ? 4u /* CLOSE_RANGE_CLOEXEC */ : 0u) == 0)
        return;
    /* The kernel lacks it (before 5.9, or 5.11 for the flag). */
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        refuse("descriptors", "");
    for (int fd = 3; (rlim_t)fd < limit.rlim_cur; fd++) {
        if (is_for_exec)
            fcntl(fd, F_SETFD, FD_CLOEXEC);
        else
            close(fd);
    }
}

/* Drops the bounding set first, because root would get capabilities back in execve. */
static void drop_capabilities(void) {
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2];
    if (syscall(SYS_capget, &header, data) < 0)
        refuse("capget", "");
    /* A process without capabilities can't drop it, and under bubblewrap need not. */
    if (data[0].permitted | data[1].permitted)
        for (int capability = 0; prctl(PR_CAPBSET_READ, capability) >= 0; capability++)
            if (prctl(PR_CAPBSET_DROP, capability) < 0)
                refuse("bounding set", "");
    memset(data, 0, sizeof data);
    /* Clearing the inheritable set clears the ambient set too. */
    if (syscall(SYS_capset, &header, data) < 0)
        refuse("capset", "");
}

static void allow(int ruleset, char *value, const char *word) {
    struct landlock_rule rule = {.rights = number(&value, 16, ':', word)};
    struct stat file;
    rule.parent = open(absolute(value, word), O_PATH | O_CLOEXEC);
    /* A path that can't be reached needs no grant. */
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
    /* A kernel that does not know the last fields accepts them as long as they are zero. */
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
    /* Has room for one instruction more than the kernel takes: the kernel then refuses a filter that would otherwise be
     * cut off. */
    static struct sock_filter code[BPF_MAXINSNS + 1];
    if (task.filter < 0)
        return;
    ssize_t n = pread(task.filter, code, sizeof code, 0);
    struct sock_fprog program = {.len = (unsigned short)(n / (ssize_t)sizeof *code), .filter = code};
    if (n >= 0 && n % (ssize_t)sizeof *code != 0) {
        errno = EINVAL;
        n = -1;
    }
    if (n < 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0)
        refuse("seccomp", "");
}

static void confine(void) {
    drop_capabilities();
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        refuse("no_new_privs", "");
    restrict_files();
    load_filter();
    /* Until execve, this protects the memory and the descriptors of this process. */
    if (prctl(PR_SET_DUMPABLE, 0) < 0)
        refuse("dumpable", "");
}

#endif
