/*
 * The reports of paddock-init to the holder of the other end of `report=FD`.
 *
 * Packed and little-endian; the other side is src/paddock/sandbox/enforce/init.py. A report is one write below
 * PIPE_BUF, so a pipe carries it whole. The first is NOT_CONFINED, or CONFINED before any code of the command runs;
 * WAITING precedes it if the command comes later. The last is EXITED, after NOT_EXECUTED or PROCESS_LIMIT if they
 * apply, or WALL_LIMIT, BREACH or RAN. SUSPENDED comes in between, once for each time. If the last is missing, there was no command, or the init was killed with all its
 * descendants.
 */
#ifndef PADDOCK_REPORT_H
#define PADDOCK_REPORT_H

#include <stdint.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "reports are written as they are in memory, and are little-endian"
#endif

enum report_kind {
    REPORT_EXITED = 1,       /* value: status of the command, as in wait(2); no process of it is left, its streams are closed */
    REPORT_NOT_EXECUTED = 2, /* value: errno of execve(2); no program ran */
    REPORT_NOT_CONFINED = 3, /* value: errno of the step that failed; no program ran */
    REPORT_WALL_LIMIT = 4,   /* value: 0; the time was over, and the init killed everything */
    REPORT_CONFINED = 5,     /* value: 0; everything requested is in force */
    REPORT_PROCESS_LIMIT = 6, /* value: 0; the command failed, and at its end no further process was allowed */
    REPORT_BREACH = 7,       /* value: 0; somebody outside took a mask away, and the init killed everything */
    REPORT_WAITING = 8,      /* value: 0; the sandbox is ready for its command (waiting.h) */
    REPORT_SUSPENDED = 9,    /* value: 0; everything is stopped (suspension.h) */
    REPORT_RAN = 10,         /* value: 0; something ran while everything was to be stopped, and the init killed everything */
};

struct __attribute__((packed)) report {
    uint32_t kind;
    int32_t value;
    /* EXITED: usage of the command and of its descendants that were waited for. */
    uint64_t user_us;
    uint64_t system_us;
    uint64_t max_rss_kib;
};

#endif
