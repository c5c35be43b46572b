/*
 * The masks of a sandbox: mounts on files that the command must not reach. They must stay in place.
 *
 * A mount is on a file, not on a name. A process on the host or in another sandbox that has the right may move that
 * file and take the mask along, which frees the name. Or it removes or replaces the file, and the mask is gone. The
 * kernel refuses this (EBUSY) only where the file is a mount point itself. It reports that a mount is gone
 * (proc_pid_mountinfo(5)), but not that one was moved. So this process watches the directories of masks. After every
 * event it checks whether each mask is in its place; it does not ask what happened in between.
 *
 * It watches directories with dnotify (F_NOTIFY in fcntl(2)). inotify(7) takes 8 ms to close, because it waits until no
 * processor is in its code, and a user has only 128 instances for everything.
 *
 * Privilege: none. It checks every LOOK_MS where it can't watch, because a directory can't be read or the kernel has no
 * dnotify.
 */
#ifndef PADDOCK_MASK_H
#define PADDOCK_MASK_H

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "message.h"
#include "mounted.h"
#include "number.h"
#include "task.h"
#include "without_links.h"

/* The default signal of dnotify. Its si_code is always SI_KERNEL. */
enum { MASK_SIGNAL = SIGIO };

/* Soon enough. A check takes a microsecond per mask, so thousands of masks use a few hundredths of a processor. */
enum { LOOK_MS = 100 };

/* Since Linux 6.6 on every machine; older headers lack it. */
enum { FCHMODAT2 = 452 };

struct mask {
    char *path;
    int directory;   /* its directory; -1 while it can't be reached */
    bool is_private; /* on a file of Paddock's own, which nobody else would move */
    bool is_guard;   /* on a file that others obey, which the command must not create anew */
    bool is_closed;  /* its directory couldn't be searched at the last check */
    bool is_known;   /* its identity, in the next fields */
    bool is_directory;
    uint32_t device_major, device_minor;
    uint64_t inode;
    uint32_t aside; /* number in the name of the file put aside from its place, or 0 */
    bool is_suspect; /* the file in its place could not be put aside */
};
static struct {
    struct mask *all;
    int count;
    int mounts; /* reports that one is gone (POLLPRI); -1 without /proc */
    bool has_unwatched;
    bool has_room; /* the limit has room for a descriptor of each directory and placeholder */
    struct rlimit descriptors; /* the limit for the command */
} masks = {.mounts = -1};

static const char *name_of(const struct mask *mask) {
    return strrchr(mask->path, '/') + 1;
}

/* Opens the directory of a mask, and watches it if possible. Returns -1 with errno. */
static int open_directory(const struct mask *mask) {
    char *name = strrchr(mask->path, '/');
    *name = '\0';
    int found = open_without_links(mask->path);
    *name = '/';
    if (found < 0)
        return found;
    /* DN_CREATE reports a file that comes from elsewhere and replaces a mask, but also every new file. Those are
     * frequent, and the kernel reports the lost mount anyway. */
    long events = DN_RENAME | DN_DELETE | DN_MULTISHOT | (masks.mounts < 0 ? DN_CREATE : 0);
    /* The private masks of all sandboxes may be in one directory, /tmp. Every removal there would wake each sandbox. */
    if (mask->is_private && masks.mounts >= 0)
        events = DN_RENAME | DN_MULTISHOT;
    int directory = openat(found, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory < 0 || fcntl(directory, F_NOTIFY, events) != 0)
        masks.has_unwatched = true;
    if (directory < 0)
        return found;
    close(found);
    return directory;
}

/* Returns whether a mask is in its place and is still the file that it was at the first check. */
static bool is_in_place(struct mask *mask) {
    struct statx found;
    if (mask->directory < 0)
        mask->directory = open_directory(mask);
    if (mask->directory < 0 || statx(mask->directory, name_of(mask), AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT,
                                     STATX_TYPE | STATX_INO, &found) != 0) {
        /* The command can't reach it either, until it changes the mode of a directory, which the kernel does not
         * report. */
        mask->is_closed = errno == EACCES;
        masks.has_unwatched = masks.has_unwatched || mask->is_closed;
        return mask->is_closed;
    }
    mask->is_closed = false;
    /* Without this attribute (older kernels), only the identity of the file counts. */
    if (found.stx_attributes_mask & IS_MOUNT_ROOT && !(found.stx_attributes & IS_MOUNT_ROOT))
        return false;
    if (!mask->is_known) {
        mask->is_known = true;
        mask->is_directory = S_ISDIR(found.stx_mode);
        mask->device_major = found.stx_dev_major;
        mask->device_minor = found.stx_dev_minor;
        mask->inode = found.stx_ino;
    }
    return found.stx_dev_major == mask->device_major && found.stx_dev_minor == mask->device_minor &&
           found.stx_ino == mask->inode;
}

