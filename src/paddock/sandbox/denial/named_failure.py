"""Reads what programs say has failed: lines of output in, named failures out.

Programs have no common form, but a few habits: they print the text or name of the errno, and next to it the
target, quoted or after the last colon. This module knows the habits of shells, the usual tools, Python,
Node.js, git and curl. A line that follows none of them gives nothing, or a failure without a name.

The output need not be true, and this module does not ask whose rule caused a failure. The length of the text
bounds the work, whatever its content. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum
from typing import Final

from msgspec import Struct

from paddock.model.denial import DenialKind
from paddock.model.profile import NetworkMode
from paddock.sandbox.denial.keyword import KEYWORDS
from paddock.sandbox.plan import seccomp

LINE_LIMIT: Final = 1024
"""Longer lines are not errors that name a file: a path has at most 4096 bytes, and few have 300."""


class Trouble(StrEnum):
    """What went wrong, as far as the line says."""

    READ_ONLY = "EROFS"
    REFUSED = "EACCES"
    NOT_PERMITTED = "EPERM"
    BUSY = "EBUSY"
    EXISTS = "EEXIST"
    MISSING = "ENOENT"
    UNRESOLVED = "the address of a host could not be found out"
    UNREACHABLE = "a host could not be reached"


_TEXTS: Final = {
    "read-only file system": Trouble.READ_ONLY,
    "permission denied": Trouble.REFUSED,
    "operation not permitted": Trouble.NOT_PERMITTED,
    "device or resource busy": Trouble.BUSY,
    "resource busy or locked": Trouble.BUSY,
    "file exists": Trouble.EXISTS,
    "file already exists": Trouble.EXISTS,
    "no such file or directory": Trouble.MISSING,
    "network is unreachable": Trouble.UNREACHABLE,
}
"""The texts of strerror(3), and of libuv where they differ."""


class NamedFailure(Struct, frozen=True):
    """Something that a program says has failed."""

    trouble: Trouble
    names: tuple[str, ...] = ()
    """The paths, the host or the system call in question, as the line has them."""
    kind: DenialKind | None = None
    """What the program wanted, if that is known."""
    speaker: str = ""
    """The beginning of the line, usually the name of the program."""
    is_in_place: bool = False
    """Whether the line seems to be about a file's content, not about creating or removing a name."""
    is_hard_link: bool = False
    """Whether the program wanted another name for a file, which it can't have on another mount."""


def failures(text: str) -> Iterator[tuple[str, NamedFailure | None]]:
    """Yield each line with a sign of trouble, and what it says has failed, if it can be understood."""
    text = _WRAP.sub("", _ESCAPE.sub("", text))
    if not _has_sign(text.lower()):
        return
    frame = ""
    for line in re.split(r"[\r\n]+", text):
        if line.startswith(_FRAME):
            frame = line
        elif _has_sign(line.lower()):
            yield line, None if len(line) > LINE_LIMIT else _failure(line, frame)


def _has_sign(lowered: str) -> bool:
    return any(sign in lowered for sign in _SIGNS)


def _failure(line: str, frame: str) -> NamedFailure | None:
    return _network_failure(line, frame) or _spawn_failure(line) or _file_failure(line, frame)


ERROR_WORDS: Final = (
    *_TEXTS,
    *("could not resolve", "unable to resolve", "getaddrinfo", "name resolution", "name or service"),
    *("failed to connect", "eperm", "eacces", "erofs", "enetunreach", "errno="),
)
"""Words of error messages, in lower case. A program that prints them itself need not have met an error."""

_SIGNS: Final = (
    *ERROR_WORDS,
    "spawn",
    *(keyword.decode() for keyword in KEYWORDS),
)
"""Words that a line must contain to be worth a closer look: most lines have none."""

_ESCAPE: Final = re.compile(r"\x1b\[[0-9;?]{0,32}[A-Za-z]")
"""Escape sequences for colours in terminals."""

_WRAP: Final = re.compile(r"\nWarning: (?!Failed)")
"""How curl wraps a line, even in the middle of a path; the rest would look like another path."""

_FRAME: Final = '  File "'
"""Begins the lines of a Python traceback that say where it was."""


# --- the network ------------------------------------------------------------

