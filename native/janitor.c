/*
 * paddock-janitor: keeps the places that sandboxes need to exist, and clears them away.
 *
 *     paddock-janitor [DIRECTORY]
 *
 * To keep a command from making, say, a .git of its own, something must be mounted
 * on .git, and only what exists can be mounted on. The janitor makes such a place
 * (place.h) on the host, holds it while a sandbox needs it, and removes it after the last
 * one. It is a process of its own so that it outlives a launcher that was killed.
 *
 * Removing a place takes away what is mounted on it, in every sandbox. So whoever needs
 * a place has a shared flock(2) on it, and whoever wants to remove it must get the exclusive
 * one. Thus janitors of different launchers agree without knowing each other. The first
 * process of a sandbox has a lock of its own, which its launcher got while the
 * janitor held the place: a mask stays though its janitor is killed. The kernel forgets the
 * locks of the dead, but a little too early: a process that is killed gives up its files
 * before the namespace below it is empty. A janitor knows when its own sandboxes are gone. A
 * place that others have needed, who did not leave in order, is kept LINGER_MS longer than
 * the last lock.
 *
 * Each names its places in a journal (journal.h, in DIRECTORY) until it has left them. What is
 * left when a janitor was killed as well, is thus known to the next one that starts, whatever
 * it was started for, and cleared away.
 *
 * The launcher sends packets over a SOCK_SEQPACKET socket: a verb, then items (item.h), each
 * ended by NUL. Each packet is answered by one of one byte for each item: 0, or an errno.
 *     'h'  hold. EEXIST: something else is there, or the directory is not the one that was planned.
 *     'd'  drop. The sandbox has ended.
 *     'l'  linger: as drop, but the sandbox was killed, and may not be quite dead.
 * When the launcher has closed its end, all places linger and the janitor ends.
 *
 * Privilege: that of the launcher, which may write where no command may. Commands can change every directory
 * of a path while the janitor works, so it trusts what the launcher says a place's directory is, never where a path leads,
 * and makes and removes only in that directory. It removes nothing that is
 * not a place of its own making, and no directory that somebody has put something in.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "item.h"
#include "journal.h"
#include "place.h"

static const int launcher = 0; /* the socket */

/* Between the SIGKILL of a sandbox and the last instruction of its processes; a second is an age for that. */
enum { LINGER_MS = 1000 };

/* A launcher that was killed takes its sandboxes along. What others still need after this many attempts,
 * LINGER_MS apart, is left to them. */
enum { FAREWELLS = 3 };

/* While the launcher lives, attempts to clear away what no other janitor will come at longer and longer intervals:
 * LINGER_MS doubled so often, which is about a minute. */
enum { DOUBLINGS = 6 };

/* The launcher never sends more: 15 paths of the longest kind, or some hundred usual ones. */
enum { PACKET_BYTES = 64 << 10 };

/* Races that can be lost to other janitors in a row before something else must be wrong, and the pause after
 * each: what another does to a place takes much less. */
enum { ATTEMPTS = 100, PAUSE_MS = 1 };

/* Places that are removed but not yet buried, of which each has a descriptor; some ten commands' worth. */
enum { UNBURIED_LIMIT = 64 };

struct place {
    struct place *next;
    struct directory *directory; /* that it is in */
    int fd;                      /* open on the place */
    unsigned users;              /* sandboxes of this launcher */
    unsigned lingering;          /* of these, those that were killed */
    unsigned attempts;           /* to clear it away, in vain */
    int64_t until_ms;            /* when the last of the lingering is dead */
    bool is_directory;
    bool is_locked;
    bool is_orphaned; /* a sandbox may still have it locked whose end nobody reports */
    const char *name; /* in the text */
    char text[];      /* of the item */
};
static struct place *places, *cleared;
static unsigned unburied; /* the length of `cleared` */

static bool has_left_some; /* to others who need them; the journal still names them */
static bool has_parted;    /* from a place that others need, who must not take us for one that was killed */
static bool is_leaving;    /* the launcher is gone */

static int64_t now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- Holding ---- */

static struct place *find(const char *text) {
    struct place *place = places;
    while (place && !is_same_place(place->text, text))
        place = place->next;
    return place;
}

