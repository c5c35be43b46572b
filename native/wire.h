/*
 * The messages between the server and paddock-spawner.
 *
 * One stream socket, little-endian, packed. The other side of each struct is in
 * src/paddock/process/spawner.py. The two are built and shipped together, so there
 * is no version to negotiate: change both.
 */
#ifndef PADDOCK_WIRE_H
#define PADDOCK_WIRE_H

#include <stdint.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "these structs are sent as they are in memory, and the wire is little-endian"
#endif

#define PACKED __attribute__((packed))

/* Far above what execve(2) accepts: 6 MiB of arguments and environment (3/4 of the kernel's _STK_LIM). */
#define PAYLOAD_LIMIT_BYTES (8u << 20)
/* The most descriptors in one request: stdin, stdout, stderr, and those that a sandbox launcher inherits. */
#define FDS_MAX 131

enum request_kind { REQUEST_SPAWN = 1, REQUEST_KILL = 2 };
enum record_kind { RECORD_READY = 1, RECORD_SPAWNED = 2, RECORD_EXITED = 3 };
enum spawn_flag {
    SPAWN_TERMINAL = 1,
    SPAWN_SHIELDED = 2, /* starts with every signal blocked or ignored, so that a launcher survives the signals for its command */
    SPAWN_WITHOUT_LINKS = 4, /* a link on the way to the working directory is an error */
};

/* The step of a spawn that failed. */
enum stage {
    STAGE_NONE = 0,
    STAGE_FORK = 1,
    STAGE_SETUP = 2, /* session, terminal, descriptors, limits */
    STAGE_CWD = 3,
    STAGE_EXEC = 4,
    STAGE_REQUEST = 5, /* malformed, or the socket refused its descriptors or its answer */
};

/* Server to spawner: this header, then `length` bytes. Descriptors come with its first byte. */
struct PACKED header {
    uint32_t length;
    uint32_t kind;
};

/*
 * REQUEST_SPAWN: this, then n_rlimits limits, then strings, each ended by NUL:
 * program, cwd, argc arguments, envc variables as "NAME=value". Descriptors: the
 * slave side of a pty with SPAWN_TERMINAL, otherwise stdin, stdout and stderr; then
 * n_inherited descriptors that the program gets as 3, 4, and so on.
 */
struct PACKED spawn_request {
    uint64_t token;
    uint32_t flags;
    uint32_t n_rlimits;
    uint32_t argc;
    uint32_t envc;
    uint32_t n_inherited;
};

struct PACKED limit {
    uint32_t resource;
    uint32_t pad;
    uint64_t soft;
    uint64_t hard;
};

/*
 * REQUEST_KILL: sends SIGKILL to the process group led by a spawned pid, unless its
 * EXITED is already on the way. Only the spawner reaps, so only the spawner knows
 * that a pid has not been recycled. There is no answer.
 */
struct PACKED kill_request {
    int32_t pid;
};

/* Spawner to server: READY once, first; SPAWNED per request; EXITED per success. */
struct PACKED record {
    uint32_t kind;
    int32_t pid;
    int32_t status; /* SPAWNED: errno, or 0 with the pidfd attached. EXITED: status as in wait(2). */
    uint32_t stage; /* SPAWNED with an errno: enum stage. */
    uint64_t token; /* SPAWNED: the token of the request. */
    uint64_t user_us;
    uint64_t system_us;
    uint64_t max_rss_kib;
};

#endif
