"""The process group of a child: signals that can't hit a stranger.

Every child leads a session and a group of its own. A pidfd names that group for
as long as it is held, even after the leader was reaped and its number could be
given to somebody else.
"""

from __future__ import annotations

import errno
import os
import signal

PIDFD_SIGNAL_PROCESS_GROUP = 4
"""pidfd_send_signal(2), Linux 6.9."""


class ProcessGroup:
    """Owns the pidfd of the group's leader. `close` gives it back; a closed group takes no signals."""

    def __init__(self, pid: int, pidfd: int) -> None:
        self.pid = pid
        self._pidfd = pidfd

    def signal(self, number: int) -> bool:
        """Send a signal to every member. False when no member is left."""
        if self._pidfd < 0:
            return False
        try:
            signal.pidfd_send_signal(self._pidfd, number, None, PIDFD_SIGNAL_PROCESS_GROUP)
        except ProcessLookupError:
            return False
        except PermissionError:
            # Every member has taken another user id (setuid): they exist, out of our reach.
            return True
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            return self._signal_by_number(number)
        return True

    def is_alive(self) -> bool:
        """Whether the group has a member, a zombie leader included."""
        return self.signal(0)

    def close(self) -> None:
        """Let go of the group. Its members live on."""
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
