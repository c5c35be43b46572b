/*
 * Makes a /dev for one sandbox, where bubblewrap finds it.
 *
 * The /dev of bubblewrap shows the host's nodes, each in a separate mount, and bubblewrap reads the table of all mounts
 * for each mount it makes. Here they are new nodes in one file system, mounted read-only: a command that runs as root
 * owns them, but can't change them. Where nodes can't be created, as in containers, this mounts the host's nodes one by
 * one, read-only as well.
 *
 * Everything is in a directory with a name that /dev never has (DEVICES). Bubblewrap gets that directory, so it fails
 * if this step did not run, and does not show the devices of the host.
 *
 * Privilege: that of the launcher, outside of every sandbox, in its own mount namespace (own_mounts.h).
 */
#ifndef PADDOCK_DEVICES_H
#define PADDOCK_DEVICES_H

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "number.h"
#include "read_only.h"
#include "task.h"

/* As in sandbox/mount.py. */
#define DEVICES "paddock"
#define DEV "/dev"
#define DESCRIPTORS "/proc/self/fd/"

/* Flags of fsopen(2), fsconfig(2), fsmount(2) and move_mount(2): not every library has their names. */
enum { SET_STRING = 1, CREATE = 6, CLOSED_ON_EXEC = 1, WITHOUT_SETUID = 2, FROM_DESCRIPTOR = 4 };

/* From Documentation/admin-guide/devices.txt, in the kernel's format: 256 times the major number, plus the minor. */
static const struct node {
    const char *name;
    unsigned device;
} nodes[] = {{"null", 0x103}, {"zero", 0x105}, {"full", 0x107}, {"random", 0x108}, {"urandom", 0x109}, {"tty", 0x500}};
enum { NODES = sizeof nodes / sizeof *nodes };

static const struct {
    const char *name, *target;
} device_links[] = {{"stdin", "/proc/self/fd/0"}, {"stdout", "/proc/self/fd/1"}, {"stderr", "/proc/self/fd/2"},
                    {"fd", "/proc/self/fd"},      {"core", "/proc/kcore"},       {"ptmx", "pts/ptmx"}};

/* Returns a file system that is not mounted yet, or -1 where the kernel does not allow that. */
static int new_file_system(void) {
    int made = -1, context = (int)syscall(SYS_fsopen, "tmpfs", CLOSED_ON_EXEC);
    if (context >= 0 && syscall(SYS_fsconfig, context, SET_STRING, "mode", "0755", 0) == 0 &&
        syscall(SYS_fsconfig, context, CREATE, NULL, NULL, 0) == 0)
        made = (int)syscall(SYS_fsmount, context, CLOSED_ON_EXEC, WITHOUT_SETUID);
    if (context >= 0)
        close(context);
    return made;
}

static const char *device_path(char path[NAME_MAX], const char *name) {
    stpcpy(stpcpy(path, DEVICES "/"), name);
    return path;
}

static void make_file(int at, const char *name, unsigned mode, unsigned device) {
    char path[NAME_MAX];
    if (syscall(SYS_mknodat, at, device_path(path, name), mode, device) < 0)
        refuse("devices: ", name);
}

/* Creates all nodes. Returns false if this process may not create nodes. */
static bool make_nodes(int at) {
    char path[NAME_MAX];
    if (syscall(SYS_mknodat, at, device_path(path, nodes->name), S_IFCHR | 0666, nodes->device) < 0)
        return false;
    for (const struct node *node = nodes + 1; node < nodes + NODES; node++)
        make_file(at, node->name, S_IFCHR | 0666, node->device);
    return true;
}

