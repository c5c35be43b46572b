"""Attempts to get out of a sandbox, played many at a time and judged one by one from the host's side.

An attempt is a script and a judge. The judge looks at the host and says whether the script has got what
it wanted. It must say yes after the script ran outside of any sandbox, for otherwise it proves nothing,
and no after the same script ran inside. Attempts that do not disturb each other share a sandbox.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.attack.ground import CONTENT, Cell, Ground, Process, Seen, look, processes
from tests.attack.stage import Outcome, Running, Stage
from tests.sandbox.identity import ORDINARY, PYTHON

Json = dict[str, Any]

USERS = [0, ORDINARY] if os.geteuid() == 0 else [os.geteuid()]

SCRIPT_TIMEOUT_S = 8
NOT_CONFINED = 125
FIRST_LENT = 20
BASE = "base"
"""The name of a process that attempts nothing, in the same place as those that do."""

LIMITS = {"processes": 40, "openFiles": 64, "fileBytes": 100_000, "memoryBytes": 600 << 20}
"""Of the profile `limited`."""

AFTERMATH = ("/bin/sh", "-c", "cat /proc/keys; ls /dev/shm; stat -c '%n %a %Y' /dev/[fnrtuz]*")
"""Keys, shared memory and devices."""


@dataclass(frozen=True)
class Scene:
    """What the host sees of an attempt."""

    cell: Cell
    before: Seen
    after: Seen
    holders: set[int]
    """The files of the project that had the secret in them from the beginning."""
    held: Sequence[Process]
    """Its processes, while it was in its last moment."""
    victims: Sequence[Process]
    """What was left in that moment of the process outside that `has_victim` asks for."""
    base: Process | None
    """A process beside it that attempts nothing."""
    aftermath: Callable[[], str]
    """What the host says afterwards of what no file shows."""
    left: Sequence[Process]
    """Its processes when the command had ended."""
    heard: bytes = b""
    """What came in at the sockets of the host."""


Judge = Callable[[Scene], bool]


@dataclass(frozen=True)
class Attempt:
    """One way to get what the profile does not grant.

    The script runs in its cell, with `$OUT` for the directory outside, `$PROBE` for the program of system
    calls (probe.c), `$PYTHON`, `$VICTIM` for a process outside, `$COMMAND` for the first process inside,
    `$ROOT` for the project and `$SECOND` for the second root.
    """

    name: str
    script: str
    is_won: Judge
    profile: str = "strict"
    then: str = ""
    """A second script, in a second sandbox; it finds what the first has left."""
    prepare: Callable[[Cell], Mapping[str, str] | None] | None = None
    """Makes what the script needs, as the host; gives more variables."""
    host_script: str = ""
    """What the host does first, as the same user. Processes that it leaves are ended at the end."""
    afterwards: str = ""
    """What the host does when the command has ended, and before anybody judges."""
    lend: Callable[[Cell], int] | None = None
    """Opens a file that whoever starts the sandbox has open under the number `$LENT`."""
    lends_as: int | None = None
    """That number, if it matters; the attempt has to be alone then."""
    listen: Callable[[Cell], Sequence[socket.socket]] | None = None
    """Makes sockets of the host that nobody may reach."""
    has_victim: bool = False
    """Whether it aims at a process outside, which has the secret in its memory at `$ADDRESS`."""
    needs_root: bool = False
    """Whether nobody but root can do this outside, either."""
    needs: str = ""
    """What not every host has, so that the script may fail outside, too."""
    may_be_refused: bool = False
    """Whether Paddock may refuse to start anything in such a place."""
    may_end_it: bool = False
    """Whether the sandbox may end itself over it."""
    is_alone: bool = False
    """Whether it would disturb others in the same sandbox."""


# ---- judges ----


def is_leaked(scene: Scene) -> bool:
    """The secret is in the project."""
    return bool(scene.cell.holders() - scene.holders)


def is_changed(scene: Scene) -> bool:
    """Something outside was changed."""
    return scene.before != scene.after


def is_heard(scene: Scene) -> bool:
    """Something came in at a socket of the host."""
    return bool(scene.heard)


def holds(*targets: str, is_writable: bool = False) -> Judge:
    """A process holds a descriptor of this kind, which it may write if it `is_writable`."""

    def judge(scene: Scene) -> bool:
        return any(
            descriptor.target.startswith(targets) and (not is_writable or descriptor.is_writable)
            for process in scene.held
            for descriptor in process.descriptors
        )

    return judge


def has_read(*targets: str) -> Judge:
    """A process has read from such a file."""

    def judge(scene: Scene) -> bool:
        return any(
            descriptor.target.startswith(targets) and descriptor.position > 0
            for process in scene.held
            for descriptor in process.descriptors
        )

    return judge


def is_overwritten(name: str) -> Judge:
    """A file outside does not begin any more with what it was."""

    def judge(scene: Scene) -> bool:
        before, after = scene.before[name][CONTENT], scene.after[name][CONTENT]
        assert isinstance(before, bytes)
        assert isinstance(after, bytes)
        return not after.startswith(before)

    return judge


def has_own(namespace: str) -> Judge:
    """A process has got into another namespace."""

    def judge(scene: Scene) -> bool:
        assert scene.base is not None
        return any(
            process.namespaces[namespace] != scene.base.namespaces[namespace] for process in scene.held
        )

    return judge


def is_held(scene: Scene) -> bool:
    """What the process wanted it has, or it would not be there."""
    return bool(scene.held)


def is_said(text: str) -> Judge:
    """The host says so of what no file shows; `{}` is the name of the attempt's processes."""
    return lambda scene: text.format(scene.cell.process_name) in scene.aftermath()


