"""Finds what a sandbox kept a command from: compares what the command said with what its profile refuses.

A denial is certain when the profile refuses an access, and the command says that just this access has failed
in the way in which this sandbox refuses it. What the profile allows has failed for another reason and is no
denial, whatever words were used. In between are guesses, marked as such.

A command's word alone is no proof, because it may repeat an old log or want to be let out. What failed must
be among its arguments, which come from its caller, and the arguments must not contain the words of the error
themselves. Output on stdout or a terminal may be the content of a file, so there the exact path must be among
the arguments; on stderr a directory above it is enough. Pure: `resolve` tells where a path leads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from enum import Enum
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from paddock.model.denial import Denial, DenialKind
from paddock.model.profile import Access
from paddock.sandbox.denial.attempt import Resolution
from paddock.sandbox.denial.invocation import Invocation
from paddock.sandbox.denial.keyword import SIGSYS_STATUS, is_denial
from paddock.sandbox.denial.named_failure import ERROR_WORDS, NamedFailure, Trouble, failures
from paddock.sandbox.denial.policy import CALL_WORDS, Policy, Ruling, with_wider_grant
from paddock.sandbox.profile.path import clean

JUDGED_FAILURES: Final = 64
"""Most failures to judge in each stream: the newest. Each may cost a few lookups in the file system."""

DENIALS_LIMIT: Final = 16
"""Denials of one command. One that removes a protected tree writes a line for each file in it."""

DENIALS_PER_RULE: Final = 4
"""So that one rule does not displace the others."""

PATH_LIMIT: Final = 4095
"""PATH_MAX without the byte that ends it (limits.h)."""

NOT_EXECUTABLE_STATUS: Final = 126
"""Exit status of a shell or env(1) whose last command could not be run."""

Resolve = Callable[[str], Sequence[Resolution]]
"""Finds where an absolute path may lead: with a link at its end followed, and without."""


class Said(Struct, frozen=True):
    """The end of a stream."""

    text: str
    is_stderr: bool


class Ended(Struct, frozen=True):
    """A command that has failed: what it was, and what it said."""

    exit_code: int
    invocation: Invocation
    said: Sequence[Said]
    is_suspected: bool
    """Whether its output contains the words that the reference looks for."""


class Unclear(Enum):
    """What is known about a failure that no rule explains."""

    ORDINARY = "the profile allows what failed"
    UNKNOWN = "what failed, or what the profile says of it, is not known"


def explain(ended: Ended, policy: Policy | None, resolve: Resolve) -> tuple[Denial, ...]:
    """Return what the sandbox kept the command from: certain denials first, then in the order of the output.

    Some kinds of sandbox have no known policy; without one, everything is a guess.
    """
    judge = _Judge(ended, policy, resolve)
    for said in ended.said:
        judge.hear(said)
    return judge.result()


def merge(told: Iterable[Denial], attempted: Sequence[Denial]) -> tuple[Denial, ...]:
    """Combine what a command said with what a tracer saw it attempt and its profile refuse.

    What the tracer saw is certain. What the command only said is a guess, because the tracer would have seen
    it. Where sockets are refused before they have an address, only the command says whom it wanted to reach.
    """
    kinds = {denial.kind for denial in attempted}
    targets = {denial.target for denial in attempted}
    rest = []
    for denial in told:
        is_seen = denial.kind is DenialKind.NETWORK and denial.kind in kinds
        is_known = _is_among(denial.target, targets) or (denial.rule is None and denial.kind in kinds)
        if not is_known:
            rest.append(replace(denial, is_certain=denial.is_certain and is_seen))
    return _bounded(_informative([*attempted, *rest]))


def _is_among(target: str | None, targets: Set[str | None]) -> bool:
    """Return whether the tracer saw a target, perhaps by another name: it resolves `..` through links."""
    return target in targets or (target is not None and target.startswith("/") and clean(target) in targets)


class _Judge:
    """Judges what a command said."""

    def __init__(self, ended: Ended, policy: Policy | None, resolve: Resolve) -> None:
        self._ended = ended
        self._invocation = ended.invocation
        self._is_quoting = ended.invocation.has_any(ERROR_WORDS)
        self._policy = policy
        self._resolve = resolve
        self._found: dict[str | DenialKind, tuple[Denial, bool]] = {}
        self._has_ordinary = False
        self._has_unexplained = False

    def hear(self, said: Said) -> None:
        """Judge each failure that a stream names."""
        lines = list(failures(said.text))
        named = [failure for _, failure in lines if failure is not None]
        last_refused = next((f for f in reversed(named) if f.trouble is Trouble.REFUSED), None)
        for failure in named[-JUDGED_FAILURES:]:
            if failure is last_refused and self._ended.exit_code == NOT_EXECUTABLE_STATUS:
                failure = replace(failure, kind=failure.kind or DenialKind.EXEC)
            verdict = self._verdict(failure, said)
            if verdict is Unclear.ORDINARY:
                self._has_ordinary = True
            elif isinstance(verdict, Denial):
                self._add(verdict, is_kind_said=failure.kind is not None)
        self._has_unexplained |= any(
            failure is None and is_denial(1, [line.encode()]) for line, failure in lines
        )

    def result(self) -> tuple[Denial, ...]:
        """Return the denials that follow from the lines."""
        found = [denial for denial, _ in self._found.values()]
        if not found and self._ended.is_suspected and (self._has_unexplained or not self._has_ordinary):
            return (self._last_resort(),)
        return _bounded(_informative(sorted(found, key=lambda denial: not denial.is_certain)))

    def _add(self, denial: Denial, *, is_kind_said: bool) -> None:
        key = denial.target or denial.kind
        known = self._found.get(key)
        if known is not None:
            was, was_kind_said = known
            if (was_kind_said or not is_kind_said) and (was.is_certain or not denial.is_certain):
                self._found[key] = with_wider_grant(was, denial), was_kind_said
                return
            denial = with_wider_grant(denial, was)
        self._found[key] = denial, is_kind_said

    def _last_resort(self) -> Denial:
        """Return a denial for output with the reference's words but no target."""
        texts = " ".join(said.text.lower() for said in self._ended.said)
        if self._ended.exit_code == SIGSYS_STATUS:
            kind = DenialKind.SYSCALL
        elif "read-only file system" in texts or "failed to write file" in texts:
            kind = DenialKind.WRITE
        else:
            kind = DenialKind.READ if "permission denied" in texts else DenialKind.SYSCALL
        return Denial(kind, None, None, is_certain=False)

    # --- verdicts -----------------------------------------------------------

    def _verdict(self, failure: NamedFailure, said: Said) -> Denial | Unclear:
        match failure.kind:
            case DenialKind.NETWORK:
                return self._network_verdict(failure)
            case DenialKind.SYSCALL:
                return self._call_verdict(failure, said)
        verdicts = [self._file_verdict(failure, name, said) for name in failure.names]
        for verdict in verdicts:
            if isinstance(verdict, Denial):
                return verdict
        if verdicts and all(verdict is Unclear.ORDINARY for verdict in verdicts):
            return Unclear.ORDINARY
        return self._guess(failure)

    def _network_verdict(self, failure: NamedFailure) -> Denial | Unclear:
        target = next(iter(failure.names), None)
        host = None if target is None else target.rpartition(":")[0] or target
        if self._policy is None:
            is_refused: bool | None = None
        elif failure.trouble is Trouble.UNRESOLVED:
            is_refused = self._policy.refuses_names()
        else:
            is_refused = self._policy.refuses_host(host)
        if is_refused is False:
            return Unclear.ORDINARY
        words = self._policy.network_words if self._policy is not None and is_refused else None
        target = target or self._invocation.host
        is_believed = not self._is_quoting and (
            target is not None if host is None else self._invocation.names_host(host)
        )
        return Denial(DenialKind.NETWORK, target, words, is_certain=bool(words) and is_believed)

    def _call_verdict(self, failure: NamedFailure, said: Said) -> Denial:
        (call,) = failure.names
        is_refused = self._policy is not None and self._policy.refuses_call(call)
        words = CALL_WORDS if is_refused else None
        is_believed = said.is_stderr and not self._is_quoting and self._invocation.runs(failure.speaker)
        return Denial(DenialKind.SYSCALL, call, words, is_certain=is_refused and is_believed)

    def _file_verdict(self, failure: NamedFailure, name: str, said: Said) -> Denial | Unclear:
        path = self._invocation.absolute(name)
        if self._policy is None or path is None or not _is_path(path):
            return Unclear.UNKNOWN
        found = self._resolve(path)
        if any(self._policy.is_private(each.real) for each in found):
            return Unclear.ORDINARY
        refused = _refused_by(self._policy, failure, found)
        if refused is not None:
            kind, ruling, at = refused
            is_believed = not self._is_quoting and self._invocation.names(name, is_exact=not said.is_stderr)
            # The command must not learn whether anything is hidden at a path, so don't report it.
            is_certain = is_believed and failure.trouble is not Trouble.MISSING
            grant = ruling.grant(kind, at.real, is_in_place=failure.is_in_place and at.is_there)
            if failure.is_hard_link:
                # Perhaps the file lies on the same mount then, and perhaps not.
                grant = None
            return Denial(kind, _shown(path), ruling.words, is_certain=is_certain, grant=grant)
        is_allowed = failure.trouble not in (Trouble.READ_ONLY, Trouble.NOT_PERMITTED) and all(
            self._policy.at(each.real) is not None for each in found
        )
        return Unclear.ORDINARY if is_allowed else Unclear.UNKNOWN

    def _guess(self, failure: NamedFailure) -> Denial | Unclear:
        """Guess the denial behind a failure that the reference takes for one."""
        name = next((name for name in failure.names if "/" in name or self._invocation.names(name)), None)
        match failure.trouble:
            case Trouble.READ_ONLY:
                kind = DenialKind.WRITE
            case Trouble.REFUSED:
                kind = failure.kind or DenialKind.READ
            case Trouble.NOT_PERMITTED:
                # Mounts and Landlock refuse files in other words: a name here may be a signal's target or a
                # word of a shell.
                kind = failure.kind or DenialKind.SYSCALL
                name = None if kind is DenialKind.SYSCALL else name
            case _:
                return Unclear.UNKNOWN
        return Denial(kind, name if name is not None and _is_path(name) else None, None, is_certain=False)


