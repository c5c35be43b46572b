/*
 * paddock-janitor: keeps the places that sandboxes need to exist, and clears them away.
 *
 * To keep a command from making, say, a .git of its own, something must be mounted
 * on .git, and only what exists can be mounted on. The janitor makes such a place
 * on the host, holds it while a sandbox needs it, and removes it after the last one.
 * It is a process of its own so that it outlives a launcher that was killed.
 *
 * A place is an empty file or directory with a mode that nothing else has, so that it
 * is known for what it is even after a crash. A .git holds a note for whoever
 * finds it, from the first moment to the last: it is made and taken apart beside
 * its place, and moved. Whoever needs a place has a shared flock(2) on it; whoever wants to remove
 * it must get the exclusive one. Thus janitors of different launchers agree without
 * knowing each other, and the kernel forgets the locks of the dead: a place that was
 * left behind is taken over by the next that needs it.
 *
 * The launcher sends packets over a SOCK_SEQPACKET socket: a verb, then items. Each is
 * answered by a packet of one byte for each item: 0, or an errno.
 *     'h'  hold: items are 'd' or 'f', path, NUL. EEXIST: something else is there.
 *     'd'  drop: items are path, NUL. The sandbox has ended.
 *     'l'  linger: as drop, but the sandbox was killed, and may not be quite dead.
 * When the launcher has closed its end, all places linger and the janitor ends.
 *
 * Privilege: that of the launcher, whose paths it trusts. It removes nothing that is
 * not a place of its own making, and no directory that somebody has put something in.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static const int launcher = 0; /* the socket */

/* The sticky bit on a private directory, or on a file that nobody writes, means nothing to anybody else. */
enum { DIRECTORY_MODE = S_ISVTX | 0700, FILE_MODE = S_ISVTX | 0400, ORDINARY_MODE = 0755 };

/* Between the SIGKILL of a sandbox and the last instruction of its processes; a second is an age for that. */
enum { LINGER_MS = 1000 };

/* The launcher never sends more: 15 paths of the longest kind, or some hundred usual ones. */
enum { PACKET_BYTES = 64 << 10 };

/* Races that can be lost to other janitors in a row before something else must be wrong, and the pause after
 * each: what another does to a place takes much less. */
enum { ATTEMPTS = 100, PAUSE_MS = 1 };

/* A link that leads nowhere, for it is cheaper to make than a file, and a listing shows what it says. */
#define NOTE "PADDOCK"
static const char note[] = "keeps this place while a sandboxed command runs, and clears it away afterwards";

struct place {
    struct place *next;
    int fd;            /* open on the place, with the lock on it */
    unsigned users;    /* sandboxes of this launcher */
    unsigned lingering; /* of these, those that were killed */
    int64_t until_ms;  /* when the last of the lingering is dead */
    bool is_directory;
    char path[];
};
static struct place *places, *cleared;

static int64_t now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- What a place is ---- */

static bool is_at(int fd, const char *path) {
    struct stat held, found;
    return fstat(fd, &held) == 0 && lstat(path, &found) == 0 && held.st_dev == found.st_dev &&
           held.st_ino == found.st_ino;
}

static bool is_place(int fd, bool is_directory) {
    struct stat found;
    if (fstat(fd, &found) != 0 || (found.st_uid != geteuid() && geteuid() != 0))
        return false;
    /* A directory takes over the set-group-ID bit of its parent. */
    mode_t mode = found.st_mode & (S_IFMT | (07777 & ~S_ISGID));
    return is_directory ? mode == (S_IFDIR | DIRECTORY_MODE)
                        : mode == (S_IFREG | FILE_MODE) && found.st_size == 0;
}

/* People and programs take an empty .git for a broken repository; the other names mean nothing to them
 * while they are empty, and each note costs as much as its place. */
static bool has_note(const char *path) {
    size_t length = strlen(path);
    return length > 5 && strcmp(path + length - 5, "/.git") == 0;
}

