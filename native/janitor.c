/*
 * paddock-janitor: keeps the placeholders that sandboxes need, and removes them afterwards.
 *
 *     paddock-janitor [DIRECTORY]
 *
 * To keep a command from creating, for example, a .git, the launcher must mount something on .git, and a mount needs a
 * file or directory to be on. The janitor creates such a placeholder (placeholder.h) on the host, holds it while a
 * sandbox needs it (held_placeholder.h), and removes it after the last one (clearing.h). It is a separate process so
 * that it outlives a launcher that was killed.
 *
 * Removing a placeholder removes the mounts on it in every sandbox. So each user of a placeholder has a shared flock(2)
 * on it, and only the holder of the exclusive lock may remove it. Thus janitors of different launchers agree without
 * knowing each other. The first process of a sandbox has its own lock while the janitor holds the placeholder. It takes
 * the lock itself, or its launcher does for a placeholder that it can't see. So a mask stays even if its janitor is
 * killed. The kernel releases the locks of dead processes, but a little too early: a killed process gives up its files
 * before the namespace below it is empty. A janitor knows when its own sandboxes are gone. If other users of a
 * placeholder did not leave in order, the janitor keeps it LINGER_MS longer than the last lock.
 *
 * Each janitor lists its placeholders in a journal (journal.h, in DIRECTORY) until it has left them. If a janitor is
 * killed too, the next one that starts, for whatever purpose, finds the leftovers in the journal and removes them.
 *
 * The launcher sends packets over a SOCK_SEQPACKET socket: a verb, then items (item.h), each
 * ended by NUL. The answer is a packet with one byte for each item: 0, or an errno.
 *     'h'  hold. EEXIST: something else is there, or the directory is not the planned one. EBUSY: somebody
 *          else has locked it.
 *     'd'  drop: the sandbox has ended.
 *     'l'  linger: like drop, but the sandbox was killed, and some of its processes may still run.
 *     'm'  hold, then mount the placeholders in the sandbox whose user and mount namespaces come with the packet
 *          (late_mask.h). After the bytes for the items, one more says whether all of them are mounted. If not, they
 *          are held all the same.
 * The last descriptor that comes with 'd', 'l' or 'm' gets the answer instead of the socket, so that the launcher can
 * wait for it beside other requests.
 * For the other verbs, the items are paths of control groups (control_group.h):
 *     'g'  remember the group; 'f' forget it, because it is removed; 'e' remove it as soon as it is empty.
 * When the launcher closes its end, all placeholders linger and the janitor ends.
 *
 * Privilege: that of the launcher, which may write where no command may. Commands can change every directory of a path
 * while the janitor works. So it trusts the launcher's identification of a placeholder's directory, never the target of
 * a path, and creates and removes only in that directory. It removes only placeholders of its own making, and no
 * directory that somebody has put something in.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "clearing.h"
#include "control_group.h"
#include "held_placeholder.h"
#include "item.h"
#include "journal.h"
#include "late_mask.h"

/* The launcher never sends more: 15 paths of the longest kind, or a few hundred ordinary ones. */
enum { PACKET_BYTES = 64 << 10 };

/* The descriptors of one packet: two namespaces for 'm', and then one to answer on. */
enum { NAMESPACES = 2, FILES_LIMIT = NAMESPACES + 1 };

/* ---- What others have left behind ---- */

/* Lists an item that can't be reached now for the next janitor. */
static void leave_to_next(const char *text) {
    note_in_journal(text, strlen(text) + 1);
    has_left_some = true;
}

/* Takes over one item. Does nothing if the path leads to another directory by now: the original one is elsewhere, or
 * gone. */
static void reclaim(char *text) {
    struct item item;
    if (!read_item(text, &item))
        return;
    struct placeholder *placeholder = find(text);
    if (!placeholder) {
        struct directory *directory = enter_directory(&item);
        int fd = directory ? acquire(text, &item, directory->fd, false) : -1;
        if (fd < 0) {
            bool is_locked = directory && errno == EBUSY;
            if (is_locked || (directory ? is_out_of_reach(directory->fd, item.name) : errno == EACCES))
                leave_to_next(text);
            else if (directory)
                abandon_sockets(directory->fd, item.name);
            if (directory)
                leave_directory(directory);
            return;
        }
        note_in_journal(text, strlen(text) + 1);
        if (enlist(text, &item, directory, fd, 0) != 0)
            return;
        placeholder = placeholders;
    }
    placeholder->is_orphaned = true;
}