static bool is_in_place(const struct place *place) {
    return is_at(place->fd, place->directory->fd, place->name);
}

/* Whether a place can be opened after it was made: making needs a descriptor, too. */
static bool has_room(void) {
    int first = dup(launcher), second = dup(launcher);
    bool has_both = first >= 0 && second >= 0;
    if (first >= 0)
        close(first);
    if (second >= 0)
        close(second);
    return has_both;
}

/* Opens a place with a shared lock; if nothing is there, makes it or fails with ENOENT. Returns -1 with errno. */
static int acquire(const char *text, const struct item *item, int directory, bool makes) {
    const char *name = item->name;
    if (!has_room())
        return -1;
    for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
        int fd = makes ? make(directory, name, item->is_directory) : -1;
        bool is_made = fd >= 0;
        if (makes && !is_made && errno != EEXIST && errno != EAGAIN)
            return -1;
        if (!is_made)
            fd = openat(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (fd < 0 && (errno != ENOENT || !makes)) {
            /* Of another user, or no place at all. */
            if (errno != EACCES && errno != ENOENT)
                errno = EEXIST;
            return -1;
        }
        /* Whoever has the exclusive lock is about to remove it. */
        if (fd < 0 || flock(fd, LOCK_SH | LOCK_NB) != 0 || !is_at(fd, directory, name)) {
            if (fd >= 0)
                close(fd);
            poll(NULL, 0, PAUSE_MS);
            continue;
        }
        if (!is_place(fd, item->is_directory) || (item->is_directory && !is_made && !is_unused(fd))) {
            close(fd);
            /* What was made just now is none only where modes or owners are not kept: nobody would know it later. */
            if (is_made && unlinkat(directory, name, item->is_directory ? AT_REMOVEDIR : 0) == 0)
                errno = EOPNOTSUPP;
            else
                errno = EEXIST;
            return -1;
        }
        if (!is_made)
            set_bits(fd, item->is_directory,
                     bits_of(fd) | JOINED_BIT | (is_named_elsewhere(text) ? 0 : STRANGER_BIT));
        if (item->is_directory && has_note(name))
            leave_note(fd);
        return fd;
    }
    errno = EBUSY;
    return -1;
}

/* Takes over the directory and the descriptor. Returns an errno, or 0. */
static int enlist(const char *text, const struct item *item, struct directory *directory, int fd, unsigned users) {
    struct place *place = malloc(sizeof *place + strlen(text) + 1);
    if (!place) {
        close(fd);
        leave_directory(directory);
        return ENOMEM;
    }
    *place = (struct place){.next = places, .directory = directory, .fd = fd, .users = users,
                            .is_directory = item->is_directory, .is_locked = true};
    strcpy(place->text, text);
    place->name = place->text + (item->name - text);
    places = place;
    return 0;
}

static int hold(const char *text, const struct item *item) {
    struct place *place = find(text);
    if (place && place->is_directory == item->is_directory && place->is_locked && is_in_place(place)) {
        place->users++;
        return 0;
    }
    struct directory *directory = enter_directory(item);
    if (!directory)
        return errno == ENOENT || errno == ESTALE ? EEXIST : errno;
    int fd = acquire(text, item, directory->fd, true);
    if (fd < 0) {
        leave_directory(directory);
        return errno;
    }
    if (!place)
        return enlist(text, item, directory, fd, 1);
    /* It was left to others, or somebody has taken it away though it is needed: then those that needed it end
     * (mask.h). */
    leave_directory(directory);
    give_away_moved(place->fd, place->directory->fd, place->name, place->is_directory);
    close(place->fd);
    place->fd = fd;
    place->is_directory = item->is_directory;
    place->is_locked = true;
    place->users++;
    return 0;
}

static int drop(const char *text) {
    struct place *place = find(text);
    if (!place || place->users == place->lingering)
        return ENOENT;
    place->users--;
    return 0;
}

static void keep_a_moment(struct place *place) {
    unsigned doublings = is_leaving ? 0 : place->attempts < DOUBLINGS ? place->attempts : DOUBLINGS;
    place->until_ms = now_ms() + ((int64_t)LINGER_MS << doublings);
}