/* Whether a directory holds nothing but the note. */
static bool is_unused(int fd) {
    int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *directory = copy >= 0 ? fdopendir(copy) : NULL;
    bool is_empty = directory;
    for (struct dirent *entry; is_empty && (entry = readdir(directory));)
        is_empty = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
                   strcmp(entry->d_name, NOTE) == 0;
    if (directory)
        closedir(directory);
    return is_empty;
}

/* ---- Making places and taking them apart ---- */

/* The same for all, so that what was left there by a janitor that was killed is used by the next. */
static bool name_beside(const char *path, char beside[PATH_MAX]) {
    return snprintf(beside, PATH_MAX, "%s-paddock", path) < PATH_MAX;
}

static bool move(const char *from, const char *to) {
    return syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0;
}

/* Makes a directory with the note in it. With EAGAIN another janitor is at it. */
static bool make_with_note(const char *path) {
    char beside[PATH_MAX];
    if (!name_beside(path, beside) || (mkdir(beside, DIRECTORY_MODE) != 0 && errno != EEXIST))
        return false;
    int fd = open(beside, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) != 0 || !is_at(fd, beside) || !is_place(fd, true)) {
        if (fd >= 0)
            close(fd);
        errno = EAGAIN;
        return false;
    }
    bool is_made = (symlinkat(note, fd, NOTE) == 0 || errno == EEXIST) && move(beside, path);
    int error = errno;
    if (!is_made) {
        unlinkat(fd, NOTE, 0);
        rmdir(beside);
    }
    close(fd);
    /* A file system that can't move without replacing, or is full: then it is made in its place, where
     * somebody might see it empty for an instant. */
    if (!is_made && (error == EINVAL || error == ENOSPC))
        return mkdir(path, DIRECTORY_MODE) == 0;
    errno = error;
    return is_made;
}

static bool make(const char *path, bool is_directory) {
    struct stat found;
    if (is_directory && has_note(path)) {
        errno = EEXIST;
        return lstat(path, &found) != 0 && make_with_note(path);
    }
    if (is_directory)
        return mkdir(path, DIRECTORY_MODE) == 0;
    int fd = open(path, O_RDONLY | O_CREAT | O_EXCL | O_CLOEXEC, FILE_MODE);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

/* Removes a directory, or leaves it to whoever has begun to use it. */
static void take_apart(int fd, const char *path) {
    char beside[PATH_MAX];
    const char *place = path;
    if (is_unused(fd) && has_note(path) && name_beside(path, beside) && move(path, beside))
        place = beside;
    unlinkat(fd, NOTE, 0);
    if (rmdir(place) == 0)
        return;
    fchmod(fd, ORDINARY_MODE);
    if (place != path)
        move(beside, path);
}

/* ---- Holding and clearing away ---- */

static struct place *find(const char *path) {
    struct place *place = places;
    while (place && strcmp(place->path, path) != 0)
        place = place->next;
    return place;
}

/* Opens a place with a shared lock, makes it if nothing is there. Returns -1 with errno. */
static int acquire(const char *path, bool is_directory) {
    for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
        bool is_made = make(path, is_directory);
        if (!is_made && errno != EEXIST && errno != EAGAIN)
            return -1;
        int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (fd < 0 && errno != ENOENT) {
            /* Of another user, or no place at all. */
            if (errno != EACCES)
                errno = EEXIST;
            return -1;
        }
        /* Whoever has the exclusive lock is about to remove it. */
        if (fd < 0 || flock(fd, LOCK_SH | LOCK_NB) != 0 || !is_at(fd, path)) {
            if (fd >= 0)
                close(fd);
            poll(NULL, 0, PAUSE_MS);
            continue;
        }
        if (!is_place(fd, is_directory) || (is_directory && !is_unused(fd))) {
            close(fd);
            errno = EEXIST;
            return -1;
        }
        if (!is_made && has_note(path) && symlinkat(note, fd, NOTE) != 0) {
            /* It is there already, or there is no room: then nobody is told. */
        }
        return fd;
    }
    errno = EBUSY;
    return -1;
}