/* Takes over the items in the journals of dead janitors. */
static void sweep(void) {
    static char items[JOURNAL_BYTES + 1];
    DIR *list = list_journals();
    if (!list)
        return;
    pauses = PAUSES;
    for (struct dirent *entry; (entry = readdir(list));) {
        const char *name = entry->d_name;
        int fd = *name == '.' ? -1 : openat(journals, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        /* Skips locked journals, including that of this janitor. */
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

/* Adds the items to hold to the journal, except those that are in it already. */
static void note_new(char *items, const char *end) {
    static char fresh[PACKET_BYTES + 1];
    size_t length = 0;
    for (char *item = items; item < end; item += strlen(item) + 1)
        if (*item != 's' && !find(item))
            length = (size_t)(stpcpy(fresh + length, item) + 1 - fresh);
    note_in_journal(fresh, length);
}

/* Receives one packet, and the descriptors that may come with it, or -1 for each that does not. Sets `has_lost` if there
 * was no room for all of them. Returns its length, or 0 if the launcher is gone. */
static size_t receive(char packet[PACKET_BYTES + 1], int files[FILES_LIMIT], bool *has_lost) {
    char room[CMSG_SPACE(FILES_LIMIT * sizeof(int))] __attribute__((aligned(8)));
    struct iovec part = {.iov_base = packet, .iov_len = PACKET_BYTES};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    for (int i = 0; i < FILES_LIMIT; i++)
        files[i] = -1;
    ssize_t length = recvmsg(launcher, &message, MSG_CMSG_CLOEXEC);
    if (length <= 0)
        return 0;
    packet[length] = '\0';
    *has_lost = message.msg_flags & MSG_CTRUNC;
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    if (header && header->cmsg_type == SCM_RIGHTS)
        memcpy(files, CMSG_DATA(header), header->cmsg_len - CMSG_LEN(0));
    return (size_t)length;
}

static int serve_group(char verb, const char *path) {
    switch (verb) {
    case 'g':
        return remember_group(path);
    case 'f':
        forget_group(path);
        return 0;
    default:
        end_group(path);
        return 0;
    }
}

static bool is_about_groups(char verb) {
    return verb == 'g' || verb == 'f' || verb == 'e';
}

/* Holds, drops or lingers one item. Returns an errno, or 0. */
static int serve_item(char verb, char *text) {
    struct item item;
    bool holds = verb == 'h' || verb == 'm';
    if (is_about_groups(verb))
        return serve_group(verb, text);
    if (!read_item(text, &item))
        return EINVAL;
    if (item.is_socket)
        return holds ? hold_socket(&item) : 0;
    return holds ? hold(text, &item) : verb == 'd' ? drop(text) : verb == 'l' ? linger(text) : EINVAL;
}

/* Answers one packet, on the socket or on the descriptor that came with it. If that descriptor was lost, the launcher
 * sees the end of its pipe, and takes an answer on the socket for that to its next packet. A NUL follows the packet, if
 * need be past the buffer. Returns whether the launcher is there. */
static bool serve(char *packet, size_t length, const int files[FILES_LIMIT], bool has_lost) {
    static char answer[PACKET_BYTES + 1];
    size_t answered = 0;
    char verb = packet[0];
    int masking = files[NAMESPACES - 1] < 0 ? EBADF : 0;
    int way = verb == 'm' ? files[NAMESPACES] : verb == 'd' || verb == 'l' ? files[0] : -1;
    /* Nobody would learn what is held. */
    if (has_lost && verb == 'm')
        return true;
    pauses = PAUSES;
    if (verb == 'h' || verb == 'm')
        note_new(packet + 1, packet + length);
    for (char *text = packet + 1; text < packet + length; text += strlen(text) + 1) {
        int problem = serve_item(verb, text);
        answer[answered++] = (char)problem;
        if (problem)
            masking = ECANCELED;
    }
    if (verb == 'm')
        answer[answered++] = (char)(masking ? masking : mask_late(packet + 1, packet + length, files));
    clear_unused();
    if (has_parted && !placeholders)
        tidy_journal();
    has_parted = false;
    /* A launcher that no longer waits for this answer may wait for others. */
    bool is_sent = has_lost || (way >= 0 ? write(way, answer, answered) >= 0 || errno == EPIPE
                                         : send(launcher, answer, answered, MSG_NOSIGNAL) == (ssize_t)answered);
    close_cleared();
    return is_sent;
}

/* Does all due work. Returns how long to wait at most until more is due; less than 0 means forever. */
static int next_wait_ms(void) {
    int wait_ms = drop_dead();
    return remove_ended_groups() && (wait_ms < 0 || wait_ms > GROUP_RETRY_MS) ? GROUP_RETRY_MS : wait_ms;
}

/* Leaves: the launcher is gone, and its sandboxes die with it. */
static void leave(void) {
    is_leaving = true;
    for (struct placeholder *placeholder = placeholders; placeholder; placeholder = placeholder->next) {
        placeholder->users = placeholder->lingering = 1;
        placeholder->attempts = 0;
        keep_a_moment(placeholder);
    }
    end_group(NULL);
    for (int wait_ms; wait_ms = next_wait_ms(), placeholders || groups;)
        poll(NULL, 0, wait_ms);
    tidy_journal();
    close_journal();
}

/* Each placeholder of all commands needs a descriptor. The lower limit is for programs that use select(2). */
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
        /* If SIGCHLD were ignored, there would be no children to wait for. */
        signal(number, number == SIGCHLD ? SIG_DFL : SIG_IGN);
    /* This process outlives the launcher, and must not keep its other descriptors open. */
    close_range(3, ~0U, 0);
    if (chdir("/") != 0)
        return 1;
    raise_descriptor_limit();
    /* The mode of a placeholder is what it is recognized by, and the launcher may have any umask. */
    umask(0);
    if (argc > 1)
        journal_path = argv[1];
    for (;;) {
        struct pollfd wait = {.fd = launcher, .events = POLLIN};
        if (poll(&wait, 1, next_wait_ms()) <= 0)
            continue;
        int files[FILES_LIMIT];
        bool has_lost;
        size_t length = receive(packet, files, &has_lost);
        if (length == 0)
            break;
        bool is_answered = serve(packet, length, files, has_lost);
        for (int i = 0; i < FILES_LIMIT; i++)
            if (files[i] >= 0)
                close(files[i]);
        if (!is_answered)
            break;
        /* After the answer, so that the first command does not wait for leftovers. */
        if (!has_swept)
            sweep();
        has_swept = true;
    }
    leave();
    return 0;
}
