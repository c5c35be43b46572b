"""Finds the process that the user means. Pure.

An operator may write a process id, the beginning of one, or `session/process` with the beginning of a session
id. An exact match wins over a prefix; a name that matches several processes is refused, with all of them
listed.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Sequence

from msgspec import Struct

from paddock.errors import SelectionError
from paddock.model.control_address import ControlAddress
from paddock.printable import printable
from paddock.protocol.control import ProcessStatus, ServerStatus, SessionStatus

LONG_ID_CHARS = 16
"""Ids over this length are shown by their beginning."""

SHORT_ID_CHARS = 12
SHORT_SESSION_CHARS = 8
NAMED_CANDIDATES = 10


class Candidate(Struct, frozen=True):
    """A process, and where it is."""

    control: ControlAddress
    server: ServerStatus
    session: SessionStatus
    process: ProcessStatus

    @property
    def long_name(self) -> str:
        """Return a name that fits no other process."""
        return f"{self.session.session_id}/{self.process.process_id}"


def select(candidates: Sequence[Candidate], wanted: str) -> Candidate:
    """Return the one process that a name fits. Raises SelectionError."""
    for fits in (_is_exactly, _is_in_session, _is_begun_in_session, _is_begun):
        found = [candidate for candidate in candidates if fits(candidate, wanted)]
        if len(found) == 1:
            return found[0]
        if found:
            names = [printable(candidate.long_name) for candidate in found[:NAMED_CANDIDATES]]
            if len(found) > NAMED_CANDIDATES:
                names.append(f"and {len(found) - NAMED_CANDIDATES} more")
            raise SelectionError(f"{wanted!r} fits {len(found)} processes; name one of", names)
    raise SelectionError(f"no process {wanted!r}; `paddock ps --all` lists those that are known")


def _is_exactly(candidate: Candidate, wanted: str) -> bool:
    process_id = candidate.process.process_id
    return wanted in (process_id, printable(process_id))


def _in_session(candidate: Candidate, wanted: str, fits: Callable[[str, str], bool]) -> bool:
    session, slash, process = wanted.partition("/")
    is_session = bool(slash and session) and candidate.session.session_id.startswith(session)
    return is_session and fits(candidate.process.process_id, process)


def _is_in_session(candidate: Candidate, wanted: str) -> bool:
    return _in_session(candidate, wanted, lambda known, process: process in (known, printable(known)))


def _is_begun_in_session(candidate: Candidate, wanted: str) -> bool:
    return _in_session(candidate, wanted, str.startswith)


def _is_begun(candidate: Candidate, wanted: str) -> bool:
    return bool(wanted) and candidate.process.process_id.startswith(wanted)


def short_names(candidates: Sequence[Candidate]) -> list[str]:
    """Return for each process a short name that `select` understands, fit to be shown."""
    ids = sorted(candidate.process.process_id for candidate in candidates)
    counts = Counter(ids)
    return [printable(_short_name(candidate, ids, counts)) for candidate in candidates]


def _short_name(candidate: Candidate, ids: list[str], counts: Counter[str]) -> str:
    process_id = candidate.process.process_id
    if counts[process_id] > 1 or not process_id:
        return f"{candidate.session.session_id[:SHORT_SESSION_CHARS]}/{process_id}"
    beginning = process_id[:SHORT_ID_CHARS]
    is_short = len(process_id) <= LONG_ID_CHARS or "/" in beginning or not beginning.isprintable()
    if is_short or beginning in counts:
        return process_id
    # Ids are sorted, so whatever else begins like this one stands next to it.
    index = bisect_left(ids, process_id)
    neighbours = ids[max(0, index - 1) : index] + ids[index + 1 : index + 2]
    return process_id if any(other.startswith(beginning) for other in neighbours) else beginning
