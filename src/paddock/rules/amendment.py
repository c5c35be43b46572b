"""Adds an "always" to a file of rules.

Appends one line for one prefix of a command, or for one host, under a lock and never twice. Refuses
prefixes that would allow nearly anything - a shell, an interpreter, `sudo`: a user who wants such a
rule writes it by hand.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import stat
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from paddock.errors import AmendmentRefused, RulesError
from paddock.model.decision import Action
from paddock.model.endpoint import NetworkProtocol
from paddock.rules.network import RULE_PROTOCOLS
from paddock.rules.program_kind import (
    BROAD,
    INTERPRETERS,
    LAUNCHERS,
    OPEN_ENDED,
    PRIVILEGED,
    SCRIPT_RUNNER_VERBS,
    SCRIPT_RUNNERS,
    SHELLS,
)

_VERSION = re.compile(r"[-.\d]+$")
"""At the end of a program's name: `python3.12`, `lua5.4`."""

_CODE_FLAG = re.compile(r"-[a-zA-Z]*[cem]|--command|--eval|--module")
"""The next word is code, or a module: `bash -lc`, `perl -pe`, `python -m`."""

JUSTIFICATION_LIMIT = 500
"""Most characters of a justification."""

_BEFORE_PROGRAM = re.compile(r"\w+=.*|\d+[smhd]?", re.DOTALL)
"""Of a launcher: `env A=b make`, `timeout 5s make`."""


def rule_line(prefix: Sequence[str]) -> str:
    """Return the line that always allows commands which begin like this."""
    pattern = ", ".join(json.dumps(word, ensure_ascii=False) for word in prefix)
    return f'prefix_rule(pattern=[{pattern}], decision="allow")'


def check_prefix(prefix: Sequence[str]) -> None:
    """Raise AmendmentRefused if a prefix allows too much to be allowed for ever."""
    problem = _problem(prefix)
    if problem is not None:
        raise AmendmentRefused(prefix, problem)


def add_rule(path: Path, prefix: Sequence[str]) -> bool:
    """Allow commands that begin with `prefix` for ever. Return whether the file has changed.

    Makes the file and its directory if they are missing. Raises AmendmentRefused, and
    RulesError if the file can't be written.
    """
    check_prefix(prefix)
    line = rule_line(prefix)
    return _add_line(path, line, line)[1]


def add_host_rule(
    path: Path, host: str, protocol: NetworkProtocol, action: Action, justification: str | None = None
) -> int:
    """Decide on a host for ever, and return the number of the line that says so.

    The last rule about a host and protocol counts, so this appends the line unless the last one says the
    same. Raises RulesError.
    """
    about = f"network_rule(host={json.dumps(host)}, protocol={json.dumps(RULE_PROTOCOLS[protocol])}, "
    decision = "deny" if action is Action.FORBIDDEN else str(action)
    line = f"{about}decision={json.dumps(decision)}"
    if justification and justification.isprintable() and _is_text(justification):
        line += f", justification={json.dumps(justification[:JUSTIFICATION_LIMIT], ensure_ascii=False)}"
    return _add_line(path, f"{line})", about)[0]


def _add_line(path: Path, line: str, about: str) -> tuple[int, bool]:
    """Append a line, unless the last that begins with `about` is the same.

    Returns its number, and whether it was added. Raises RulesError.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Opening a fifo would wait for its writer.
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
        with open(os.open(path, flags, 0o600), "rb+", buffering=0) as file:
            # Other writers wait here; readers see the file with the whole line or without it.
            fcntl.flock(file, fcntl.LOCK_EX)
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise RulesError(f"can't add to {path}: it is not a regular file")
            text = file.readall()
            lines = re.split(r"\r?\n", text.decode())
            known = [number for number, each in enumerate(lines, 1) if each.startswith(about)]
            # A comment may follow.
            if known and lines[known[-1] - 1].startswith(line):
                return known[-1], False
            separator = "" if not text or text.endswith(b"\n") else "\n"
            _append(file.fileno(), f"{separator}{line}\n".encode(), len(text))
            return len(lines) + len(separator), True
    except UnicodeDecodeError as error:
        raise RulesError(f"{path} is not UTF-8 text; nothing was added") from error
    except OSError as error:
        raise RulesError(f"can't add to {path}: {error.strerror}") from error


def _append(descriptor: int, data: bytes, size_bytes: int) -> None:
    """Append to a file of this size, all or nothing: half a rule would break the whole file."""
    try:
        written = os.write(descriptor, data)
        if written < len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    except BaseException:
        os.ftruncate(descriptor, size_bytes)
        raise


def _problem(prefix: Sequence[str]) -> str | None:
    """Return why a prefix allows too much; None if it does not."""
    if not prefix or not prefix[0]:
        return "there is no program in it"
    if not all(_is_text(word) for word in prefix):
        return "a word of it is not UTF-8, and rules are text"
    program, *words = PurePosixPath(prefix[0]).name, *prefix[1:]
    family = _VERSION.sub("", program) or program
    # An option in front may take the next word as its value, and the deciding word comes only after that.
    begins_with_operand = bool(words) and not words[0].startswith("-")
    if program in PRIVILEGED:
        return f"{program} runs other programs with other rights"
    if program in OPEN_ENDED:
        return f"{program} runs any program that its further arguments name"
    if program in LAUNCHERS:
        return _launched_problem(program, words)
    if family in SCRIPT_RUNNERS and len(words) == 1 and words[0] in SCRIPT_RUNNER_VERBS:
        return f"`{program} {words[0]}` runs whatever a project calls by a name"
    if family in SHELLS | INTERPRETERS:
        has_code = len(words) > 1 and _CODE_FLAG.fullmatch(words[0])
        return None if begins_with_operand or has_code else f"{program} runs any code that it is given"
    if family in BROAD and not begins_with_operand:
        return f"{program} can mean anything without its next words"
    return None


def _is_text(word: str) -> bool:
    """Return whether a word is valid text: bytes that are not UTF-8 appear as lone surrogates (PEP 383)."""
    return not any("\ud800" <= character <= "\udfff" for character in word)


def _launched_problem(launcher: str, words: Sequence[str]) -> str | None:
    """Return why the program that a launcher runs allows too much."""
    rest = list(words)
    while rest and _BEFORE_PROGRAM.fullmatch(rest[0]):
        rest.pop(0)
    if not rest or rest[0].startswith("-"):
        return f"{launcher} runs any program that it is given"
    return _problem(rest)