/* Returns the first lost mask, or NULL. */
static const struct mask *lost_mask(void) {
    for (int i = 0; i < masks.count; i++)
        if (!is_in_place(&masks.all[i]))
            return &masks.all[i];
    return NULL;
}

static bool name_aside(const struct mask *mask, uint32_t number, char name[NAME_MAX + 1]) {
    char digits[NUMBER_BYTES];
    if (strlen(name_of(mask)) + strlen("-put-aside-01234567") > NAME_MAX)
        return false;
    stpcpy(stpcpy(stpcpy(name, name_of(mask)), "-put-aside-"), number_text(digits, number, 16, 8));
    return true;
}

static bool move_to(const struct mask *mask, const char *name, unsigned flags) {
    return syscall(SYS_renameat2, mask->directory, name_of(mask), mask->directory, name, flags) == 0;
}

/* Moves away the file at the path of a lost guard, if there is one. Between the loss and its death the command had time
 * for some system calls, enough for a .git with a hook in it. The process that took the mask away rarely puts something
 * else there that soon. But editors replace a file by another in one step, so a file stays and a person has to look at
 * it. The new name is random; otherwise the command could have taken it. */
static void put_aside(struct mask *mask) {
    uint32_t number;
    char name[NAME_MAX + 1];
    struct statx found;
    if (!mask->is_guard || mask->directory < 0)
        return;
    /* The kernel removes a mount before it moves something else to its place, both under the lock of the directory.
     * This call waits for the lock, and fails. */
    move_to(mask, name_of(mask), RENAME_NOREPLACE);
    if (statx(mask->directory, name_of(mask), AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT, STATX_TYPE, &found) != 0)
        return;
    mask->is_suspect = true;
    if ((!mask->is_directory && S_ISREG(found.stx_mode)) || getrandom(&number, sizeof number, 0) < 0 ||
        !name_aside(mask, number, name))
        return;
    /* Not every file system can rename without replacing (NFS), but the name is new in any case. */
    mask->is_suspect = !move_to(mask, name, RENAME_NOREPLACE) && !(errno == EINVAL && move_to(mask, name, 0));
    mask->aside = mask->is_suspect ? 0 : number;
}

static bool set_mode(int directory, mode_t mode) {
    /* The second call is for a directory that could not be read when it was opened. */
    return syscall(SYS_fchmod, directory, mode) == 0 || syscall(FCHMODAT2, directory, "", mode, AT_EMPTY_PATH) == 0;
}

/* Lets this process search a directory of its user that somebody has closed. Returns the previous mode, or -1. */
static int open_up(int directory) {
    struct stat status;
    if (fstat(directory, &status) != 0)
        return -1;
    mode_t mode = status.st_mode & 07777;
    return set_mode(directory, mode | S_IRWXU) ? (int)mode : -1;
}

/* Like `lost_mask`, and puts aside the files in the place of lost guards. Call this only when no process of the command
 * is left. The command may have closed a directory to hide what it did there. */
static const struct mask *settle_masks(void) {
    const struct mask *lost = NULL;
    for (struct mask *mask = masks.all; mask < masks.all + masks.count; mask++) {
        bool is_kept = is_in_place(mask);
        int mode = mask->is_closed ? open_up(mask->directory) : -1;
        if (mode >= 0)
            is_kept = is_in_place(mask);
        if (!is_kept) {
            lost = lost ? lost : mask;
            put_aside(mask);
        }
        if (mode >= 0)
            set_mode(mask->directory, (mode_t)mode);
    }
    return lost;
}

