/*
 * paddock-worker.so: the confinement of file workers, which are copies of a process in Python.
 *
 *     void confine_worker(int argc, char **argv, int count, const int *namespaces)
 *
 * enters the namespaces of a sandbox, whose descriptors these are, and takes on what a command there has (entering.h).
 * `argv` is that of paddock-init (init.c): a name, `seccomp=FD` and `more=FD`, a file with the words by which an init
 * without a command keeps the sandbox.
 *
 * Promise: when it returns, all of it is in force; otherwise the process ends with status 125 and one line on standard error.
 *
 * A library, for an executed program would have to find the interpreter in the sandbox; and not a module of Python,
 * for those can't be made everywhere (hatch_build.py). Where paddock-init does without the C library, so does this: it serves
 * whatever C library the interpreter has.
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
