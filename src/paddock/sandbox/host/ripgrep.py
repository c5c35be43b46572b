"""Lists files with ripgrep, while somebody else looks at the rest of a tree.

ripgrep reads directories with several threads, but lists neither directories nor links. It only makes the
search faster and decides nothing: Paddock asks it for more than it wants, judges the answer again, and drops
an answer that is doubtful in any way, if only because a directory could not be read. The program comes from
the system's directories (`own_program`), never from where commands can write. It gets no configuration, no
input and no environment but ours, and opens nothing but directories.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Sequence
from typing import Final

from paddock import own_program
from paddock.own_program import Program, own_environment
from paddock.sandbox.profile.glob import Matcher, coarse_glob

PROGRAM: Final = "rg"

OUTPUT_LIMIT_BYTES: Final = 16 * 1024 * 1024
"""About 200 000 paths. Where patterns match that many, a listing gains nothing."""

_PREFIX: Final = "./"
_NOTHING_FOUND: Final = 1


class FileListing:
    """A running listing of the regular files below a directory that patterns match. `close` it."""

    def __init__(self, process: subprocess.Popen[bytes], rests: Sequence[str]) -> None:
        self._process = process
        self._matcher = Matcher(rests)

    def paths(self) -> list[str] | None:
        """Return all paths, relative to the directory; None if any might be missing. Call it once."""
        assert self._process.stdout is not None
        output = self._process.stdout.read(OUTPUT_LIMIT_BYTES)
        if self._process.stdout.read(1) or self._process.wait() not in (0, _NOTHING_FOUND):
            return None
        paths = (path.removeprefix(_PREFIX) for path in os.fsdecode(output).split("\0"))
        return [path for path in paths if path and self._matcher.matches(path)]

    def close(self) -> None:
        """End the program, if it still runs."""
        with self._process:
            self._process.kill()


def find(search_path: str, workspaces: Iterable[str]) -> Program | None:
    """Return the first ripgrep of the system on this PATH, outside the workspaces."""
    return next(own_program.outside(own_program.find(PROGRAM, search_path).system, workspaces), None)


def list_files(program: Program, top: str, rests: Sequence[str], max_depth: int | None) -> FileListing | None:
    """Start a listing; None if ripgrep would be no help."""
    globs = [coarse_glob(rest) for rest in rests]
    if None in globs:
        return None
    options = ["--no-config", "--files", "--hidden", "--no-ignore", "--null"]
    options += [f"--glob={glob}" for glob in globs]
    if max_depth is not None:
        options.append(f"--max-depth={max_depth}")
    try:
        process = subprocess.Popen(
            [PROGRAM, *options, "--", _PREFIX],
            executable=program.command,
            pass_fds=(program.fd,),
            # Globs that begin with a slash start here.
            cwd=top,
            env=own_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
    except OSError:
        return None
    return FileListing(process, rests)