static int linger(const char *text) {
    struct place *place = find(text);
    if (!place || place->users == place->lingering)
        return ENOENT;
    place->lingering++;
    place->is_orphaned = true;
    keep_a_moment(place);
    return 0;
}

/* ---- Clearing away ---- */

/* Whether somebody of whose end we know nothing may have needed a place until just now. */
static bool is_doubtful(const struct place *place) {
    mode_t bits = bits_of(place->fd);
    return bits & STRANGER_BIT || (bits & JOINED_BIT && (place->is_orphaned || is_named_elsewhere(place->text)));
}

/* Removes a place that is not needed any more; false if it has to be kept a moment longer. */
static bool clear_away(struct place *place) {
    int directory = place->directory->fd;
    if (is_out_of_reach(directory, place->name)) {
        /* Its user opens the directory again, and must not find it there. */
        place->attempts++;
        has_left_some = has_left_some || is_leaving;
        return is_leaving && place->attempts > FAREWELLS;
    }
    if (flock(place->fd, LOCK_EX | LOCK_NB) != 0) {
        /* Ours is lost by this, so others are not in our way, nor we in theirs. */
        place->is_locked = false;
        place->attempts++;
        /* Who needs it names it. Anybody else gives it up without a word: a process that has inherited a lock and is
         * not yet the program that it will be, or one that has locked what it found. */
        if (is_leaving ? place->attempts <= FAREWELLS : place->is_orphaned || !is_named_elsewhere(place->text))
            return false;
        /* Those who need it name it themselves, unless all that is left of them is a sandbox. */
        has_left_some = has_left_some || is_leaving;
        has_parted = true;
        return true;
    }
    place->is_locked = true;
    place->attempts = 0;
    give_away_moved(place->fd, directory, place->name, place->is_directory);
    if (!is_in_place(place) || !is_place(place->fd, place->is_directory))
        return true;
    if (is_doubtful(place)) {
        set_bits(place->fd, place->is_directory, 0);
        place->is_orphaned = false;
        /* Locks are exchanged in one step (Linux 4.1), so nobody removes it before who sees the bits cleared. */
        return flock(place->fd, LOCK_SH | LOCK_NB) != 0;
    }
    unmake(place->fd, directory, place->name, place->is_directory);
    return true;
}

/* Removes the places that are not needed any more; `bury` has to follow. */
static void clear_unused(void) {
    for (struct place **link = &places; *link;) {
        struct place *place = *link;
        if (place->users == 0 && clear_away(place)) {
            *link = place->next;
            /* What stays at its path is others' from now on. */
            flock(place->fd, LOCK_UN);
            place->next = cleared;
            cleared = place;
            unburied++;
            continue;
        }
        if (place->users == 0) {
            place->users = place->lingering = 1;
            keep_a_moment(place);
        }
        link = &place->next;
    }
}

/* For a janitor that holds nothing. */
static void tidy_journal(void) {
    if (has_left_some)
        shorten_journal();
    else
        empty_journal();
    has_left_some = journal.size > 0;
}

static bool is_asked(void) {
    struct pollfd wait = {.fd = launcher, .events = POLLIN};
    return poll(&wait, 1, 0) > 0;
}

/* With the last descriptor of it the file system gives up what was removed, which takes longer than all the
 * rest. The launcher need not wait for that, nor for the journal; neither for this answer nor for the next. */
static void bury(void) {
    if (cleared && !places)
        tidy_journal();
    while (cleared && (is_leaving || unburied > UNBURIED_LIMIT || !is_asked())) {
        struct place *place = cleared;
        cleared = place->next;
        unburied--;
        close(place->fd);
        leave_directory(place->directory);
        free(place);
    }
}

/* Drops those whose time is over. Returns how long to wait for the next, -1 for ever. */
static int drop_dead(void) {
    int64_t now = now_ms(), next = -1;
    for (struct place *place = places; place; place = place->next) {
        if (place->lingering > 0 && place->until_ms <= now) {
            place->users -= place->lingering;
            place->lingering = 0;
        }
    }
    clear_unused();
    bury();
    for (struct place *place = places; place; place = place->next)
        if (place->lingering > 0 && (next < 0 || place->until_ms - now < next))
            next = place->until_ms > now ? place->until_ms - now : 0;
    return (int)next;
}

