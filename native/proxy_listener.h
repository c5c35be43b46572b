/*
 * The listeners of a command's proxy: made here, in the network namespace of the sandbox, and served from outside.
 *
 * Each word `listen=FD:PORT` is one: it listens on PORT of the loopback, and its descriptor goes out by the socket FD. So
 * whoever serves it needs no way into the namespace, and nothing inside of it runs for the proxy.
 *
 * Privilege: none is needed, for no port is below 1024. Nothing of the command runs yet.
 */
#ifndef PADDOCK_PROXY_LISTENER_H
#define PADDOCK_PROXY_LISTENER_H

#include <errno.h>
#include <netinet/in.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "passing.h"
#include "task.h"

/* As many clients as come at once; the kernel takes no more than net.core.somaxconn. */
enum { PROXY_BACKLOG = 4096, LAST_PORT = 0xffff };

static int listen_on(uint16_t port) {
    struct sockaddr_in address = {
        .sin_family = AF_INET,
        .sin_port = (uint16_t)(port << 8 | port >> 8),
        .sin_addr.s_addr = 127 | 1u << 24, /* 127.0.0.1 as the network writes it, from a little-endian machine */
    };
    int fd = (int)syscall(SYS_socket, AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || syscall(SYS_bind, fd, &address, sizeof address) < 0 || syscall(SYS_listen, fd, PROXY_BACKLOG) < 0)
        return -1;
    return fd;
}

static void give_proxy_listeners(void) {
    for (int i = 0; i < task.n_words; i++) {
        char *value = value_of(task.words[i], "listen");
        if (!value)
            continue;
        uint64_t way_out = number(&value, 10, ':', task.words[i]);
        uint64_t port = number(&value, 10, '\0', task.words[i]);
        if (way_out > INT_MAX || port == 0 || port > LAST_PORT) {
            errno = EINVAL;
            refuse("word ", task.words[i]);
        }
        int listener = listen_on((uint16_t)port);
        if (listener < 0 || !pass_descriptor((int)way_out, listener))
            refuse("proxy: ", task.words[i]);
    }
}

#endif