/* Call this last: it waits for a while if nobody reads standard error. */
static void tell_of_loss(const struct mask *lost) {
    char name[NAME_MAX + 1];
    SAY("the command was killed, because ", lost->path,
        " was moved, removed or replaced by somebody else, and its profile could not be enforced any more;"
        " run it again");
    for (const struct mask *mask = masks.all; mask < masks.all + masks.count; mask++) {
        if (mask->aside && name_aside(mask, mask->aside, name))
            SAY("the command may have made what was at ", mask->path, " then; it is now in ", name, ", beside it");
        if (mask->is_suspect)
            SAY("the command may have made what is at ", mask->path, "; look at it before you use it");
    }
}

static bool is_beside(const struct mask *mask, const struct mask *other) {
    ptrdiff_t length = name_of(mask) - mask->path;
    return mask->is_private == other->is_private && length == name_of(other) - other->path &&
           memcmp(mask->path, other->path, (size_t)length) == 0;
}

/* Raises the limit, because each directory takes a descriptor. Many patterns exceed the limit for programs that use
 * select(2). */
static void make_room(void) {
    struct rlimit most;
    if (masks.has_room)
        return;
    masks.has_room = true;
    if (getrlimit(RLIMIT_NOFILE, &masks.descriptors) < 0)
        refuse("descriptors", "");
    most = (struct rlimit){masks.descriptors.rlim_max, masks.descriptors.rlim_max};
    setrlimit(RLIMIT_NOFILE, &most);
}

/* Gives the command the limit that its launcher had. */
static void give_back_room(void) {
    if (masks.has_room)
        setrlimit(RLIMIT_NOFILE, &masks.descriptors);
}

/* Locks the visible placeholders, so that no janitor removes one meanwhile (janitor.c), even if its own janitor is
 * killed. A placeholder of another user can't be locked. The masks reveal whatever happened to a placeholder before
 * this. */
static void hold_placeholders(void) {
    for (int i = 0; i < task.n_words; i++) {
        char *path = value_of(task.words[i], "placeholder");
        if (!path)
            continue;
        make_room();
        char *name = strrchr(absolute(path, task.words[i]), '/');
        *name = '\0';
        int directory = open_without_links(path);
        *name = '/';
        int placeholder = openat(directory, name + 1, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (placeholder < 0 ? errno != EACCES : syscall(SYS_flock, placeholder, LOCK_SH | LOCK_NB) != 0)
            refuse("it was taken away meanwhile: ", path);
        close(directory);
    }
}

static void list_masks(void) {
    masks.all = calloc((size_t)task.n_words + 1, sizeof *masks.all);
    if (!masks.all)
        refuse("masks", "");
    for (int i = 0; i < task.n_words; i++) {
        char *private = value_of(task.words[i], "private"), *guard = value_of(task.words[i], "guard");
        char *path = private ? private : guard ? guard : value_of(task.words[i], "mask");
        if (path)
            masks.all[masks.count++] = (struct mask){.path = absolute(path, task.words[i]), .directory = -1,
                                                     .is_private = private, .is_guard = guard};
    }
}

/* Releases everything that `watch_masks` holds, so that it can be called again for other words. */
static void forget_masks(void) {
    for (int i = 0; i < masks.count; i++)
        if (masks.all[i].directory >= 0 && (i == 0 || masks.all[i].directory != masks.all[i - 1].directory))
            close(masks.all[i].directory);
    if (masks.mounts >= 0)
        close(masks.mounts);
    masks.mounts = -1;
    masks.count = 0;
    masks.has_unwatched = false;
}

/* Call this with MASK_SIGNAL blocked. From then on, `lost_mask` finds every lost mask. */
static void watch_masks(void) {
    list_masks();
    if (masks.count == 0)
        return;
    make_room();
    masks.mounts = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);
    for (struct mask *mask = masks.all; mask < masks.all + masks.count; mask++) {
        if (mask > masks.all && is_beside(mask, mask - 1))
            mask->directory = (mask - 1)->directory;
        else if ((mask->directory = open_directory(mask)) < 0 && errno != EACCES)
            refuse("it can't be watched: ", mask->path);
    }
    const struct mask *lost = lost_mask();
    if (lost) {
        errno = ESTALE;
        refuse("it was exchanged meanwhile: ", lost->path);
    }
}

#endif
