/*
 * How a janitor removes the placeholders that are not needed any more.
 *
 * It removes nothing that is not a placeholder of its own making, and no directory that somebody has put something in. What
 * others still need is left to them, in the end by the journal.
 *
 * Privilege: that of the launcher; see held_placeholder.h.
 */
#ifndef PADDOCK_CLEARING_H
#define PADDOCK_CLEARING_H

#include "held_placeholder.h"

/* A launcher that was killed takes its sandboxes along. What others still need after this many attempts,
 * LINGER_MS apart, is left to them. */
enum { LEAVING_ATTEMPTS = 3 };

/* Places that are removed but still open, of which each has a descriptor; some ten commands' worth. */
enum { CLEARED_LIMIT = 64 };

static struct placeholder *cleared; /* removed, but still open */
static unsigned n_cleared;

static bool has_left_some; /* to others who need them; the journal still names them */
static bool has_parted;    /* from a placeholder that others need, who must not take us for one that was killed */

/* Whether somebody of whose end we know nothing may have needed a placeholder until just now. */
static bool is_doubtful(const struct placeholder *placeholder) {
    mode_t bits = bits_of(placeholder->fd);
    return bits & STRANGER_BIT ||
           (bits & JOINED_BIT && (placeholder->is_orphaned || is_named_elsewhere(placeholder->text)));
}

/* Removes the sockets of a .git that is somebody's own by now, or gone; those of another janitor's are its own. */
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

/* Removes a placeholder that is not needed any more; false if it has to be kept a moment longer. */
static bool clear_away(struct placeholder *placeholder) {
    int directory = placeholder->directory->fd;
    if (is_out_of_reach(directory, placeholder->name)) {
        /* Its user opens the directory again, and must not find it there. */
        placeholder->attempts++;
        has_left_some = has_left_some || is_leaving;
        return is_leaving && placeholder->attempts > LEAVING_ATTEMPTS;
    }
    if (flock(placeholder->fd, LOCK_EX | LOCK_NB) != 0) {
        /* Ours is lost by this, so others are not in our way, nor we in theirs. */
        placeholder->is_locked = false;
        placeholder->attempts++;
        /* Who needs it names it. Anybody else gives it up without a word: a process that has inherited a lock and is
         * not yet the program that it will be, or one that has locked what it found. */
        if (is_leaving ? placeholder->attempts <= LEAVING_ATTEMPTS
                       : placeholder->is_orphaned || !is_named_elsewhere(placeholder->text))
            return false;
        /* Those who need it name it themselves, unless all that is left of them is a sandbox. */
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
        /* Locks are exchanged in one step (Linux 4.1), so nobody removes it before who sees the bits cleared. */
        return flock(placeholder->fd, LOCK_SH | LOCK_NB) != 0;
    }
    unmake(placeholder->fd, directory, placeholder->name, placeholder->is_directory);
    return true;
}

/* Removes the placeholders that are not needed any more; `close_cleared` has to follow. */
static void clear_unused(void) {
    for (struct placeholder **link = &placeholders; *link;) {
        struct placeholder *placeholder = *link;
        if (placeholder->users == 0 && clear_away(placeholder)) {
            *link = placeholder->next;
            /* What stays at its path is others' from now on. */
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

/* Drops those whose time is over. Returns how long to wait for the next, -1 for ever. */
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
