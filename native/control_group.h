/*
 * Control groups that sandboxes are in, so that none is left behind by a launcher that was killed.
 *
 * The launcher makes a group, and removes it when the sandbox has ended. What it could not remove, because a process that
 * was killed is not quite dead, and what it leaves when it ends itself, is removed here as soon as nothing is in it.
 *
 * Privilege: that of the launcher, whose word is taken for what is a group. The kernel removes none that is in use.
 */
#ifndef PADDOCK_CONTROL_GROUP_H
#define PADDOCK_CONTROL_GROUP_H

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    /* Between two attempts to remove a group. */
    GROUP_RETRY_MS = 20,
    /* Then it is left to whoever makes the next group there: a process in it can't be killed. */
    GROUP_ATTEMPTS = 3000,
};

struct group {
    struct group *next;
    int attempts; /* that are left; none while it is in use */
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

/* Nothing enters it any more; all of them, without a path. */
static void end_group(const char *path) {
    for (struct group *group = groups; group; group = group->next)
        if (!path || strcmp(group->path, path) == 0)
            group->attempts = GROUP_ATTEMPTS;
}

/* Removes those that are empty. Whether others will be. */
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