/* Mounts the open file `found` of the host, and returns the path. */
static const char *show_file(int at, const char *name, int found) {
    static char path[sizeof DEV "/" + NAME_MAX];
    char digits[NUMBER_BYTES], source[sizeof DESCRIPTORS + NUMBER_BYTES];
    if (found < 0)
        refuse("devices: ", name);
    make_file(at, name, S_IFREG, 0);
    stpcpy(stpcpy(source, DESCRIPTORS), number_text(digits, (unsigned)found, 10, 1));
    device_path(stpcpy(path, DEV "/"), name);
    if (syscall(SYS_mount, source, path, NULL, MS_BIND, NULL) < 0)
        refuse("devices: ", name);
    close(found);
    return path;
}

/* Mounts the nodes of the host, whose /dev is open as `host`. */
static void show_nodes(int at, int host) {
    for (const struct node *node = nodes; node < nodes + NODES; node++)
        make_read_only(show_file(at, node->name, openat(host, node->name, O_PATH | O_NOFOLLOW | O_CLOEXEC)));
}

/* Opens the terminal on standard output by its name if it is one of the host's. Otherwise returns -1. */
static int open_terminal(int host) {
    struct winsize size;
    struct stat output, found;
    char path[NAME_MAX];
    if (syscall(SYS_ioctl, 1, TIOCGWINSZ, &size) < 0)
        return -1;
    long length = syscall(SYS_readlinkat, AT_FDCWD, DESCRIPTORS "1", path, sizeof path - 1);
    path[length < 0 ? 0 : length] = '\0';
    if (strncmp(path, DEV "/", strlen(DEV "/")) != 0)
        return -1;
    int terminal = openat(host, path + strlen(DEV "/"), O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (terminal >= 0 && (fstat(1, &output) < 0 || fstat(terminal, &found) < 0 || output.st_dev != found.st_dev ||
                          output.st_ino != found.st_ino)) {
        close(terminal);
        return -1;
    }
    return terminal;
}

static void make_directory(int at, const char *path) {
    if (syscall(SYS_mkdirat, at, path, 0755) < 0)
        refuse("devices: ", path);
}

static void make_devices(void) {
    unsigned mask = (unsigned)syscall(SYS_umask, 0);
    int host = open(DEV, O_PATH | O_DIRECTORY | O_CLOEXEC), at = new_file_system();
    bool is_apart = at >= 0;
    if (host < 0)
        refuse("devices: ", DEV);
    if (!is_apart && (syscall(SYS_mount, "tmpfs", DEV, "tmpfs", MS_NOSUID, "mode=0755") < 0 ||
                      (at = open(DEV, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0))
        refuse("devices: ", DEV);
    make_directory(at, DEVICES);
    for (size_t i = 0; i < sizeof device_links / sizeof *device_links; i++) {
        char path[NAME_MAX];
        if (syscall(SYS_symlinkat, device_links[i].target, at, device_path(path, device_links[i].name)) < 0)
            refuse("devices: ", device_links[i].name);
    }
    bool has_nodes = make_nodes(at);
    int terminal = open_terminal(host);
    /* Nobody needs the host's /dev then, or the mounts in it. If this fails, the new one just covers it. */
    if (is_apart && has_nodes && terminal < 0)
        syscall(SYS_umount2, DEV, MNT_DETACH);
    if (is_apart && syscall(SYS_move_mount, at, "", AT_FDCWD, DEV, FROM_DESCRIPTOR) < 0)
        refuse("devices: ", DEV);
    if (!has_nodes)
        show_nodes(at, host);
    /* Programs find their terminal by this name, as with bubblewrap's own devices. */
    if (terminal >= 0)
        show_file(at, "console", terminal);
    make_directory(at, DEVICES "/pts");
    if (syscall(SYS_mount, "devpts", DEV "/" DEVICES "/pts", "devpts", MS_NOSUID | MS_NOEXEC,
                "newinstance,ptmxmode=0666,mode=620") < 0)
        refuse("devices: ", "pts");
    /* Bubblewrap mounts on this directory. It would copy a mount made here twice. */
    make_directory(at, DEVICES "/shm");
    make_read_only(DEV);
    close(host);
    close(at);
    syscall(SYS_umask, mask);
}

#endif
