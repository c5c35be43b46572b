"""Settings of a server: TOML -> one frozen value.

Every limit of the server has its name here. An unknown key or a bad value is an
error that names it: a misspelt limit must not leave the default in force.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_type_hints

import msgspec
from msgspec import Meta, Struct

from paddock import installation
from paddock.errors import ConfigError
from paddock.model.audit_failure import AuditFailure
from paddock.model.auth_mode import AuthMode
from paddock.model.host_pattern import HostPattern
from paddock.model.interceptor import Interceptor
from paddock.model.log_setting import LogFormat, LogLevel
from paddock.model.network_secret import NetworkSecret

if TYPE_CHECKING:
    from pathlib import Path

KIB = 1024
MIB = 1024 * KIB

Positive = Annotated[int, Meta(ge=1)]
Unsigned = Annotated[int, Meta(ge=0)]
Seconds = Annotated[float, Meta(ge=0)]


class Settings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a server allows, and how much of each. The defaults are those of `paddock serve`."""

    listen: str = "ws://127.0.0.1:0"
    """Where to listen: `ws://IP:PORT`, `wss://IP:PORT`, `unix:///path` or `stdio`."""

    ws_auth: AuthMode | None = None
    """How websocket clients show who they are: `capability-token` or `signed-bearer-token`. By default they
    need not, and then the server listens only on loopback addresses."""

    ws_token_file: str | None = None
    """File with the capability token. White space around the token does not count."""

    ws_token_sha256: str | None = None
    """The SHA-256 digest of the capability token in 64 hexadecimal digits, in place of the file."""

    ws_shared_secret_file: str | None = None
    """File with the secret, of 32 bytes or more, that signs bearer tokens with HS256."""

    ws_issuer: str | None = None
    """The issuer (`iss`) that signed bearer tokens must have."""

    ws_audience: str | None = None
    """The audience (`aud`) that signed bearer tokens must have."""

    ws_max_clock_skew_seconds: Annotated[int, Meta(ge=0, le=2**63 - 1)] | None = None
    """How far the clock of the issuer of signed bearer tokens may be off; 30 by default."""

    tls_cert: str | None = None
    """PEM file with the certificate and those that lead to its root. With it, the websocket is `wss`."""

    tls_key: str | None = None
    """PEM file with the private key of the certificate, unencrypted."""

    allowed_origins: tuple[str, ...] = ()
    """Origins, such as `https://app.example`, whose web pages may connect; by default none may."""

    allowed_hosts: tuple[str, ...] = ()
    """Names besides `localhost` that requests to a loopback address may give in `Host`, without the port."""

    concurrent_requests: Positive = 64
    """Ordinary requests of one connection that run at once, without parked ones; 1 is strictly serial."""

    max_parked_requests: Positive = 4096
    """Parked requests of one connection: calls of `process/wait` and `process/read` that wait for something
    to happen. The server refuses more. The default allows four for each process that a session may have by
    default, and takes about 10 MiB."""

    queued_requests: Positive = 1024
    """Requests of one connection that may wait for their turn; then the server stops reading from it."""

    allow_direct_exec: bool = True
    """Whether clients may call `process/start` with argv, cwd and env."""

    allow_prepared_exec: bool = False
    """Whether clients may call `process/start` with a prepared spawn request."""

    require_sandbox: bool = False
    """Whether the server must confine everything. It then refuses `process/start` without a sandbox that it
    can enforce, prepared starts, and `http/request`."""

    allow_unsandboxed_http: bool = False
    """Whether clients may call `http/request` even under `require_sandbox`. The server itself makes these
    requests, outside any sandbox."""

    allow_escalation: bool = False
    """Whether rules and answers may let a program out of the sandbox of a process that was started with
    `intercept`. Such a program runs unconfined as the server's user. Never under `require_sandbox` or
    `max_profile`."""

    interception: Interceptor | None = None
    """How the server learns what a process that was started with `intercept` executes: `notify` asks the
    kernel, and `wrapper` uses a patched Bash, which sees less. By default `notify` where the host has it,
    otherwise `wrapper`."""

    interception_shell: Annotated[str, Meta(pattern="^/")] | None = None
    """Absolute path of the patched Bash for `wrapper`; by default the one that `make bash` has built."""

    permissions: dict[str, dict[str, Any]] = {}
    """Profiles that requests may name as `sandbox: {"profile": NAME}`, each a table as in the files of
    `paddock sandbox --profile`. Every server knows `:read-only`, `:workspace` and `:danger-full-access`."""

    network_groups: dict[str, tuple[str, ...]] = {}
    """Groups of hosts that profiles may name as `@NAME`, and `paddock run` with `--allow-group`. They add to
    those of `paddock network groups`, and replace one of the same name."""

    network_rules_file: Annotated[str, Meta(pattern="^/")] | None = None
    """Absolute path of a file of rules whose `network_rule`s apply to every proxied process. The server
    reads it at the start and on SIGHUP, and makes it if it is missing. It adds a line for each answer about
    a host that somebody wants remembered as a rule. By default there is none."""

    network_secrets: dict[str, NetworkSecret] = {}
    """Secrets that profiles may name in `secrets`, each a table: `hosts`, `file` or `variable`, and
    `header` with `template`, or `basic_user`. The proxy adds one to requests that go to its hosts, and
    the command never sees it."""

    max_profile: str | None = None
    """The name of the profile that no request may exceed: the server refuses more access to any path, more of
    the network, a looser limit, and anything unconfined. Its `:workspace_roots` are those that it lists, or
    else the directory in which the server was started; its `:tmpdir` is the server's."""

    use_legacy_landlock: bool = False
    """Whether the server makes sandboxes with Landlock alone, without bubblewrap. They are weaker. The server
    refuses confined file operations, and profiles that Landlock can't express, with the reason."""

    warm_sandboxes: Annotated[int, Meta(ge=0, le=64)] = 2
    """Spare sandboxes that the server keeps ready, of the kinds that clients have asked for lately, so that
    the next such command need not wait; 0 keeps none."""

    warm_ttl_s: Annotated[float, Meta(gt=0)] = 60.0
    """How long a spare sandbox waits for a command. File systems that it has mounted stay busy meanwhile."""

    max_processes_per_connection: Positive = 1024
    """Live processes of one session. One that has ended counts for as long as others of its group live."""

    max_open_questions: Positive = 1024
    """Questions of one session that wait for its client or an operator. Their parameters together take at
    most 1 MiB. Any further question counts as refused."""

    retained_output_bytes_per_process: Annotated[int, Meta(ge=4 * KIB, le=1024 * MIB)] = 1 * MIB
    """Output of one process that the server keeps for later readers. One half is for the beginning, which it
    never drops, and the other for the newest output. stdout and stderr share both, so the one that writes
    more displaces the other."""

    closed_process_ttl_s: Seconds = 30.0
    """How long the server remembers a closed process and its output."""

    kept_process_ttl_s: Seconds = 3600.0
    """The same for a process that was started with `keepAlive`: its client may come back late."""

    closed_output_bytes_per_session: Unsigned = 64 * MIB
    """Output of closed processes that one session keeps in all; beyond that the server forgets the oldest
    early. The same bound holds for all ended sessions together whose `keepAlive` processes it remembers."""

    session_ttl_s: Seconds = 30.0
    """How long a session outlives its connection; 0 ends it with the connection."""

    shutdown_grace_period_ms: Unsigned = 2000
    """Time between SIGTERM and SIGKILL when a session or the server ends."""

    max_connections: Positive = 1024
    """Connections at one time; the server refuses more."""

    max_frame_bytes: Positive = 16 * MIB
    """The largest websocket frame that the server accepts."""

    max_message_bytes: Positive = 64 * MIB
    """The largest message that the server accepts; more than 8 MiB only if nearly all of it is base64."""

    max_json_values: Positive = 65_536
    """JSON values in one message. Each costs up to a microsecond, in which the server serves nobody else. The
    reference protocol allows four times as many."""

    max_json_depth: Annotated[int, Meta(ge=8, le=512)] = 127
    """Nesting of one message; the upper bound keeps readers within Python's recursion limit."""

    send_buffer_bytes: Annotated[int, Meta(ge=64 * KIB)] = 1 * MIB
    """Unsent bytes at which the server pauses a client's processes; at eight times as many it stops
    reading from the client."""

    handshake_timeout_s: Annotated[float, Meta(gt=0)] = 5.0
    """Time for a client to complete the websocket upgrade."""

    ping_interval_s: Seconds = 30.0
    """How often the server pings an idle websocket; 0 never."""

    ping_timeout_s: Seconds = 10.0
    """How long after a ping a websocket may stay silent before it counts as lost; 0 tolerates silence. The
    server keeps a client whose program is stopped as long as its host answers; its processes wait."""

    control_socket: bool | str | None = None
    """Whether operators (`paddock ps`, `attach`, …) reach the server over a socket in the user's runtime
    directory, or the absolute path of another socket. By default `paddock serve` has one, and an embedded
    server has none."""

    network_operators: bool = False
    """Whether websocket clients, who have shown a token, may act as operators. They then reach the processes
    of every session, for example with `paddock ps --url`. Needs `ws_auth`."""

    log_level: LogLevel = LogLevel.WARNING
    """What `paddock serve` logs: `info` is everything that happens, `warning` only what is wrong. A program
    that embeds a server configures `logging` itself."""

    log_format: LogFormat = LogFormat.TEXT
    """The format of that log's lines: `text`, or a JSON object."""

    audit_log: str | None = None
    """Directory of the audit log, which records every start and exit. The server makes it if it is missing.
    By default there is no audit log."""

    audit_segment_bytes: Annotated[int, Meta(ge=64 * KIB)] = 64 * MIB
    """Size at which the audit log continues in a new file."""

    audit_sync: bool = False
    """Whether a start waits until its record is on the disk. Without it a record survives the death of the
    server, but not a power failure."""

    audit_failure: AuditFailure = AuditFailure.STOP
    """What the server does while it can't write the audit log, for example because the disk is full. With
    `stop` it starts nothing that it can't record; with `continue` it goes on, and the log says later how
    many records are missing."""

    audit_secret_names: tuple[str, ...] = ()
    """Patterns, such as `CORP_*`, for names of variables, flags and headers whose values stay out of the
    audit log. They add to the usual ones (`*TOKEN*`, `*SECRET*`, `*PASSWORD*`, …). Case does not count."""

    @property
    def shutdown_grace_s(self) -> float:
        """Return the grace period in seconds."""
        return self.shutdown_grace_period_ms / 1000


