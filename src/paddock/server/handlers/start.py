"""`process/start`: from parameters to a checked start, and from that to a process.

A start belongs to the session, not to the connection that asked: when the
connection is lost while the program is being started, the process is there for
the client that resumes, and the same idempotency key finds it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

from msgspec import UNSET, Struct
from msgspec.structs import replace

from paddock.config import Settings
from paddock.errors import (
    ExecForbidden,
    InvalidParams,
    OperationFailed,
    RequestError,
    SandboxRequired,
    SandboxUnenforceable,
    SpawnError,
)
from paddock.host_text import local_text, utf8_environment
from paddock.model.terminal import DEFAULT_TERMINAL_SIZE, TerminalSize
from paddock.process.description import Description
from paddock.process.environment import (
    THREAD_VARIABLE,
    TOOL_CALL_VARIABLE,
    Inherit,
    InheritancePolicy,
    child_environment,
)
from paddock.process.launch import LaunchSpec, launch
from paddock.process.managed import ManagedProcess
from paddock.process.spawn_request import SpawnStage
from paddock.protocol.call import Call
from paddock.protocol.envelope import RequestId
from paddock.protocol.intercept import InterceptParams
from paddock.protocol.path import HostPath
from paddock.protocol.process import EnvironmentPolicy, StartParams, StartResult
from paddock.protocol.process_event import FailedEvent, StartedEvent
from paddock.protocol.question import EXEC_APPROVAL
from paddock.sandbox.profile.enforced import is_enforced
from paddock.server.confinement import Confinement
from paddock.server.connection import ClientConnection
from paddock.server.dispatch import Then
from paddock.server.environment import user_shell
from paddock.server.handlers.network import refuse_unconfined, wanted_profile, with_network
from paddock.server.profiles import Profiles
from paddock.server.services import Services
from paddock.server.session_process import SessionProcess

if TYPE_CHECKING:
    from paddock.audit import event
    from paddock.server.sandbox_enclosure import SandboxEnclosure

SANDBOXED: Final = "linuxSeccomp"
"""The reference's name for any sandbox on Linux."""


def start(connection: ClientConnection, call: Call[StartParams]) -> Coroutine[Any, Any, StartResult | Then]:
    """Start a process, once for each idempotency key.

    The id is taken before this returns, so that requests which follow find the process.
    """
    params = call.params
    session = connection.session
    key = params.idempotency_key
    first = session.first_start(key) if key is not None else None
    if first is not None:
        return _repeat(first)
    _refuse_unanswerable(connection, params)
    checked = check_start(connection.services.settings, connection.services.profiles, params)
    given = checked.spec.env
    checked = with_network(connection, checked, params)
    if params.intercept is not None:
        checked = _intercepted(connection, checked, params.intercept, given)
    entry = session.admit(checked.description.shortened())
    entry.network = None if checked.confinement is None else checked.confinement.network
    spawned = session.run(_spawn(connection, entry, checked, call.id))
    entry.begin_start(spawned)
    connection.unanswered_starts.add(entry)
    if key is not None:
        session.remember_start(key, spawned)
    return _answer(connection, entry, spawned)


def _intercepted(
    connection: ClientConnection, checked: CheckedStart, wanted: InterceptParams, given: Mapping[str, str]
) -> CheckedStart:
    """Add a decider for the programs that the process executes; `given` are its client's variables."""
    # Few processes are intercepted, and the module takes a while to load.
    from paddock.intercept.verdict import escalation_refused
    from paddock.server.exec_decider import ExecDecider

    assert checked.confinement is not None
    session, settings = connection.session, connection.services.settings
    process_id, record = checked.description.process_id, session.record
    decider = ExecDecider(
        process_id,
        wanted,
        _local_variables(given),
        set_inside=_local_variables(
            {name: value for name, value in checked.spec.env.items() if given.get(name) != value}
        ),
        no_escalation=escalation_refused(
            is_allowed=settings.allow_escalation,
            requires_sandbox=settings.require_sandbox,
            cap=settings.max_profile,
            denies_reads=False,
        ),
        session=session.answers,
        ask=session.questions.ask,
        tell=partial(session.process_executes, process_id),
        when_caught_up=session.when_caught_up,
        commit=partial(record.commit_execution, process_id) if record.is_audited else None,
    )
    return replace(checked, confinement=replace(checked.confinement, decider=decider))


def _local_variables(variables: Mapping[str, str]) -> dict[str, str]:
    return {local_text(name): local_text(value) for name, value in variables.items()}


async def _repeat(first: asyncio.Task[StartResult]) -> StartResult | Then:
    try:
        return await asyncio.shield(first)
    except RequestError as error:
        return _failed(error, lambda: None)


