/*
 * The listener of a traced command: whoever holds it is asked before each call that a filter names.
 *
 * The filter comes from the tracer, by the socket `trace=FD`, and the listener goes back there.
 *
 * Privilege: none; it is only for the command, and this process asks nobody.
 */
#ifndef PADDOCK_LISTENER_H
#define PADDOCK_LISTENER_H

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "passing.h"
#include "task.h"

/* Only for the command, in its last moment before the program: this process asks nobody. */
static void trace_self(void) {
    static struct sock_filter code[BPF_MAXINSNS];
    if (task.trace < 0)
        return;
    struct sock_fprog program = {.filter = code};
    ssize_t n = recv(task.trace, code, sizeof code, 0);
    program.len = (unsigned short)(n / (ssize_t)sizeof *code);
    if (n == 0)
        errno = EPIPE;
    /* Without the second flag (before Linux 5.19) any signal interrupts the wait, and the question is repeated. */
    unsigned flags = SECCOMP_FILTER_FLAG_NEW_LISTENER | 1u << 5 /* WAIT_KILLABLE_RECV */;
    int listener = n > 0 ? (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program) : -1;
    if (listener < 0 && errno == EINVAL)
        listener = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
    /* Whoever holds the listener is asked about each call that the filter names. That must be the receiver alone: a
     * copy that is left here would keep the kernel waiting for an answer when the receiver is gone. */
    if (listener < 0 || !pass_descriptor(task.trace, listener))
        refuse("trace", "");
}

#endif
