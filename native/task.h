/*
 * Parses the words of paddock-init or of a file worker into one value. init.c describes each word.
 *
 * Invalid words end the process before it starts anything, as does every step of the confinement that fails. This file
 * only parses.
 *
 * Privilege: that of the caller. It trusts the caller's words.
 */
#ifndef PADDOCK_TASK_H
#define PADDOCK_TASK_H

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "message.h"
#include "number.h"
#include "report.h"

enum { EXIT_ABANDONED = 123, EXIT_WALL = 124, EXIT_NOT_CONFINED = 125, EXIT_NOT_EXECUTABLE = 126, EXIT_NOT_FOUND = 127 };

struct limit_name {
    const char *word;
    int resource;
};
static const struct limit_name limit_names[] = {
    {"as", RLIMIT_AS}, {"cpu", RLIMIT_CPU}, {"fsize", RLIMIT_FSIZE}, {"nofile", RLIMIT_NOFILE}, {"nproc", RLIMIT_NPROC},
};
enum { LIMITS = sizeof limit_names / sizeof *limit_names };

/* Since Linux 5.13 on every machine; older headers lack them. */
enum { LANDLOCK_CREATE = 444, LANDLOCK_ADD_RULE = 445, LANDLOCK_RESTRICT = 446 };

struct __attribute__((packed)) landlock_ruleset {
    uint64_t handled_fs, handled_net, scoped;
};

static struct {
    uint64_t limits[LIMITS]; /* 0 for none */
    uint64_t wall_s;
    bool has_landlock;
    bool is_isolated;
    struct landlock_ruleset landlock;
    char **words;
    int n_words, n_variables;
    int filter, trace, report, cgroup, memory, waiting, kept; /* descriptors, or -1 */
    int kept_number;                                          /* number of `kept` in the command */
    char *program;
    char **argv;
    char **environment; /* of the command, which inherits no variable */
    char *cwd;          /* of the command, or NULL if bubblewrap sets it */
} task = {.filter = -1, .trace = -1, .report = -1, .cgroup = -1, .memory = -1, .waiting = -1, .kept = -1};

/* ---- Telling what happened ---- */

static void report(const struct report *report) {
    if (task.report >= 0 && write(task.report, report, sizeof *report) < 0) {
        /* Nobody reads. The exit status tells most of it. */
    }
}

#ifndef NOT_CONFINED
#define NOT_CONFINED "the command was not started, because it can't be confined: "
#endif

/* Exits with the reason in errno. */
static _Noreturn void refuse(const char *step, const char *value) {
    int error = errno;
    report(&(struct report){.kind = REPORT_NOT_CONFINED, .value = error});
    SAY(NOT_CONFINED, step, value, ": ", strerror(error));
    _exit(EXIT_NOT_CONFINED);
}

/* ---- Words ---- */

/* Returns the rest of `word` after "NAME=", or NULL if the word has another name. */
static char *value_of(char *word, const char *name) {
    size_t length = strlen(name);
    return strncmp(word, name, length) == 0 && word[length] == '=' ? word + length + 1 : NULL;
}

/* Reads one number that ends with `stop`, and moves `text` past it. */
static uint64_t number(char **text, unsigned base, char stop, const char *word) {
    uint64_t value;
    if (!read_number(text, base, &value) || **text != stop) {
        errno = EINVAL;
        refuse("word ", word);
    }
    *text += stop != '\0';
    return value;
}

/* Rejects a value that would mean no descriptor, like -1: it would disable what the word asks for. */
static int descriptor_before(char **text, char stop, const char *word) {
    uint64_t value = number(text, 10, stop, word);
    if (value > INT_MAX) {
        errno = EBADF;
        refuse("word ", word);
    }
    return (int)value;
}

static int descriptor(char *text, const char *word) {
    return descriptor_before(&text, '\0', word);
}

/* Rejects a relative path, because its target depends on the working directory of this process. */
static char *absolute(char *path, const char *word) {
    if (*path != '/') {
        errno = EINVAL;
        refuse("word ", word);
    }
    return path;
}

static void parse_landlock(char *value, const char *word) {
    task.landlock.handled_fs = number(&value, 16, ':', word);
    task.landlock.handled_net = number(&value, 16, ':', word);
    task.landlock.scoped = number(&value, 16, '\0', word);
    task.has_landlock = true;
}