def is_signalled(scene: Scene) -> bool:
    """The process outside is gone, stopped, traced, or has a signal waiting."""
    return not scene.victims or any(
        victim.pending or victim.status["State"][0] in "Tt" or victim.status["TracerPid"] != "0"
        for victim in scene.victims
    )


def survives(scene: Scene) -> bool:
    """A process of the command lives on though that has ended."""
    return bool(scene.left)


def each_attempt(attempts: Sequence[Attempt]) -> pytest.MarkDecorator:
    """Run a test for each attempt and each user."""
    cases = [
        pytest.param(attempt, user, id=f"{'root' if user == 0 else 'ordinary'}: {attempt.name}")
        for user in USERS
        for attempt in attempts
    ]
    return pytest.mark.parametrize(("attempt", "user"), cases)


# ---- playing ----


@dataclass
class Performance:
    """What came of several attempts in one place."""

    outcome: Outcome
    won: dict[str, bool]
    has_begun: bool
    """Whether the scripts were reached at all: otherwise nothing was attempted."""
    said: dict[str, str]
    """By each attempt; only for people who want to know why."""


def profile_of(name: str, ground: Ground) -> str:
    """The profiles by the names that attempts give, as `--profile` takes them."""
    minimal: Json = {"path": {"type": "special", "value": {"kind": "minimal"}}, "access": "read"}
    everything: Json = {"path": {"type": "special", "value": {"kind": "root"}}, "access": "read"}
    project: Json = {"path": {"type": "special", "value": {"kind": "project_roots"}}, "access": "write"}
    denied: Json = {"path": {"type": "glob_pattern", "pattern": "**/*.env"}, "access": "deny"}
    temporary: Json = {"path": {"type": "special", "value": {"kind": "slash_tmp"}}, "access": "write"}
    hidden: Json = {"path": {"type": "path", "path": str(ground.outside)}, "access": "deny"}
    limits = LIMITS if name == "limited" else {}
    entries, network = {
        "strict": ([minimal, project, denied], "restricted"),
        "limited": ([minimal, project], "restricted"),
        "temporary": ([minimal, project, temporary], "restricted"),
        "everything": ([everything, project], "restricted"),
        "wide": ([everything, project, hidden], "restricted"),
        "loopback": ([minimal, project], "loopback"),
        "networked": ([minimal, project], "enabled"),
        "second": (
            [minimal, project, {"path": {"type": "path", "path": str(ground.second)}, "access": "write"}],
            "restricted",
        ),
    }[name]
    return json.dumps(
        {
            "type": "managed",
            "file_system": {"type": "restricted", "entries": entries},
            "network": network,
            "limits": limits,
        }
    )


