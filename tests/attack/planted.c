/*
 * A library that a command leaves in its project. Whoever loads it makes the file that is named beside it.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

unsigned la_version(unsigned version);
int gconv_init(void *step);
int gconv(void);

__attribute__((constructor)) static void act(void) {
    Dl_info self;
    char name[PATH_MAX], target[PATH_MAX] = "";
    if (!dladdr((void *)la_version, &self) || snprintf(name, sizeof name, "%s.target", self.dli_fname) >= PATH_MAX)
        return;
    int file = open(name, O_RDONLY);
    if (file >= 0 && read(file, target, sizeof target - 1) > 0)
        close(open(target, O_CREAT | O_WRONLY, 0644));
    close(file);
}

/* To be taken for an auditor (rtld-audit(7)) and for a converter of characters. */
unsigned la_version(unsigned version) {
    return version;
}

int gconv_init(void *step) {
    (void)step;
    return 1;
}

int gconv(void) {
    return 0;
}
