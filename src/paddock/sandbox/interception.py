"""Chooses the back-end that decides which programs the commands of one host may execute.

    notify    the kernel asks about every execution (`denial/executions.py`); where it can be had, it is taken
    wrapper   a patched Bash asks about its own (`enforce/wrapped_command.py`, and whoever serves its socket)

Paddock tries each back-end before it relies on it. It remembers only success: a back-end that was repaired,
or failed for lack of time or memory, gets another try. Both hand each question to the same `ExecPolicy`.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from paddock.errors import SandboxUnavailable
from paddock.model.host import HostFacts, Problem
from paddock.model.interceptor import Interceptor
from paddock.sandbox.enforce import init
from paddock.sandbox.enforce.assembly import LEADER
from paddock.sandbox.enforce.wrapped_command import SHELL, WRAPPER
from paddock.sandbox.host.kernel import Kernel
from paddock.sandbox.host.tracing import unnotifiable

if TYPE_CHECKING:
    from paddock.sandbox.denial.exec_answer import ExecPolicy
    from paddock.sandbox.enforce.service import WrapperService

ServeWrappers = Callable[["ExecPolicy", socket.socket | None], "WrapperService"]
"""Answers the wrappers of a command according to a policy. The socket leads to the paddock-leader that starts
programs outside; the service takes ownership of it."""

_UNDECIDED: Final = "can't be decided on"
"""The wrapper's message where nobody decides (native/execve_wrapper.c)."""


class Availability(Struct, frozen=True):
    """What keeps each back-end from being used here; None if nothing does."""

    notify: Problem | None
    wrapper: Problem | None

    def of(self, interceptor: Interceptor) -> Problem | None:
        """Return what keeps this back-end from being used."""
        return self.notify if interceptor is Interceptor.NOTIFY else self.wrapper


def choose(available: Availability, wanted: Interceptor | None) -> Interceptor:
    """Return the back-end to use: the requested one, or the first that works here.

    Raises SandboxUnavailable if there is none.
    """
    problems = []
    for interceptor in Interceptor if wanted is None else (wanted,):
        problem = available.of(interceptor)
        if problem is None:
            return interceptor
        problems.append(problem)
    raise SandboxUnavailable(
        "what is executed can't be intercepted here: "
        + "; ".join(f"{each.name}: {each.detail}" for each in problems),
        problems[-1].remedy,
    )


class Interceptors:
    """The back-ends of one host. May be used from any thread.

    If `wanted` is given, only that back-end is used; `shell` is a patched Bash.
    """

    def __init__(
        self,
        host: HostFacts,
        *,
        wanted: Interceptor | None = None,
        shell: str | None = None,
        serve_wrappers: ServeWrappers | None = None,
        kernel: Kernel | None = None,
    ) -> None:
        self._host = host
        self._wanted = wanted
        self.shell = str(SHELL) if shell is None else shell
        self._serve_wrappers = serve_wrappers
        self._kernel = Kernel() if kernel is None else kernel
        self._lock = threading.Lock()
        self._has_notify = False
        self._has_wrapper = False

    def choose(self) -> Interceptor:
        """Choose the back-end to use. Blocks while it tries them. Raises SandboxUnavailable."""
        with self._lock:
            if self._wanted is Interceptor.WRAPPER:
                return choose(Availability(None, self._try_wrapper()), self._wanted)
            notify = self._try_notify()
            if notify is None or self._wanted is not None:
                return choose(Availability(notify, None), Interceptor.NOTIFY)
            return choose(Availability(notify, self._try_wrapper()), None)

    def availability(self) -> Availability:
        """Try all of the back-ends."""
        with self._lock:
            return Availability(self._try_notify(), self._try_wrapper())

    def serve_wrappers(self, policy: ExecPolicy, leader: socket.socket | None) -> WrapperService:
        """Return the service that answers a command's wrappers. Raises SandboxUnavailable without one."""
        if self._serve_wrappers is None:
            raise SandboxUnavailable("nothing here answers wrappers", "let a server run the command")
        return self._serve_wrappers(policy, leader)

    def _try_notify(self) -> Problem | None:
        if self._has_notify:
            return None
        if problem := unnotifiable(self._host):
            return problem
        # Few commands are intercepted, and this module takes a while to load.
        from paddock.sandbox.denial.notify_trial import notify_problem

        problem = notify_problem(self._host, str(init.PATH), str(LEADER))
        self._has_notify = problem is None
        return problem

    def _try_wrapper(self) -> Problem | None:
        """Have the shell execute something where nobody answers: a stock Bash just does it."""
        if self._has_wrapper:
            return None
        said = init.words(environment={"BASH_EXEC_WRAPPER": str(WRAPPER)})
        script = (self.shell, "-c", 'exec "$0"', str(init.PATH))
        tried = self._kernel.run([str(init.PATH), *said, "--", *script])
        self._has_wrapper = tried.status == 1 and _UNDECIDED in tried.stderr
        if self._has_wrapper:
            return None
        # The program that the shell should have asked about ran, and said that it has nothing to do.
        is_stock = tried.status == init.NOT_CONFINED_STATUS
        detail = "is a Bash without the patch" if is_stock else f"does not run: {tried.stderr.strip()}"
        remedy = "build it: make bash, or name one: interception_shell"
        return Problem("wrapper", f"{self.shell} {detail}", remedy)
