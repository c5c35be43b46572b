/*
 * Lets paddock-init wait in a ready sandbox until a command arrives.
 *
 * The launcher sends one packet over the socket `wait=FD`, with descriptors (SCM_RIGHTS): a file with the words of the
 * command (init.c), and its standard streams. The init then proceeds as if it had started with these words. It verifies
 * mounts, locks placeholders and watches masks again, because they may have changed meanwhile, and because the launcher
 * mounts the masks of placeholders only now (late_mask.h).
 *
 * While it waits, this process reports nothing. It ends when the launcher is gone or closes its end, and when somebody
 * takes a mask away.
 *
 * Privilege: none. The confinement is in force already, and the command inherits it.
 */
#ifndef PADDOCK_WAITING_H
#define PADDOCK_WAITING_H

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "inherited.h"
#include "mask.h"
#include "signals.h"
#include "task.h"

/* The descriptors of the packet, in this order. */
enum { WORDS, FIRST_STREAM, STREAMS = 3, PARTS = FIRST_STREAM + STREAMS };

/* How long to wait after a change of the mounts before the next look. The late masks are several changes in a row, and
 * each look would delay the next mask. The command's arrival is another reason to look. */
enum { SETTLE_MS = 1 };

/* Receives the packet. Ends this process if none will come. */
static void receive_parts(int parts[PARTS]) {
    char nothing, room[CMSG_SPACE(PARTS * sizeof(int))] __attribute__((aligned(8)));
    struct iovec part = {.iov_base = &nothing, .iov_len = sizeof nothing};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    if (recvmsg(task.waiting, &message, MSG_CMSG_CLOEXEC) <= 0)
        _exit(EXIT_ABANDONED);
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    if (!header || message.msg_flags & MSG_CTRUNC || header->cmsg_type != SCM_RIGHTS ||
        header->cmsg_len != CMSG_LEN(PARTS * sizeof(int))) {
        errno = EBADF;
        refuse("wait", "");
    }
    memcpy(parts, CMSG_DATA(header), PARTS * sizeof(int));
}

/* Becomes the init of the command that arrived. */
static void take_command(void) {
    static char word[sizeof "more=" + NUMBER_BYTES];
    static char *argv[] = {"paddock-init", word, NULL};
    char digits[NUMBER_BYTES];
    int parts[PARTS];
    receive_parts(parts);
    for (int i = 0; i < STREAMS; i++) {
        if (syscall(SYS_dup3, parts[FIRST_STREAM + i], i, 0) < 0)
            refuse("wait", "");
        close(parts[FIRST_STREAM + i]);
    }
    close(task.waiting);
    /* From now on, messages are for the client of the command. */
    if (lost_mask()) {
        errno = ESTALE;
        refuse("it was exchanged meanwhile: ", lost_mask()->path);
    }
    forget_masks();
    stpcpy(stpcpy(word, "more="), number_text(digits, (uint64_t)parts[WORDS], 10, 1));
    parse(2, argv);
    if (!task.program) {
        errno = EINVAL;
        refuse("no command after ", "--");
    }
    verify_mounts();
    replace_null_device();
    hold_placeholders();
    watch_masks();
}

/* Returns whether a signal ends this process or a mask is lost. */
static bool is_told_to_end(int signals) {
    struct signalfd_siginfo arrived[ARRIVALS_LIMIT];
    ssize_t count = read(signals, arrived, sizeof arrived) / (ssize_t)sizeof *arrived;
    for (const struct signalfd_siginfo *each = arrived; each < arrived + count; each++)
        if (each->ssi_signo == SIGTERM)
            return true;
    return lost_mask() != NULL;
}

/* A kernel that can't tell whether a file is a mount (before 5.8) does not report a lost mount either. */
static void require_mount_roots(void) {
    struct statx root;
    if (statx(AT_FDCWD, "/", 0, 0, &root) == 0 && root.stx_attributes_mask & IS_MOUNT_ROOT)
        return;
    errno = EOPNOTSUPP;
    refuse("wait", "");
}

/* Returns when there is a command. Call this when everything that does not depend on the command is in force. */
static void await_command(int signals) {
    require_mount_roots();
    report(&(struct report){.kind = REPORT_WAITING});
    struct pollfd events[] = {{.fd = signals, .events = POLLIN}, {.fd = task.report},
                              {.fd = masks.mounts, .events = POLLPRI}, {.fd = task.waiting, .events = POLLIN}};
    for (bool is_settling = false;;) {
        events[2].fd = is_settling ? -1 : masks.mounts;
        int count = poll(events, 4, is_settling ? SETTLE_MS : masks.has_unwatched ? LOOK_MS : -1);
        if (count < 0 && errno != EINTR)
            refuse("poll", "");
        if (events[1].revents || (events[0].revents && is_told_to_end(signals)))
            _exit(EXIT_ABANDONED);
        if (events[3].revents) {
            take_command();
            return;
        }
        if (((is_settling && count == 0) || masks.has_unwatched) && lost_mask())
            _exit(EXIT_ABANDONED);
        is_settling = is_settling ? count != 0 : events[2].revents != 0;
    }
}

#endif