def load_settings(path: Path, overrides: dict[str, Any] | None = None) -> Settings:
    """Read a TOML file; `overrides`, from the command line, win. Raises ConfigError, with the place.

    No command that this process confines may change the file.
    """
    import tomllib

    try:
        text = path.read_text(encoding="utf-8")
        table = tomllib.loads(text)
    except OSError as error:
        raise ConfigError("", f"can't be read: {error.strerror}", str(path)) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError("", f"is not valid TOML: {error}", str(path)) from error
    installation.obey(path)
    try:
        return make_settings(table | (overrides or {}))
    except ConfigError as error:
        if error.key not in (overrides or {}):
            error.place = place_of(error.key, path, text)
        raise


def locate(error: ConfigError, path: Path) -> None:
    """Add the place of the setting to an error, if the file has the setting and the error lacks a place."""
    if error.place is None:
        with contextlib.suppress(OSError, UnicodeDecodeError):
            error.place = place_of(error.key, path, path.read_text(encoding="utf-8"))


def place_of(key: str, path: Path, text: str) -> str | None:
    """Return `FILE:LINE` of a setting, or of its table; None if the file does not have it.

    `key` may name a part of a setting, as `permissions.mine.limits` or `allowed_hosts[0]`.
    """
    from paddock.toml_flaw import line_of

    line = line_of(re.split(r"[.\[]", key), text)
    return None if line is None else f"{path}:{line}"


