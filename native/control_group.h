/*
 * Removes the control groups of sandboxes, so that a killed launcher leaves none behind.
 *
 * The launcher creates a group, and removes it when the sandbox has ended. It may fail, because a killed process is not
 * quite dead, or end first. The janitor removes such a group as soon as it is empty.
 *
 * Privilege: that of the launcher, which it trusts to name only groups. The kernel removes no group in use.
 */
#ifndef PADDOCK_CONTROL_GROUP_H
#define PADDOCK_CONTROL_GROUP_H

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    /* Time between two attempts to remove a group. */
    GROUP_RETRY_MS = 20,
    /* Then the janitor leaves the group to the process that creates the next group there: it contains a process that
     * can't be killed. */
    GROUP_ATTEMPTS = 3000,
};

struct group {
    struct group *next;
    int attempts; /* remaining attempts; 0 while it is in use */
    char path[];
};

static struct group *groups;

static int remember_group(const char *path) {
    struct group *group = malloc(sizeof *group + strlen(path) + 1);
    if (!group)
        return ENOMEM;
    group->next = groups;
    group->attempts = 0;
    strcpy(group->path, path);
    groups = group;
    return 0;
}

static void forget_group(const char *path) {
    for (struct group **at = &groups; *at; at = &(*at)->next) {
        struct group *group = *at;
        if (strcmp(group->path, path) == 0) {
            *at = group->next;
            free(group);
            return;
        }
    }
}

/* Marks a group that no process enters any more; all groups if there is no path. */
static void end_group(const char *path) {
    for (struct group *group = groups; group; group = group->next)
        if (!path || strcmp(group->path, path) == 0)
            group->attempts = GROUP_ATTEMPTS;
}

/* Removes the ended groups that are empty. Returns whether others remain. */
static bool remove_ended_groups(void) {
    bool is_any_left = false;
    for (struct group **at = &groups; *at;) {
        struct group *group = *at;
        if (group->attempts && (rmdir(group->path) == 0 || errno != EBUSY || --group->attempts == 0)) {
            *at = group->next;
            free(group);
            continue;
        }
        is_any_left |= group->attempts > 0;
        at = &group->next;
    }
    return is_any_left;
}

#endif