async def _answer(
    connection: ClientConnection, entry: SessionProcess, start: asyncio.Task[StartResult]
) -> Then:
    """Wait for the start and answer; events begin only after the answer was sent."""
    process_id = entry.managed.description.process_id
    try:
        result = await asyncio.shield(start)
    except RequestError as error:
        connection.unanswered_starts.discard(entry)
        failed = FailedEvent(process_id=process_id, message=str(error))
        return _failed(error, partial(connection.notify, "process/failed", failed, is_optional=True))
    return Then(result, partial(_announce, connection, entry))


def _failed(error: RequestError, action: Callable[[], None]) -> Then:
    """Answer with the error of a start, without its frames: they lead back to the start, and such a circle
    keeps the whole request until the garbage collector comes by."""
    return Then(error.with_traceback(None), action)


def _announce(connection: ClientConnection, entry: SessionProcess) -> None:
    connection.unanswered_starts.discard(entry)
    process = entry.managed
    event = StartedEvent(
        process_id=process.description.process_id, started_at_ms=int(process.started_at_s * 1000)
    )
    connection.notify("process/started", event, is_optional=True)
    process.begin()


async def _spawn(
    connection: ClientConnection, entry: SessionProcess, checked: CheckedStart, request: RequestId
) -> StartResult:
    services, session = connection.services, connection.session
    retained_bytes = services.settings.retained_output_bytes_per_process
    begun_at_s = perf_counter()
    enclosure = None
    try:
        confinement = await _recorded(connection, checked.confinement)
        await session.record.starting(
            checked.description, checked.spec, connection.number, request, confinement
        )
        if checked.confinement is None:
            await launch(services.spawner, checked.spec, entry.managed, retained_bytes)
        else:
            wanted = replace(checked.confinement, client=connection.number)
            enclosure = await _launch_enclosed(services, checked, wanted, entry.managed)
    except BaseException as error:
        session.record.not_started(checked.description, error, connection.number, request)
        session.discard(entry)
        if isinstance(error, OSError):
            reason = f"{error.strerror} (os error {error.errno})"
            raise OperationFailed(f"can't start {checked.spec.program!r}: {reason}") from error
        raise
    session.record.started(entry.managed, perf_counter() - begun_at_s, connection.number, request)
    return StartResult(
        process_id=checked.description.process_id,
        sandbox_type=SANDBOXED if enclosure is not None else "none",
        sandbox_enforcement=enclosure.enforcement if enclosure and connection.has_extensions else UNSET,
        interceptor=(enclosure and enclosure.interceptor) or UNSET,
        sandbox_start=enclosure.start if enclosure and connection.has_extensions else UNSET,
    )


async def _recorded(connection: ClientConnection, wanted: Confinement | None) -> event.Confinement | None:
    """Return the audit log's description of a sandbox."""
    if wanted is None or not connection.session.record.is_audited:
        return None
    from paddock.audit import event
    from paddock.sandbox.profile.codec import digest_of

    level = await connection.services.enclosures.sandboxes.level(wanted)
    return event.Confinement(type=SANDBOXED, level=level, profile=wanted.name or digest_of(wanted.profile))


async def _launch_enclosed(
    services: Services, checked: CheckedStart, wanted: Confinement, process: ManagedProcess
) -> SandboxEnclosure:
    """Start a command in a sandbox. Returns when it is confined; nothing is left if it can't be."""
    spec, retained_bytes = checked.spec, services.settings.retained_output_bytes_per_process

    async def start(enclosure: SandboxEnclosure) -> SandboxEnclosure:
        try:
            starter = enclosure.warm or services.spawner
            await launch(starter, enclosure.spec(spec), process, retained_bytes, enclosure)
        except BaseException as error:
            await enclosure.abandon()
            match error:
                case SpawnError(stage=SpawnStage.EXEC):
                    raise SandboxUnenforceable(str(error)) from error
                case SpawnError():
                    # The error names the command, not the program that was to confine it.
                    raise SpawnError(error.stage, error.errno, spec.program, spec.cwd, error.flaw) from error
            raise
        return enclosure

    return await services.enclosures.sandboxes.enclose(wanted, spec, list(checked.description.argv), start)


# --- checking ---------------------------------------------------------------


class CheckedStart(Struct, frozen=True):
    """A start that passed every check."""

    spec: LaunchSpec
    description: Description
    confinement: Confinement | None = None
    """Set if there is something to enforce."""