def make_settings(table: dict[str, Any]) -> Settings:
    """Check a table of settings, with defaults for missing ones. Raises ConfigError naming the key."""
    try:
        settings = msgspec.convert(table, Settings)
    except msgspec.ValidationError as error:
        raise _named(str(error), table) from error
    for name, hosts in settings.network_groups.items():
        _check_hosts(f"network_groups.{name}", hosts)
    return settings


def _check_hosts(key: str, hosts: Iterable[str]) -> None:
    for host in hosts:
        try:
            HostPattern.parse(host)
        except ValueError as error:
            raise ConfigError(key, str(error)) from error


_NEVER_SHOWN = frozenset({"ws_token_sha256", "network_secrets"})
"""A user may have put the token itself there by mistake, and errors end up in logs."""


def _named(message: str, table: dict[str, Any]) -> ConfigError:
    from paddock.toml_flaw import flaw_of, instead

    flaw = flaw_of(message)
    if not flaw.key:
        if (unknown := flaw.unknown_key) is None:
            return ConfigError("settings", message)
        meant = instead(unknown, sorted(Settings.__struct_fields__))
        return ConfigError(unknown, f"there is no such setting; {meant}")
    # An item of a list is located as `name[0]`.
    name = flaw.key.partition("[")[0]
    if name in _NEVER_SHOWN:
        return ConfigError(flaw.key, flaw.text)
    choices = _choices(flaw.key)
    text = f"expected {' or '.join(choices)}" if choices else flaw.text
    return ConfigError(flaw.key, f"{text}; it is {table.get(name)!r}")


def _choices(key: str) -> list[str]:
    """Return the values that a setting may have, if they are a closed set."""
    hint = get_type_hints(Settings).get(key)
    kinds = get_args(hint) or (hint,)
    enums = (kind for kind in kinds if isinstance(kind, type) and issubclass(kind, StrEnum))
    return [choice for enum in enums for choice in enum]
