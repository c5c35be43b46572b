/*
 * Creates the listeners of a command's proxy in the network namespace of the sandbox. A process outside serves them.
 *
 * Each word `listen=FD:PORT` asks for one: the init listens on PORT of the loopback, and sends the descriptor over the
 * socket FD. So the server of the proxy needs no access to the namespace, and nothing in it runs for the proxy.
 *
 * Privilege: none needed, because no port is below 1024. No code of the command runs yet.
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

/* The largest number of clients that connect at once; the kernel caps it at net.core.somaxconn. */
enum { PROXY_BACKLOG = 4096, LAST_PORT = 0xffff };

static int listen_on(uint16_t port) {
    struct sockaddr_in address = {
        .sin_family = AF_INET,
        .sin_port = (uint16_t)(port << 8 | port >> 8),
        .sin_addr.s_addr = 127 | 1u << 24, /* 127.0.0.1 in network byte order, on a little-endian machine */
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
