/*
 * Removes the placeholders of a janitor that nobody needs any more.
 *
 * It removes only placeholders of its own making, and no directory that somebody has put something in. It leaves a
 * placeholder that others still need to them, in the end through the journal.
 *
 * Privilege: that of the launcher; see held_placeholder.h.
 */
#ifndef PADDOCK_CLEARING_H
#define PADDOCK_CLEARING_H

#include "held_placeholder.h"

/* The sandboxes of a killed launcher die with it. After this many attempts, LINGER_MS apart, the janitor leaves a
 * placeholder to the others that still need it. */
enum { LEAVING_ATTEMPTS = 3 };

/* Removed placeholders that are still open, with a descriptor each: enough for about ten commands. */
enum { CLEARED_LIMIT = 64 };

static struct placeholder *cleared; /* removed, but still open */
static unsigned n_cleared;

static bool has_left_some; /* placeholders to others who need them; the journal still lists them */
static bool has_parted;    /* from a placeholder that others need; they must not think that this janitor was killed */

/* Returns whether a process whose end this janitor can't see may have needed a placeholder until just now. */
static bool is_doubtful(const struct placeholder *placeholder) {
    mode_t bits = bits_of(placeholder->fd);
    return bits & STRANGER_BIT ||
           (bits & JOINED_BIT && (placeholder->is_orphaned || is_named_elsewhere(placeholder->text)));
}

/* Removes the sockets beside a .git that is no longer a placeholder, or gone. Leaves those of another janitor alone. */
static void abandon_sockets(int directory, const char *name) {
    if (!is_git(name))
        return;
    int fd = openat(directory, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    bool is_used = fd >= 0 && is_placeholder(fd, true) && !is_unused(fd) && flock(fd, LOCK_EX | LOCK_NB) == 0;
    if (fd < 0 || is_used || !is_placeholder(fd, true))
        remove_sockets(directory);
    if (is_used) {
        remove_note(fd);
        fchmod(fd, ORDINARY_MODE);
    }
    if (fd >= 0)
        close(fd);
}

/* Removes a placeholder that nobody needs any more. Returns false if it has to stay a moment longer. */
static bool clear_away(struct placeholder *placeholder) {
    int directory = placeholder->directory->fd;
    if (is_out_of_reach(directory, placeholder->name)) {
        /* Its owner will make the directory accessible again, and must not find the placeholder there. */
        placeholder->attempts++;
        has_left_some = has_left_some || is_leaving;
        return is_leaving && placeholder->attempts > LEAVING_ATTEMPTS;
    }
    if (flock(placeholder->fd, LOCK_EX | LOCK_NB) != 0) {
        /* The failed call releases the shared lock, so janitors don't block each other. */
        placeholder->is_locked = false;
        placeholder->attempts++;
        /* A janitor that needs it lists it in its journal. Any other holder releases it without notice: a process that
         * has inherited the lock and has not yet executed its program, or one that locks files it finds. */
        if (is_leaving ? placeholder->attempts <= LEAVING_ATTEMPTS
                       : placeholder->is_orphaned || !is_named_elsewhere(placeholder->text))
            return false;
        /* Its users list it themselves, unless only a sandbox is left of them. */
        has_left_some = has_left_some || is_leaving;
        has_parted = true;
        return true;
    }
    placeholder->is_locked = true;
    placeholder->attempts = 0;
    give_away_moved(placeholder->fd, directory, placeholder->name, placeholder->is_directory);
    if (!is_in_place(placeholder) || !is_left_alone(placeholder->fd, placeholder->is_directory)) {
        abandon_sockets(directory, placeholder->name);
        return true;
    }
    if (is_doubtful(placeholder)) {
        set_bits(placeholder->fd, placeholder->is_directory, 0);
        placeholder->is_orphaned = false;
        /* The kernel exchanges locks in one step (Linux 4.1), so nobody removes it without seeing the bits cleared. */
        return flock(placeholder->fd, LOCK_SH | LOCK_NB) != 0;
    }
    unmake(placeholder->fd, directory, placeholder->name, placeholder->is_directory);
    return true;
}

/* Removes the placeholders that nobody needs any more. Call `close_cleared` afterwards. */
static void clear_unused(void) {
    for (struct placeholder **link = &placeholders; *link;) {
        struct placeholder *placeholder = *link;
        if (placeholder->users == 0 && clear_away(placeholder)) {
            *link = placeholder->next;
            /* The file at its path belongs to others from now on. */
            flock(placeholder->fd, LOCK_UN);
            placeholder->next = cleared;
            cleared = placeholder;
            n_cleared++;
            continue;
        }
        if (placeholder->users == 0) {
            placeholder->users = placeholder->lingering = 1;
            keep_a_moment(placeholder);
        }
        link = &placeholder->next;
    }
}

/* Only for a janitor that holds no placeholder. */
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

/* Closing the last descriptor makes the file system free the removed file, which takes longer than all the rest. The
 * launcher need not wait for that or for the journal, neither for this answer nor for the next. */
static void close_cleared(void) {
    if (cleared && !placeholders)
        tidy_journal();
    while (cleared && (is_leaving || n_cleared > CLEARED_LIMIT || !is_asked())) {
        struct placeholder *placeholder = cleared;
        cleared = placeholder->next;
        n_cleared--;
        close(placeholder->fd);
        leave_directory(placeholder->directory);
        free(placeholder);
    }
}

/* Drops the placeholders whose time is over. Returns how long to wait for the next, or -1 to wait forever. */
static int drop_dead(void) {
    int64_t now = now_ms(), next = -1;
    for (struct placeholder *placeholder = placeholders; placeholder; placeholder = placeholder->next) {
        if (placeholder->lingering > 0 && placeholder->until_ms <= now) {
            placeholder->users -= placeholder->lingering;
            placeholder->lingering = 0;
        }
    }
    clear_unused();
    close_cleared();
    for (struct placeholder *placeholder = placeholders; placeholder; placeholder = placeholder->next)
        if (placeholder->lingering > 0 && (next < 0 || placeholder->until_ms - now < next))
            next = placeholder->until_ms > now ? placeholder->until_ms - now : 0;
    return (int)next;
}

#endif
