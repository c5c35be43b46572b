/*
 * Passes a descriptor over a socket (unix(7), SCM_RIGHTS).
 *
 * Privilege: none.
 */
#ifndef PADDOCK_PASSING_H
#define PADDOCK_PASSING_H

#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Always closes the descriptor here. Returns whether it was passed; if not, errno tells why. */
static bool pass_descriptor(int socket, int descriptor) {
    char nothing = 0, room[CMSG_SPACE(sizeof descriptor)] __attribute__((aligned(8))) = {0};
    struct iovec part = {.iov_base = &nothing, .iov_len = sizeof nothing};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof descriptor);
    memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
    bool is_sent = sendmsg(socket, &message, MSG_NOSIGNAL) >= 0;
    close(descriptor);
    return is_sent;
}

#endif
