"""The process group of a child: signals that can't hit a stranger, and an end in two steps.

Every child leads a session and a group of its own. A pidfd names that group for
as long as it is held, even after the leader was reaped and its number could be
given to somebody else.
"""

from __future__ import annotations

import asyncio
import errno
import os
import signal
from collections.abc import Callable

PIDFD_SIGNAL_PROCESS_GROUP = 4
"""pidfd_send_signal(2), Linux 6.9."""


class ProcessGroup:
    """Owns the pidfd of the group's leader. `close` gives it back; a closed group takes no signals."""

    def __init__(self, pid: int, pidfd: int) -> None:
        self.pid = pid
        self._pidfd = pidfd
        self._kill_timer: asyncio.TimerHandle | None = None
        self._is_killed = False

    def signal(self, number: int) -> bool:
        """Send a signal to every member. False when no member is left."""
        if self._pidfd < 0:
            return False
        try:
            signal.pidfd_send_signal(self._pidfd, number, None, PIDFD_SIGNAL_PROCESS_GROUP)
        except ProcessLookupError:
            return False
        except PermissionError:
            # Every member has taken another user id (setuid): they exist, but out of our reach.
            return True
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            return self._signal_by_number(number)
        return True

    def is_alive(self) -> bool:
        """Return whether the group has a member, a zombie leader included."""
        return self.signal(0)

    @property
    def is_killed(self) -> bool:
        """Return whether SIGKILL has reached every member that it could."""
        return self._is_killed

    def kill(self) -> None:
        """Send SIGKILL to every member."""
        self._cancel_kill()
        self._is_killed = True
        self.signal(signal.SIGKILL)

    def terminate(self, grace_s: float, on_grace_over: Callable[[], None] | None = None) -> None:
        """Send SIGTERM now, SIGKILL to survivors after the grace; a second call restarts the grace.

        Calls `on_grace_over` after the SIGKILL, but not if no member is left or the group is closed
        before.
        """
        if not self.signal(signal.SIGTERM):
            return
        # A stopped process can't act on SIGTERM.
        self.signal(signal.SIGCONT)
        self._cancel_kill()
        loop = asyncio.get_running_loop()
        self._kill_timer = loop.call_later(grace_s, self._grace_is_over, on_grace_over)

    def _grace_is_over(self, then: Callable[[], None] | None) -> None:
        self.kill()
        if then is not None:
            then()

    def _cancel_kill(self) -> None:
        if self._kill_timer is not None:
            self._kill_timer.cancel()
            self._kill_timer = None

    def release(self) -> int:
        """Hand the pidfd to the caller. A released group takes no signals."""
        pidfd, self._pidfd = self._pidfd, -1
        return pidfd

    def close(self) -> None:
        """Let go of the group. Its members live on, even if their grace was running."""
        self._cancel_kill()
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1

    def _signal_by_number(self, number: int) -> bool:
        # Before Linux 6.9. The number stays reserved while the group has members,
        # so this can only go wrong when the group is empty and its number was
        # given away in between: the whole pid space must have wrapped around.
        try:
            os.killpg(self.pid, number)
        except ProcessLookupError:
            return False
        except PermissionError:
            return True
        return True
