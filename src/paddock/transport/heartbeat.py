"""Finds out whether the other end of a websocket lives: pings, their deadline, and what the kernel knows.

A pong shows that the peer reads. A peer that lives may not read for a while: its program is stopped, in a
debugger or by a signal, or takes its output slowly, and the ping waits behind that. The kernels go on talking
all the same: that of the peer acknowledges what it gets, and answers probes of its closed window, until its
host is gone. A link whose owner does not read says by itself that it lives, by pongs that nobody asked for
(RFC 6455, 5.5.3).
"""

from __future__ import annotations

import asyncio
import fcntl
import socket
import struct
import termios
from collections.abc import Callable
from typing import Final

from paddock.transport.limits import WebSocketLimits

PAUSED_PONG_INTERVAL_S: Final = 3.0
"""How often a link says that it lives while its owner does not read: three times within the 10 s that servers
and clients wait for a sign of life."""

# struct tcp_info (linux/tcp.h): tcpi_retransmits and tcpi_probes, which acknowledgements set back to 0;
# tcpi_last_data_sent and tcpi_last_ack_recv, in milliseconds.
_TCP_INFO: Final = struct.Struct("=2xBB40xI8xI")

_HELD_BACK_MS: Final = 3000
"""How long a living host may leave a probe unanswered: it answers no two within 500 ms (ip-sysctl,
tcp_invalid_ratelimit), so that the second, 400 ms after the first, waits for the third and 1.2 s in all."""

_ROUND_TRIP_MS: Final = 1000
"""What was sent longer ago than this should have been acknowledged."""


class Heartbeat:
    """Pings at an interval and, where a timeout is set, notices a peer that stays silent.

    `ping` and `pong` send; `silent` hears that not one byte came in time. Timers call all of them,
    between `start` and `stop`.
    """

    def __init__(
        self,
        ping: Callable[[], None],
        pong: Callable[[], None],
        silent: Callable[[], None],
        limits: WebSocketLimits,
    ) -> None:
        self.heard = False
        """Set on every read: a peer in the middle of a long frame is alive too."""
        self.is_overdue = False
        """Whether the owner keeps the peer although it is silent. The owner sets it; the next ping after the
        peer was heard clears it."""
        self._ping = ping
        self._pong = pong
        self._silent = silent
        self._interval_s = limits.ping_interval_s
        self._timeout_s = limits.ping_timeout_s
        self._pong_interval_s = min(PAUSED_PONG_INTERVAL_S, (limits.ping_timeout_s or float("inf")) / 3)
        self._next_ping: asyncio.TimerHandle | None = None
        self._next_pong: asyncio.TimerHandle | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._is_paused = False

    def start(self) -> None:
        """Ping after one interval, and so on until `stop`."""
        if self._interval_s is not None:
            self._next_ping = asyncio.get_running_loop().call_later(self._interval_s, self._beat)

    def stop(self) -> None:
        """Cancel all timers."""
        for timer in (self._next_ping, self._next_pong, self._deadline):
            if timer is not None:
                timer.cancel()
        self._next_ping = self._next_pong = self._deadline = None

    def pause(self) -> None:
        """Say now and then that this end lives, until `resume`: it does not read, and so can't answer."""
        self._is_paused = True
        if self._next_pong is None:
            self._next_pong = asyncio.get_running_loop().call_later(self._pong_interval_s, self._show_life)

    def resume(self) -> None:
        """Resume: this end reads again, and so answers pings."""
        # Let the timer find that out: an owner that pauses often would otherwise set one each time.
        self._is_paused = False

    def judge_again(self) -> None:
        """Wait as long as for the first answer, and call `silent` again if none has come."""
        assert self._timeout_s is not None
        if self._deadline is None:
            self._deadline = asyncio.get_running_loop().call_later(self._timeout_s, self._judge)

    def _beat(self) -> None:
        if self.heard:
            self.is_overdue = False
        self._ping()
        self.start()
        if self._timeout_s is not None and self._deadline is None:
            self.heard = False
            self.judge_again()

    def _judge(self) -> None:
        self._deadline = None
        if not self.heard:
            self._silent()

    def _show_life(self) -> None:
        self._next_pong = None
        if self._is_paused:
            self._pong()
            self.pause()


def has_unread_input(sock: socket.socket) -> bool:
    """Return whether the kernel holds input: if so, this end was away, and not the peer."""
    try:
        waiting = fcntl.ioctl(sock.fileno(), termios.FIONREAD, bytes(4))
    except (OSError, ValueError):
        return False
    return waiting != bytes(4)


def does_host_answer(sock: socket.socket, within_s: float) -> bool:
    """Return whether the kernel at the other end has answered what ours has sent.

    What was sent just now may not have been answered yet: ask again after a while before you believe a no.
    """
    try:
        info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO.size)
        retransmits, probes, sent_ms, acknowledged_ms = _TCP_INFO.unpack(info)
    except (OSError, ValueError, struct.error):
        return False
    # A window that was closed in front of data on its way makes its retransmissions probes that nobody counts
    # (tcp_retransmit_timer): what tells them is when they were sent.
    is_unanswered = retransmits or probes or _ROUND_TRIP_MS <= sent_ms < acknowledged_ms
    return not is_unanswered or acknowledged_ms < max(within_s * 1000, _HELD_BACK_MS)
