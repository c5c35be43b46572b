/*
 * Installs the seccomp listener of a traced command. Its holder decides on each call that the filter names.
 *
 * The init receives the filter from the tracer on the socket `trace=FD`, and sends the listener back.
 *
 * Privilege: none. The filter applies to the command, not to the init.
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

/* The command calls this just before it executes the program. The filter does not apply to the init. */
static void trace_self(void) {
    static struct sock_filter code[BPF_MAXINSNS];
    if (task.trace < 0)
        return;
    struct sock_fprog program = {.filter = code};
    ssize_t n = recv(task.trace, code, sizeof code, 0);
    program.len = (unsigned short)(n / (ssize_t)sizeof *code);
    if (n == 0)
        errno = EPIPE;
    /* Without the second flag (before Linux 5.19) any signal interrupts the wait, and the kernel asks again. */
    unsigned flags = SECCOMP_FILTER_FLAG_NEW_LISTENER | 1u << 5 /* WAIT_KILLABLE_RECV */;
    int listener = n > 0 ? (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program) : -1;
    if (listener < 0 && errno == EINVAL)
        listener = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
    /* The holder of the listener decides on each call that the filter names. Only the receiver may hold it: with a copy
     * left here, the kernel would keep waiting for an answer after the receiver is gone. */
    if (listener < 0 || !pass_descriptor(task.trace, listener))
        refuse("trace", "");
}

#endif