static int hold(const char *path, bool is_directory) {
    struct place *place = find(path);
    if (place && is_at(place->fd, path)) {
        place->users++;
        return 0;
    }
    int fd = acquire(path, is_directory);
    if (fd < 0)
        return errno;
    if (place) {
        /* The owner of the tree has removed it, while others needed it. There it is again, for all of them. */
        close(place->fd);
        place->fd = fd;
        place->is_directory = is_directory;
        place->users++;
        return 0;
    }
    place = malloc(sizeof *place + strlen(path) + 1);
    if (!place) {
        close(fd);
        return ENOMEM;
    }
    *place = (struct place){.next = places, .fd = fd, .users = 1, .is_directory = is_directory};
    strcpy(place->path, path);
    places = place;
    return 0;
}

/* Removes a place that nobody else holds. */
static void clear_away(struct place *place) {
    if (flock(place->fd, LOCK_EX | LOCK_NB) == 0 && is_at(place->fd, place->path) &&
        is_place(place->fd, place->is_directory)) {
        if (place->is_directory)
            take_apart(place->fd, place->path);
        else
            unlink(place->path);
    }
}

/* Removes the places that are not needed any more; `bury` has to follow. */
static void clear_unused(void) {
    for (struct place **link = &places; *link;) {
        struct place *place = *link;
        if (place->users > 0) {
            link = &place->next;
            continue;
        }
        *link = place->next;
        clear_away(place);
        place->next = cleared;
        cleared = place;
    }
}

/* With the last descriptor of it the file system gives up what was removed, which takes longer than all the
 * rest. The launcher need not wait for that. */
static void bury(void) {
    while (cleared) {
        struct place *place = cleared;
        cleared = place->next;
        close(place->fd);
        free(place);
    }
}

static int drop(const char *path) {
    struct place *place = find(path);
    if (!place || place->users == place->lingering)
        return ENOENT;
    place->users--;
    return 0;
}

static int linger(const char *path) {
    struct place *place = find(path);
    if (!place || place->users == place->lingering)
        return ENOENT;
    place->lingering++;
    place->until_ms = now_ms() + LINGER_MS;
    return 0;
}

/* Drops those whose time is over. Returns how long to wait for the next, -1 for ever. */
static int drop_dead(void) {
    int64_t now = now_ms(), next = -1;
    for (struct place *place = places; place; place = place->next) {
        if (place->lingering == 0)
            continue;
        if (place->until_ms <= now) {
            place->users -= place->lingering;
            place->lingering = 0;
        } else if (next < 0 || place->until_ms - now < next) {
            next = place->until_ms - now;
        }
    }
    clear_unused();
    bury();
    return (int)next;
}

/* ---- Talking to the launcher ---- */

/* Answers one packet. It ends in NUL, behind the buffer if need be. */
static bool serve(char *packet, size_t length) {
    static char answer[PACKET_BYTES];
    size_t answered = 0;
    char verb = packet[0];
    for (char *item = packet + 1; item < packet + length; item += strlen(item) + 1) {
        int problem = verb == 'h'   ? hold(item + 1, *item == 'd')
                      : verb == 'd' ? drop(item)
                      : verb == 'l' ? linger(item)
                                    : EINVAL;
        answer[answered++] = (char)problem;
    }
    clear_unused();
    bool is_sent = send(launcher, answer, answered, MSG_NOSIGNAL) == (ssize_t)answered;
    bury();
    return is_sent;
}

int main(void) {
    static char packet[PACKET_BYTES + 1];
    for (int number = 1; number < NSIG; number++)
        signal(number, SIG_IGN);
    /* Whatever else the launcher had open would be kept open by a process that outlives it. */
    close_range(3, ~0U, 0);
    if (chdir("/") != 0)
        return 1;
    for (;;) {
        struct pollfd wait = {.fd = launcher, .events = POLLIN};
        if (poll(&wait, 1, drop_dead()) <= 0)
            continue;
        ssize_t length = recv(launcher, packet, PACKET_BYTES, 0);
        if (length <= 0)
            break;
        packet[length] = '\0';
        if (!serve(packet, (size_t)length))
            break;
    }
    /* The launcher is gone, and its sandboxes die with it. */
    poll(NULL, 0, LINGER_MS);
    for (struct place *place = places; place; place = place->next)
        place->users = 0;
    clear_unused();
    return 0;
}