def _refused_by(
    policy: Policy, failure: NamedFailure, found: Sequence[Resolution]
) -> tuple[DenialKind, Ruling, Resolution] | None:
    """Return what refuses an access to a path, if the failure is a consequence of that refusal.

    A read-only path answers EROFS, a denied one EACCES, or ENOENT where nothing is shown at all. A mount
    point can't be moved, and where nothing may be created, something already exists.
    """
    for at in found:
        ruling = policy.at(at.real)
        match failure.trouble:
            case Trouble.READ_ONLY if ruling is not None and ruling.refuses(DenialKind.WRITE):
                return DenialKind.WRITE, ruling, at
            case Trouble.REFUSED | Trouble.MISSING if ruling is not None and ruling.access is Access.DENY:
                return failure.kind or DenialKind.READ, ruling, at
            case Trouble.BUSY if (fixed := policy.fixed(at.real)) is not None:
                return DenialKind.WRITE, fixed, at
            case Trouble.EXISTS if (held := policy.held(at.real)) is not None:
                return DenialKind.WRITE, held, at
    return None


def _is_path(text: str) -> bool:
    # Invalid UTF-8 has become this character, and the original bytes are lost.
    return len(text) <= PATH_LIMIT and "\0" not in text and "\N{REPLACEMENT CHARACTER}" not in text


def _shown(path: str) -> str:
    # The name before `..` may be a link.
    return path if ".." in path.split("/") else clean(path)


def _informative(denials: Sequence[Denial]) -> Iterator[Denial]:
    """Leave out denials that only repeat another less precisely, and are not more certain."""
    exact = [denial for denial in denials if denial.target is not None]
    return (
        denial
        for denial in denials
        if denial.target is not None
        or not any(other.kind is denial.kind and other.is_certain >= denial.is_certain for other in exact)
    )


def _bounded(denials: Iterable[Denial]) -> tuple[Denial, ...]:
    counts: dict[str | None, int] = {}
    kept = []
    for denial in denials:
        counts[denial.rule] = counts.get(denial.rule, 0) + 1
        if counts[denial.rule] <= DENIALS_PER_RULE:
            kept.append(denial)
    return tuple(kept[:DENIALS_LIMIT])