static void parse_word(char *word) {
    char *value;
    for (int i = 0; i < LIMITS; i++) {
        if ((value = value_of(word, limit_names[i].word))) {
            task.limits[i] = number(&value, 10, '\0', word);
            return;
        }
    }
    if ((value = value_of(word, "wall"))) {
        task.wall_s = number(&value, 10, '\0', word);
    } else if ((value = value_of(word, "landlock"))) {
        parse_landlock(value, word);
    } else if (value_of(word, "isolated")) {
        task.is_isolated = true;
    } else if ((value = value_of(word, "seccomp"))) {
        task.filter = descriptor(value, word);
    } else if ((value = value_of(word, "trace"))) {
        task.trace = descriptor(value, word);
    } else if ((value = value_of(word, "report"))) {
        task.report = descriptor(value, word);
    } else if ((value = value_of(word, "cgroup"))) {
        task.cgroup = descriptor(value, word);
    } else if ((value = value_of(word, "wait"))) {
        task.waiting = descriptor(value, word);
    } else if ((value = value_of(word, "memory"))) {
        task.memory = descriptor(value, word);
    } else if ((value = value_of(word, "keep"))) {
        task.kept = descriptor_before(&value, ':', word);
        task.kept_number = descriptor(value, word);
    } else if ((value = value_of(word, "argv0"))) {
        task.argv[0] = value;
    } else if ((value = value_of(word, "env"))) {
        task.environment[task.n_variables++] = value;
    } else if ((value = value_of(word, "cwd"))) {
        task.cwd = value;
    } else if (!value_of(word, "allow") && !value_of(word, "mounted") && !value_of(word, "listen") && !value_of(word, "mask") &&
               !value_of(word, "guard") && !value_of(word, "placeholder") && !value_of(word, "private") &&
               !value_of(word, "hold")) {
        /* Other code handles these words later, or has already handled them. */
        errno = EINVAL;
        refuse("word ", word);
    }
}

/* Returns the words of `argv` and those of `text`, each ended by NUL, as one list ended by NULL. Copies no string. */
static char **with_words(int *argc, char **argv, char *text, size_t size) {
    size_t count = 0;
    for (size_t i = 0; i < size; i++)
        count += text[i] == '\0';
    char **all = calloc((size_t)*argc + count + 1, sizeof *all);
    if (!all)
        refuse("more", "");
    memcpy(all, argv, (size_t)*argc * sizeof *all);
    for (char *word = text; word < text + size; word += strlen(word) + 1)
        all[(*argc)++] = word;
    return all;
}

/* Maps a file of strings, each ended by NUL. The mapping stays for good. */
static char *map_strings(int fd, size_t *size) {
    struct stat file;
    if (fstat(fd, &file) < 0)
        refuse("more", "");
    *size = (size_t)file.st_size;
    char *text = mmap(NULL, *size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    if (text == MAP_FAILED)
        refuse("more", "");
    if (*size == 0 || text[*size - 1] != '\0') {
        errno = EINVAL;
        refuse("more", "");
    }
    return text;
}

/* Words come in a file because bubblewrap takes a few thousand arguments at most. */
static char **with_more(int *argc, char **argv) {
    char *value = *argc > 0 ? value_of(argv[*argc - 1], "more") : NULL;
    size_t size;
    if (!value)
        return argv;
    char *text = map_strings(descriptor(value, argv[--*argc]), &size);
    return with_words(argc, argv, text, size);
}

static void parse(int argc, char **argv) {
    int end = 1;
    argv = with_more(&argc, argv);
    while (end < argc && strcmp(argv[end], "--") != 0)
        end++;
    bool holds = end > 1 && strcmp(argv[end - 1], "hold=1") == 0;
    if (end + !holds >= argc) {
        errno = EINVAL;
        refuse("no command after ", "--");
    }
    task.words = argv + 1;
    task.n_words = end - 1;
    task.argv = argv + end + 1;
    task.program = task.argv[0];
    task.environment = calloc((size_t)end, sizeof *task.environment);
    if (!task.environment)
        refuse("environment", "");
    for (int i = 0; i < task.n_words; i++)
        parse_word(task.words[i]);
}

#endif