/* ---- What others have left behind ---- */

/* Names what can't be reached now for the next janitor. */
static void leave_to_next(const char *text) {
    note_in_journal(text, strlen(text) + 1);
    has_left_some = true;
}

/* Where the path leads to another directory by now, nothing is to be done: the one that was meant is
 * elsewhere, or gone. */
static void reclaim(char *text) {
    struct item item;
    if (!read_item(text, &item))
        return;
    struct place *place = find(text);
    if (!place) {
        struct directory *directory = enter_directory(&item);
        int fd = directory ? acquire(text, &item, directory->fd, false) : -1;
        if (fd < 0) {
            if (directory ? is_out_of_reach(directory->fd, item.name) : errno == EACCES)
                leave_to_next(text);
            if (directory)
                leave_directory(directory);
            return;
        }
        note_in_journal(text, strlen(text) + 1);
        if (enlist(text, &item, directory, fd, 0) != 0)
            return;
        place = places;
    }
    place->is_orphaned = true;
}

/* Takes over what the journals of dead janitors name. */
static void sweep(void) {
    static char items[JOURNAL_BYTES + 1];
    DIR *list = list_journals();
    if (!list)
        return;
    for (struct dirent *entry; (entry = readdir(list));) {
        const char *name = entry->d_name;
        int fd = *name == '.' ? -1 : openat(journals, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        /* Ours is among those that are locked. */
        if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0 && is_at(fd, journals, name)) {
            size_t length = read_journal(fd, items);
            for (char *item = items; item < items + length; item += strlen(item) + 1)
                reclaim(item);
            unlinkat(journals, name, 0);
        }
        if (fd >= 0)
            close(fd);
    }
    closedir(list);
}

/* ---- Talking to the launcher ---- */

/* Names in the journal those of the items to hold that it does not name yet. */
static void note_new(char *items, const char *end) {
    static char fresh[PACKET_BYTES + 1];
    size_t length = 0;
    for (char *item = items; item < end; item += strlen(item) + 1)
        if (!find(item))
            length = (size_t)(stpcpy(fresh + length, item) + 1 - fresh);
    note_in_journal(fresh, length);
}

/* Answers one packet. It ends in NUL, behind the buffer if need be. */
static bool serve(char *packet, size_t length) {
    static char answer[PACKET_BYTES];
    size_t answered = 0;
    char verb = packet[0];
    if (verb == 'h')
        note_new(packet + 1, packet + length);
    for (char *text = packet + 1; text < packet + length; text += strlen(text) + 1) {
        struct item item;
        int problem = !read_item(text, &item) ? EINVAL
                      : verb == 'h'           ? hold(text, &item)
                      : verb == 'd'           ? drop(text)
                      : verb == 'l'           ? linger(text)
                                              : EINVAL;
        answer[answered++] = (char)problem;
    }
    clear_unused();
    if (has_parted && !places)
        tidy_journal();
    has_parted = false;
    bool is_sent = send(launcher, answer, answered, MSG_NOSIGNAL) == (ssize_t)answered;
    bury();
    return is_sent;
}

/* The launcher is gone, and its sandboxes die with it. */
static void leave(void) {
    is_leaving = true;
    for (struct place *place = places; place; place = place->next) {
        place->users = place->lingering = 1;
        place->attempts = 0;
        keep_a_moment(place);
    }
    for (int wait_ms; wait_ms = drop_dead(), places;)
        poll(NULL, 0, wait_ms);
    tidy_journal();
    close_journal();
}

/* One is open for each place, of all commands of the launcher. The lower limit is for programs that use select(2). */
static void raise_descriptor_limit(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

int main(int argc, char **argv) {
    static char packet[PACKET_BYTES + 1];
    bool has_swept = false;
    for (int number = 1; number < NSIG; number++)
        signal(number, SIG_IGN);
    /* Whatever else the launcher had open would be kept open by a process that outlives it. */
    close_range(3, ~0U, 0);
    if (chdir("/") != 0)
        return 1;
    raise_descriptor_limit();
    if (argc > 1)
        journal_path = argv[1];
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
        /* The first command does not wait for what others have left. */
        if (!has_swept)
            sweep();
        has_swept = true;
    }
    leave();
    return 0;
}