_NETWORK: Final = (
    (
        Trouble.UNRESOLVED,
        re.compile(r"could not resolve (?:host|proxy|hostname):? ([^\s:]{1,255})", re.IGNORECASE),
    ),
    (
        Trouble.UNRESOLVED,
        re.compile(r"unable to resolve host address ['\u2018]([^\s'\u2019]{1,255})", re.IGNORECASE),
    ),
    (Trouble.UNRESOLVED, re.compile(r"\bgetaddrinfo (?:EAI_AGAIN|ENOTFOUND) ([^\s:]{1,255})")),
    (Trouble.UNREACHABLE, re.compile(r"failed to connect to (\S{1,255}) port ([0-9]{1,5})", re.IGNORECASE)),
    (
        Trouble.UNREACHABLE,
        re.compile(
            r"\b(?:connect|listen|bind) (?:EPERM|ENETUNREACH)(?:: operation not permitted)?"
            r" ([^\s:]{1,255}|\S{1,255}(?=:))(?::([0-9]{1,5}))?(?:\s|$)"
        ),
    ),
    (
        Trouble.UNREACHABLE,
        re.compile(
            r"/dev/(?:tcp|udp)/([^/\s]{1,255})/([0-9]{1,5}): (?:operation not p|network is unr)",
            re.IGNORECASE,
        ),
    ),
    (Trouble.UNREACHABLE, re.compile(r"^([^\s\[]{1,255})\[[0-9]{1,3}: .{1,64}\]: errno=")),
)

_NO_SOCKET: Final = re.compile(r"\b(?:create|open) (?:a )?socket: operation not permitted")
"""How PostgreSQL and others report that they have no network at all."""

_UNRESOLVED_TEXTS: Final = ("temporary failure in name resolution", "name or service not known")

_DOMAIN: Final = re.compile(r"[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}")

SOCKET_CALLS: Final = frozenset(
    {"socket", "socketpair", "connect", "bind", "listen", "accept", "accept4", "sendto", "sendmmsg"}
)
"""Calls whose failure is one of the network."""

_SOCKET_FILES: Final = ('/socket.py"', '/socketserver.py"')


def _network_failure(line: str, frame: str) -> NamedFailure | None:
    for trouble, expression in _NETWORK:
        if found := expression.search(line):
            return NamedFailure(trouble, (":".join(filter(None, found.groups())),), DenialKind.NETWORK)
    lowered = line.lower()
    for text in _UNRESOLVED_TEXTS:
        before, there, _ = lowered.partition(text)
        if there:
            host = line[: len(before)].removesuffix(": ").rpartition(" ")[2]
            # Others print something else there, such as `failed` or the number of the error.
            names = (host,) if before.endswith(": ") and _DOMAIN.fullmatch(host) else ()
            return NamedFailure(Trouble.UNRESOLVED, names, DenialKind.NETWORK)
    if _NO_SOCKET.search(lowered):
        return NamedFailure(Trouble.UNREACHABLE, (), DenialKind.NETWORK)
    is_pythons = "[errno 1] operation not permitted" in lowered and (
        "<urlopen error" in lowered or any(file in frame for file in _SOCKET_FILES)
    )
    if is_pythons or "network is unreachable" in lowered:
        return NamedFailure(Trouble.UNREACHABLE, (), DenialKind.NETWORK)
    return None


# --- files ------------------------------------------------------------------

_SPAWN: Final = re.compile(r"spawn(?:Sync)? (\S.{0,900}) (EACCES|ENOENT)$")

_WRITING: Final = re.compile(
    r"cannot (?:touch|remove|create|move|mkdir|unlink)|(?:unable|failed) to (?:create|remove|unlink)"
    r"|could not (?:create|lock)|couldn't open temporary|changing (?:permissions|ownership)|for writing"
    r"|, (?:mkdir|rmdir|unlink|rename|symlink|link|chmod|chown|rm|copyfile|utime|ftruncate) '",
    re.IGNORECASE,
)
_RUNNING: Final = re.compile(r"cannot execute|failed to execute|\bexec(?:v|ve|vp|vpe)?\b", re.IGNORECASE)
_RUNNING_FRAMES: Final = ("in _execute_child", "in _posix_spawn")

_REMARKS: Final = frozenset(
    {"cannot open", "cannot execute", "cannot stat", "cannot mkdir", "cannot unlink", "cannot read"}
)
"""Text that some programs put between the path and the errno."""

_RENAMING: Final = re.compile(
    r"\b(?:remove|unlink|rmdir|rename|move|delete|replace|\[errno [0-9]{1,3}\])|' (?:to|->|=>) '",
    re.IGNORECASE,
)
"""Words about names that come or go. Python uses the same words for all calls."""

_COPYING: Final = re.compile(r"\bcannot copy '|, (?:copyfile|link|symlink) '")
"""Words about two names, of which the program writes only the second."""

