"""The servers of this user and what runs on them.

Asks every control socket at once. It removes the sockets of dead servers on the way. It leaves out and
reports a server that does not answer, so that it hides no other.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

from msgspec import Struct, field

from paddock.cli.message import tell
from paddock.cli.selection import Candidate, select
from paddock.cli.server_choice import URL_VARIABLE
from paddock.client.operator import OperatedProcess, operate
from paddock.errors import ConnectError, PaddockError, SelectionError
from paddock.model.control_address import ControlAddress, RemoteControl
from paddock.protocol.control import StatusResult
from paddock.transport import runtime_directory

NO_SERVER = "you have no server running; start one with `paddock serve`"
ENDS_WITH_CLIENT = "stdio"
"""The URL of a server that ends with its only client, such as a private one."""


class Answer(Struct, frozen=True):
    """One server and its answer."""

    control: ControlAddress
    status: StatusResult


class Survey(Struct):
    """The servers' answers."""

    answers: list[Answer] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def candidates(self) -> list[Candidate]:
        """Return every process, server by server."""
        return [
            Candidate(answer.control, answer.status.server, session, process)
            for answer in self.answers
            for session in answer.status.sessions
            for process in session.processes
        ]

    def warn(self) -> None:
        """Report the servers that did not answer."""
        for problem in self.problems:
            tell(str(problem))


async def survey(server: str | RemoteControl | None, client_name: str) -> Survey:
    """Ask all servers of this user, or one: a pid, the path of a control socket, or one somewhere else.

    A server of this user that is named by its URL need not take operators over the network: its control
    socket does. Raises SelectionError when the one is not there, ConnectError when its path or URL does not
    answer.
    """
    if isinstance(server, RemoteControl):
        return await _survey_url(server, client_name)
    if server is not None and "/" in server:
        path = _absolute(server)
        return Survey([Answer(path, await _ask(path, client_name))])
    paths = _socket_paths()
    if server is not None:
        paths = [path for path in paths if str(runtime_directory.pid_of(path)) == server]
    found = Survey()
    outcomes = await asyncio.gather(*(_try(path, client_name) for path in paths))
    for outcome in outcomes:
        if isinstance(outcome, Answer):
            found.answers.append(outcome)
        elif outcome is not None:
            found.problems.append(outcome)
    if server is not None and not found.answers:
        found.warn()
        raise SelectionError(f"no server with pid {server!r}; `paddock doctor` lists the servers")
    return found


async def _survey_url(server: RemoteControl, client_name: str) -> Survey:
    try:
        return Survey([Answer(server, await _ask(server, client_name))])
    except ConnectError:
        own = await survey(None, client_name)
        here = [answer for answer in own.answers if answer.status.server.url == server.url.rstrip("/")]
        if not here:
            raise
        return Survey(here)


def _absolute(path: str) -> Path:
    return Path(path).absolute()


def _socket_paths() -> list[Path]:
    uid = os.geteuid()
    directories = runtime_directory.trusted(runtime_directory.candidates(os.environ, uid), uid)
    return [path for directory in directories for path in runtime_directory.socket_paths(directory)]


async def _ask(where: ControlAddress, client_name: str) -> StatusResult:
    async with await operate(where, client_name) as control:
        return await control.status()


async def _try(path: Path, client_name: str) -> Answer | str | None:
    """Return the server's answer, or what to say about it; nothing if it has ended."""
    try:
        return Answer(path, await _ask(path, client_name))
    except ConnectError as error:
        if isinstance(error.__cause__, ConnectionRefusedError):
            runtime_directory.discard(path)
            return None
        # It ended between the listing and now.
        return None if isinstance(error.__cause__, FileNotFoundError) else str(error)
    except PaddockError as error:
        return str(error)


@contextlib.asynccontextmanager
async def reached(
    wanted: str, server: str | RemoteControl | None, client_name: str
) -> AsyncIterator[tuple[Candidate, OperatedProcess]]:
    """Connect to the server of the process that a name fits. Raises SelectionError, ConnectError."""
    found = await survey(server, client_name)
    found.warn()
    if not found.answers:
        raise SelectionError(NO_SERVER)
    candidate = select(found.candidates, wanted)
    async with await operate(candidate.control, client_name) as control:
        yield candidate, control.process(candidate.session.session_id, candidate.process.process_id)


BY_OPTION: Final = "choose one with --server"
BY_URL: Final = f"name one by its URL, or in ${URL_VARIABLE}"
"""How users choose among their servers."""


async def lasting_server(server: str | None, client_name: str, choosing: str = BY_OPTION) -> Path:
    """Return the control socket of the only server of the user that outlives its client, or of the named one.

    `choosing` says how the user can name one. Raises SelectionError.
    """
    found = await survey(server, client_name)
    found.warn()
    choice = [
        answer
        for answer in found.answers
        if server is not None or answer.status.server.url != ENDS_WITH_CLIENT
    ]
    if not choice:
        raise SelectionError(
            f"you have no lasting server; start one with `paddock serve`, or name one in ${URL_VARIABLE}"
        )
    if len(choice) > 1:
        names = [f"{answer.status.server.pid} ({answer.status.server.url})" for answer in choice]
        raise SelectionError(f"several servers are running; {choosing}", names)
    control = choice[0].control
    assert isinstance(control, Path), "only the servers of this user were asked"
    return control