def play(
    stage: Stage, ground: Ground, attempts: Sequence[Attempt], probe: Path, *, is_confined: bool
) -> Performance:
    """Play the attempts, all of one profile, and judge each."""
    with ExitStack() as opened:
        company = _Company(stage, ground, attempts, probe, opened)
        prefix: list[str] = []
        if is_confined:
            profile = profile_of(attempts[0].profile, ground)
            prefix = ["sandbox", "--policy-cwd", str(ground.project), "--profile", profile, "--"]
        elif stage.user == 0:
            # What they do to mounts and to the name of the host is not for the next ones to find.
            prefix = ["/usr/bin/unshare", "--mount", "--uts"]

        def start(name: str) -> Running:
            words = [*prefix, "/bin/sh", str(ground.project / name)]
            return stage.start(words, cwd=ground.project, is_plain=not is_confined, files=company.lent)

        running = start("play")
        company.await_last_moment(running.fileno())
        held = processes(ground.token)
        company.go_on()
        outcome = running.wait()
        if any(attempt.then for attempt in attempts):
            start("then").wait()
        company.act_afterwards()
        return Performance(outcome, company.verdicts(held), company.has_begun, company.texts())


class _Company:
    """The files and processes of several attempts that are played together."""

    def __init__(
        self, stage: Stage, ground: Ground, attempts: Sequence[Attempt], probe: Path, opened: ExitStack
    ) -> None:
        self._stage = stage
        self._ground = ground
        self._attempts = attempts
        self._opened = opened
        self.lent: dict[int, int] = {}
        self._ears: dict[str, Sequence[socket.socket]] = {}
        self._variables: dict[str, Mapping[str, str]] = {}
        self._cells = [ground.cell(number) for number in range(len(attempts))]
        self._ready = ground.project / "ready"
        self._going = ground.project / "going"
        for fifo in (self._ready, self._going):
            os.mkfifo(fifo)
        # Both ways, so that what is written waits for its reader.
        self._go = os.open(self._going, os.O_RDWR)
        opened.callback(os.close, self._go)
        program = ground.project / "probe"
        program.write_bytes(probe.read_bytes())
        program.chmod(0o755)
        variables = [
            dict(attempt.prepare(cell) or {}) if attempt.prepare else {}
            for attempt, cell in zip(attempts, self._cells, strict=True)
        ]
        for attempt, cell in zip(attempts, self._cells, strict=True):
            if attempt.listen:
                ears = attempt.listen(cell)
                self._ears[attempt.name] = ears
                for ear in ears:
                    opened.enter_context(ear)
        ground.give()
        # Before scripts of the host run, which may close a directory to us as well.
        self._holders = [cell.holders() for cell in self._cells]
        for attempt, cell, more in zip(attempts, self._cells, variables, strict=True):
            if attempt.has_victim:
                more["VICTIM"], more["ADDRESS"] = self._victim(cell)
            if attempt.lend:
                file = attempt.lend(cell)
                opened.callback(os.close, file)
                number = FIRST_LENT + cell.number if attempt.lends_as is None else attempt.lends_as
                self.lent[number] = file
                more["LENT"] = str(number)
            if attempt.host_script:
                self._run_on_host(attempt.host_script, attempt, cell, more)
            self._variables[attempt.name] = more
            self._write_script("script", attempt.script, cell, more)
            self._write_script("second", attempt.then, cell, more)
        self._write_play()
        self._before = [look(cell.outside) for cell in self._cells]

    def _victim(self, cell: Cell) -> tuple[str, str]:
        told = cell.outside / "told"
        os.mkfifo(told)
        os.chown(told, self._ground.user, self._ground.user)
        name = f"v{cell.process_name}"
        running = self._stage.start(
            [str(self._ground.project / "probe"), "victim", name, cell.secret, str(told)],
            cwd=self._ground.directory,
            is_plain=True,
        )
        self._opened.callback(running.close)
        text = told.read_text().split()
        told.unlink()
        assert len(text) == 2, running.wait()
        return text[0], text[1]

    def act_afterwards(self) -> None:
        """Let the host do what programs of the owner do in his project."""
        for attempt, cell in zip(self._attempts, self._cells, strict=True):
            if attempt.afterwards:
                self._run_on_host(attempt.afterwards, attempt, cell, self._variables[attempt.name])

    def _run_on_host(self, text: str, attempt: Attempt, cell: Cell, more: Mapping[str, str]) -> None:
        secret = {"SECRET": cell.secret, "NAME": f"v{cell.process_name}"}
        script = self._write_script("host", text, cell, {**more, **secret})
        done = self._stage.run(["/bin/sh", "-e", str(script)], cwd=cell.inside, is_plain=True)
        assert done.status == 0 or attempt.needs, done
        # It has the secret in it.
        script.unlink()

    def _write_script(self, name: str, text: str, cell: Cell, more: Mapping[str, str]) -> Path:
        variables = {
            "OUT": str(cell.outside),
            "ROOT": str(self._ground.project),
            "SECOND": str(self._ground.second),
            "PROBE": str(self._ground.project / "probe"),
            "PYTHON": PYTHON,
            "NAME": cell.process_name,
            **more,
        }
        lines = [f"export {name}='{value}'" for name, value in variables.items()]
        script = cell.inside / name
        script.write_text("\n".join([*lines, text, ""]))
        os.chown(script, self._ground.user, self._ground.user)
        return script

    def _write_play(self) -> None:
        name = f"{self._ground.token}-{BASE}"
        base = f"export COMMAND=$$; echo > begun; NAME={name} {self._ground.project}/probe nothing"
        ending = f"echo > {self._ready}; read going < {self._going}; exit 0"
        (self._ground.project / "play").write_text("\n".join([base, *self._lines("script"), ending, ""]))
        (self._ground.project / "then").write_text("\n".join([*self._lines("second"), ""]))

    def _lines(self, script: str) -> list[str]:
        return [
            f"(cd {cell.inside} && exec timeout -s KILL {SCRIPT_TIMEOUT_S} /bin/sh ./{script})"
            f" >> {cell.inside}/output 2>&1 < /dev/null"
            for attempt, cell in zip(self._attempts, self._cells, strict=True)
            if script == "script" or attempt.then
        ]

    @property
    def has_begun(self) -> bool:
        """Whether the first script was started."""
        return (self._ground.project / "begun").exists()

    def await_last_moment(self, end: int) -> None:
        """Return when all scripts have run, or the command has ended."""
        ready = os.open(self._ready, os.O_RDONLY | os.O_NONBLOCK)
        try:
            select.select([ready, end], [], [])
        finally:
            os.close(ready)

    def go_on(self) -> None:
        """Let the command end."""
        os.write(self._go, b"\n")

    def _aftermath(self) -> str:
        said = self._stage.run(AFTERMATH, cwd=self._ground.directory, is_plain=True)
        return said.stdout.decode(errors="replace")

    def verdicts(self, held: Sequence[Process]) -> dict[str, bool]:
        """Whether each attempt was won."""
        left = processes(self._ground.token)
        victims = processes(f"v{self._ground.token}")
        won = {}
        for attempt, cell, before, holders in zip(
            self._attempts, self._cells, self._before, self._holders, strict=True
        ):
            scene = Scene(
                cell=cell,
                before=before,
                after=look(cell.outside),
                holders=holders,
                held=[process for process in held if process.name == cell.process_name],
                victims=[process for process in victims if process.name == f"v{cell.process_name}"],
                base=next((p for p in held if p.name == f"{self._ground.token}-{BASE}"), None),
                aftermath=self._aftermath,
                left=[process for process in left if process.name == cell.process_name],
                heard=b"".join(map(_heard_by, self._ears.get(attempt.name, ()))),
            )
            won[attempt.name] = attempt.is_won(scene)
        for victim in (*victims, *left):
            with suppress(ProcessLookupError):
                os.kill(victim.pid, signal.SIGKILL)
        return won

    def texts(self) -> dict[str, str]:
        """What each attempt wrote."""
        return {
            attempt.name: (cell.inside / "output").read_text(errors="replace")
            for attempt, cell in zip(self._attempts, self._cells, strict=True)
            if (cell.inside / "output").exists()
        }


def _heard_by(ear: socket.socket) -> bytes:
    ear.setblocking(False)
    with suppress(BlockingIOError):
        if ear.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            ear.accept()[0].close()
            return b"connected"
        return ear.recv(4096)
    return b""