def check_start(settings: Settings, profiles: Profiles, params: StartParams) -> CheckedStart:
    """Check what can be checked before anything is reserved or spawned. Raises RequestError."""
    _refuse_unenforceable(params)
    confinement = _confinement(params, profiles)
    if params.intercept is not None:
        _refuse_unintercepted(params.intercept, confinement)
    if confinement is None:
        if settings.require_sandbox:
            raise SandboxRequired("a start without a sandbox that is enforced")
        profiles.refuse_unconfined("a start without a sandbox that is enforced")
    if params.prepared is not None:
        if not settings.allow_prepared_exec:
            raise ExecForbidden("prepared", "allow_prepared_exec")
        argv, arg0, cwd = params.prepared.argv, params.prepared.arg0, params.prepared.cwd
        environment = dict(params.prepared.env)
    else:
        if not settings.allow_direct_exec:
            raise ExecForbidden("direct", "allow_direct_exec")
        assert params.argv is not UNSET
        assert params.cwd is not UNSET
        argv, arg0, cwd = params.argv, params.arg0, params.cwd
        environment = _direct_environment(params)
    return CheckedStart(
        LaunchSpec(
            program=argv[0],
            argv=[argv[0] if arg0 is None else arg0, *argv[1:]],
            cwd=_local(cwd),
            env=environment,
            terminal=_terminal_size(params),
            has_stdin=params.has_open_stdin,
            cwd_without_links=params.cwd_without_links,
        ),
        Description(
            process_id=params.process_id,
            argv=tuple(argv),
            cwd=str(cwd),
            is_terminal=params.is_terminal,
            has_stdin=params.has_open_stdin,
            is_kept_alive=params.keep_alive,
        ),
        confinement,
    )


def _refuse_unanswerable(connection: ClientConnection, params: StartParams) -> None:
    """Refuse a start that would need to ask a client that does not answer questions."""
    wanted = params.intercept
    if wanted is not None and wanted.on_prompt == "ask" and EXEC_APPROVAL not in connection.answered_methods:
        raise InvalidParams(
            f"params.intercept.onPrompt: the client does not answer {EXEC_APPROVAL}; name it in "
            'capabilities.requests of initialize, or say "deny"'
        )


def _refuse_unenforceable(params: StartParams) -> None:
    """Refuse confinement that this version can't give: nothing runs unconfined by accident."""
    if params.shell_snapshot is not None:
        raise InvalidParams("params.shellSnapshot: this server has no shell snapshots")


def _refuse_unintercepted(wanted: InterceptParams, confinement: Confinement | None) -> None:
    """Refuse rules that nothing would obey, and those that mean nothing."""
    if confinement is None:
        raise InvalidParams("params.intercept: only what runs in a sandbox that is enforced is intercepted")
    # Few processes are intercepted, and the module takes a while to load.
    from paddock.server.interception import check_rules

    check_rules(wanted)


def _confinement(params: StartParams, profiles: Profiles) -> Confinement | None:
    """Return the confinement of the start; None if nothing would be enforced."""
    if params.sandbox is None:
        refuse_unconfined(params)
        return None
    from paddock.server.handlers.confinement import confinement_of

    cwd = None if params.cwd is UNSET or params.cwd.is_foreign else params.cwd.path
    wanted = confinement_of(params.sandbox, profiles, cwd)
    wanted = replace(wanted, profile=wanted_profile(wanted.profile, params))
    if not is_enforced(wanted.profile):
        return None
    if params.prepared is not None:
        raise InvalidParams("params.sandbox: a prepared start can't be confined; give argv, cwd and env")
    if params.cwd_without_links:
        raise InvalidParams("params.cwdWithoutLinks: only for a start without a sandbox")
    return replace(wanted, is_traced=params.sandbox.trace)


def _direct_environment(params: StartParams) -> dict[str, str]:
    assert params.env is not UNSET
    overlay = dict(params.env)
    if params.metadata is not None:
        if params.metadata.tool_call_id is not None:
            overlay[TOOL_CALL_VARIABLE] = params.metadata.tool_call_id
        if params.metadata.thread_id is not None:
            overlay[THREAD_VARIABLE] = str(params.metadata.thread_id)
    policy = _inheritance(params.env_policy) if params.env_policy is not None else None
    environment = child_environment(utf8_environment(), policy, overlay)
    if params.is_terminal:
        environment.setdefault("SHELL", user_shell())
    return environment


def _inheritance(policy: EnvironmentPolicy) -> InheritancePolicy:
    return InheritancePolicy(
        inherit=Inherit(policy.inherit),
        ignore_default_excludes=policy.ignore_default_excludes,
        exclude=tuple(policy.exclude),
        assign=policy.set,
        include_only=tuple(policy.include_only),
    )


def _local(cwd: HostPath) -> str:
    if cwd.is_foreign:
        raise InvalidParams(f"params.cwd: {cwd.text!r} does not name a directory of this Linux host")
    return cwd.path


def _terminal_size(params: StartParams) -> TerminalSize | None:
    if not params.is_terminal:
        return None
    if params.io is not None and params.io.pty is not None:
        return TerminalSize(rows=params.io.pty.rows, cols=params.io.pty.cols)
    return DEFAULT_TERMINAL_SIZE
