"""Finds the open question that the user means. Pure.

An operator may write the id of a question or the beginning of one.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from msgspec import Struct

from paddock.cli.exec_question import exec_summary
from paddock.errors import SelectionError
from paddock.model.control_address import ControlAddress
from paddock.protocol.control import OpenQuestion
from paddock.protocol.network import POLICY_REQUEST
from paddock.protocol.question import EXEC_APPROVAL

SHORT_ID_CHARS = 8


class Candidate(Struct, frozen=True):
    """A question, and where it is."""

    control: ControlAddress
    server_pid: int
    question: OpenQuestion

    @property
    def summary(self) -> str:
        """Return the question in one line; it may hold anything that a command wrote."""
        params = self.question.params
        match self.question.method, params:
            case str(method), {"program": str(program), "argv": list(argv), "cwd": str(cwd)} if (
                method == EXEC_APPROVAL
            ):
                return exec_summary(program, list(map(str, argv)), cwd)
            case str(method), {
                "request": {"host": str(host), "port": int(port), "protocol": str(protocol)}
            } if method == POLICY_REQUEST:
                return f"reach {host}:{port} ({protocol})"
        return json.dumps(params)


def select(candidates: Sequence[Candidate], wanted: str) -> Candidate:
    """Return the one question whose id is, or begins with, the given text. Raises SelectionError."""
    found = [
        candidate for candidate in candidates if wanted and candidate.question.question_id.startswith(wanted)
    ]
    exact = [candidate for candidate in found if candidate.question.question_id == wanted]
    if len(exact or found) == 1:
        return (exact or found)[0]
    if found:
        names = [candidate.question.question_id for candidate in found]
        raise SelectionError(f"{wanted!r} fits {len(found)} questions; name one of", names)
    raise SelectionError(f"no open question {wanted!r}; `paddock questions` lists them")


def short_names(candidates: Sequence[Candidate]) -> list[str]:
    """Return for each question a short name that `select` understands."""
    ids = [candidate.question.question_id for candidate in candidates]
    beginnings = [question_id[:SHORT_ID_CHARS] for question_id in ids]
    return [
        beginning if beginnings.count(beginning) == 1 else question_id
        for question_id, beginning in zip(ids, beginnings, strict=True)
    ]
