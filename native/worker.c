/*
 * paddock-worker.so: confines file workers, which are forks of a Python process.
 *
 *     void confine_worker(int argc, char **argv, int count, const int *namespaces)
 *
 * enters the namespaces of a sandbox, given by their descriptors, and applies the confinement of a command there
 * (entering.h). `argv` is that of paddock-init (init.c): a name, `seccomp=FD` and `more=FD`, a file with the words of
 * an init that keeps the sandbox without a command.
 *
 * Promise: when it returns, everything is in force. Otherwise the process exits with status 125 and one line on
 * standard error.
 *
 * It is a library, because an executed program would have to find the interpreter in the sandbox. It is not a Python
 * module, because those can't be built everywhere (hatch_build.py). Where paddock-init does without the C library, so
 * does this library: it works with any C library of the interpreter.
 */
#define _GNU_SOURCE
#define BARE_WITHOUT_START
#define NOT_CONFINED "the file worker can't be confined: "
#include "bare.h"

#include "entering.h"

__attribute__((visibility("default"))) void confine_worker(int argc, char **argv, int count, const int *namespaces);

void confine_worker(int argc, char **argv, int count, const int *namespaces) {
    enter_confined(argc, argv, count, namespaces);
}