_LINKING: Final = re.compile(r"\bhard link\b|, link '")
"""Words of ln(1) and Node.js for another name of a file."""

_OPENINGS: Final = {"'": "'", '"': '"', "\u2019": "\u2018"}
"""Quotation marks, by those that close."""
_HARD_LINK: Final = " => "
"""How ln(1) separates the new name from the existing one."""

_BEFORE_QUOTE: Final = frozenset(" (:,>")

CALL_PHRASES: Final = {"read kernel buffer failed": "syslog"}
"""Phrases of programs for a system call without its name."""

_CALLS: Final = frozenset(rule.call for mode in NetworkMode for rule in seccomp.rules(mode))


def _spawn_failure(line: str) -> NamedFailure | None:
    found = _SPAWN.match(line, max(0, line.find("spawn")))
    return found and NamedFailure(Trouble(found[2]), (found[1],), DenialKind.EXEC)


def _file_failure(line: str, frame: str) -> NamedFailure | None:
    lowered = line.lower()
    if len(lowered) != len(line):
        # The lower case of some letters is longer, so positions in the two texts would differ.
        return None
    for text, trouble in _TEXTS.items():
        at = lowered.rfind(text)
        if at < 0:
            continue
        before, after = line[:at], line[at + len(text) :]
        if trouble is Trouble.NOT_PERMITTED and (call := _call(before)):
            kind = DenialKind.NETWORK if call in SOCKET_CALLS else DenialKind.SYSCALL
            about = () if kind is DenialKind.NETWORK else (call,)
            return NamedFailure(trouble, about, kind, line.partition(":")[0])
        names = _quoted(after) or _paths(_head(before))
        if trouble is Trouble.READ_ONLY and _COPYING.search(line):
            names = names[-1:]
        is_in_place = _RENAMING.search(line) is None
        is_hard_link = _LINKING.search(line) is not None
        wanted = _kind(line, frame)
        return NamedFailure(trouble, names, wanted, is_in_place=is_in_place, is_hard_link=is_hard_link)
    return None


def _kind(line: str, frame: str) -> DenialKind | None:
    if _WRITING.search(line):
        return DenialKind.WRITE
    if _RUNNING.search(line) or any(path in frame for path in _RUNNING_FRAMES):
        return DenialKind.EXEC
    return None


def _head(before: str) -> str:
    """Return what precedes the text of an errno, without the number that some programs put between."""
    head = re.sub(r"\[[eE]rrno [0-9]{1,3}\] $", "", before).rstrip(": (")
    return head.removesuffix(" for reading").removesuffix(" for writing")


def _paths(head: str) -> tuple[str, ...]:
    return _quoted(head) if head[-1:] in _OPENINGS else _last_part(head)


def _quoted(text: str) -> tuple[str, ...]:
    """Return the quoted name at the end, or two if the line is about two."""
    text = text.rstrip(" .")
    mark = text[-1:]
    if mark not in _OPENINGS:
        return ()
    start = text.rfind(_OPENINGS[mark], 0, -1)
    name, rest = text[start + 1 : -1], text[:start] if start >= 0 else ""
    # Programs escape quotation marks in many ways, and the path would be cut off.
    if start < 0 or not name or (rest and rest[-1] not in _BEFORE_QUOTE):
        return ()
    if rest.endswith(_HARD_LINK):
        return _quoted(rest.removesuffix(_HARD_LINK))[-1:]
    for link in (" to ", " -> "):
        if rest.endswith(link):
            return (*_quoted(rest.removesuffix(link))[-1:], name)
    return (name,)


def _last_part(head: str) -> tuple[str, ...]:
    """Return the path after the last colon, or as much of the text there as looks like one."""
    parts = head.split(": ")
    while len(parts) > 1 and parts[-1].lower() in _REMARKS:
        parts.pop()
    if len(parts) == 1 or any("/" in part for part in parts[1:-1]):
        # A colon may be a part of the path.
        return ()
    part = parts[-1].strip()
    if part.startswith("/") or " " not in part:
        return (part,) if part else ()
    start = part.find(" /")
    return (part[start + 1 :] if start >= 0 else part.rpartition(" ")[2],)


def _call(before: str) -> str | None:
    """Return the system call after the last colon: its name alone, with arguments or with a remark."""
    part = before.rstrip(": ").rpartition(": ")[2]
    if part in CALL_PHRASES:
        return CALL_PHRASES[part]
    name = part.partition("(")[0].removesuffix(" failed")
    if name.startswith("PTRACE_"):
        return "ptrace"
    return name if name in _CALLS else None
