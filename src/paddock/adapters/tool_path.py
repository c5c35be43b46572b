"""What Claude Code's tools for files may mean by the names in their arguments.

Claude Code reads names in more than one way, by tool and version. This returns every place that one may lead
to: whoever judges a call judges all of them.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterable, Mapping
from typing import Any, Final

from paddock.adapters.planned_access import is_own_place
from paddock.fs.way import way_of

_PATH: Final = "path"
"""What the names of arguments have in them that are paths, in any case."""

_MAGIC: Final = re.compile(r"[*?\[\]{}()!+@]")
_ELSEWHERE: Final = re.compile(r"\.\.|[{(,|][/~]")
"""What may lead out of the directory in which a pattern begins."""

_BLANKS: Final = "\t\n\v\f\r \u00a0\u1680\u2028\u2029\u202f\u205f\u3000\ufeff" + "".join(
    map(chr, range(0x2000, 0x200B))
)
"""What JavaScript cuts off at both ends of a text (ECMA-262, TrimString)."""


def other_paths(input: Mapping[str, Any], argument: str) -> list[str]:
    """Return the other arguments that may name a file: another version of the tool may have its own."""
    return [
        str(value) for name, value in input.items() if name != argument and _PATH in name.lower() and value
    ]


def places(names: Iterable[str], cwd: str) -> Iterable[str]:
    """Return the paths without links to judge for a name. Raises OSError and ValueError.

    Some tools hand a name to the kernel as it is. Others cut off blanks, take `~` for the home directory,
    leave out `..` and what is in front of it, even a link, and compose letters with their marks.
    """
    found = []
    for name in names:
        written = os.path.join(cwd, name)
        text = name.strip(_BLANKS)
        at_home = os.path.expanduser(text) if text == "~" or text.startswith("~/") else text
        tidied = unicodedata.normalize("NFC", os.path.normpath(os.path.join(cwd, at_home)))
        found += [written, os.path.normpath(written), tidied]
    return dict.fromkeys(place for path in found for place in _judged(path))


def _judged(path: str) -> list[str]:
    """Return where a path leads, and each place on the way that may be another one for each process."""
    way = [os.fsdecode(passed) for passed in way_of(os.fsencode(path), _link_at)]
    return [*filter(is_own_place, way[:-1]), way[-1]]


def _link_at(path: bytes) -> bytes | None:
    try:
        return os.readlink(path)
    except OSError:
        return None


def split_pattern(pattern: str) -> tuple[str, str]:
    """Return the directory in which a pattern begins, and the rest of it."""
    found = _MAGIC.search(pattern)
    begin = pattern if found is None else pattern[: found.start()]
    end = begin.rfind("/") + 1
    return pattern[:end], pattern[end:]


def may_lead_out(rest: str) -> bool:
    """Return whether the rest of a pattern may lead out of the directory in which it begins."""
    return _ELSEWHERE.search(rest) is not None
