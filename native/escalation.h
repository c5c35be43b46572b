/*
 * The request of the server to paddock-leader to start a program outside of the sandbox, as it comes over the control
 * socket (src/paddock/sandbox/denial/escalation.py), its answer, and the messages to paddock-stub about that program.
 *
 * A request is one message with the bytes of `struct escalation` and descriptors: the program, its working directory, a
 * file with its path, arguments and variables (instruction.h), the socket of the stub, and the descriptors of the
 * program.
 *
 * Privilege: that of the caller.
 */
#ifndef PADDOCK_ESCALATION_H
#define PADDOCK_ESCALATION_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

/* Position of each descriptor in a request. */
enum { PROGRAM, DIRECTORY, INSTRUCTION, STUB, FIRST_FILE };

/* One message can carry 253 descriptors (SCM_MAX_FD). */
enum { ESCALATION_FILES = 240, ESCALATION_LIMITS = 16 };

/* A message to a stub has two numbers. The second is a status or a signal. */
enum { STUB_EXIT = 1, STUB_DIE = 2, STUB_STOP = 3 };

struct escalation {
    int32_t group;
    uint32_t mask, is_script, n_files;
    uint64_t ignored, blocked;
    uint64_t number; /* of the request */
    struct {
        uint64_t soft, hard;
    } limits[ESCALATION_LIMITS];
    int32_t numbers[ESCALATION_FILES];
};

/* The immediate answer to every request. */
struct escalation_answer {
    uint64_t number;
    uint64_t error; /* 0 if the program was started */
};

/* Returns whether an escalation with this many descriptors is valid. */
static inline bool is_escalation(const struct escalation *escalation, int n) {
    if (escalation->n_files > ESCALATION_FILES || n != (int)(FIRST_FILE + escalation->n_files))
        return false;
    for (uint32_t i = 0; i < escalation->n_files; i++)
        if (escalation->numbers[i] < 0 || escalation->numbers[i] >= 1 << 20)
            return false;
    return true;
}

/* Returns the number of received descriptors, all close-on-exec, or -1 at the end. An incomplete message fails
 * `is_escalation`. */
static inline int receive_escalation(int control, struct escalation *escalation, int files[FIRST_FILE + ESCALATION_FILES]) {
    union {
        char room[CMSG_SPACE((FIRST_FILE + ESCALATION_FILES) * sizeof(int))];
        struct cmsghdr aligned;
    } control_data;
    struct iovec part = {.iov_base = escalation, .iov_len = sizeof *escalation};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control_data.room, .msg_controllen = sizeof control_data.room};
    memset(escalation, 0, sizeof *escalation);
    ssize_t length = recvmsg(control, &message, MSG_CMSG_CLOEXEC);
    if (length <= 0)
        return -1;
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    if (!header || header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS)
        return 0;
    int n = (int)((header->cmsg_len - CMSG_LEN(0)) / sizeof(int));
    memcpy(files, CMSG_DATA(header), (size_t)n * sizeof(int));
    if (length != sizeof *escalation)
        escalation->n_files = ESCALATION_FILES + 1;
    return n;
}

#endif
