"""Searches with ripgrep, with options that make it do exactly what `search` does without it.

The program is the system's (`own_program`) and never comes from the searched directory: a repository must not
supply the program that searches it. It reads no configuration and no input, and ends with the search.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import threading
from contextlib import suppress
from typing import IO

from paddock import own_program
from paddock.errors import OperationFailed
from paddock.fs.failure import no_thread
from paddock.fs.match_collector import MatchCollector, is_binary
from paddock.fs.operation import Search
from paddock.fs.pattern import translate
from paddock.own_program import ROOT, Program, own_environment

MAX_ERROR_BYTES = 16 * 1024

_ARGUMENTS = (
    "--json",
    "--no-config",
    "--no-ignore",
    "--text",
    "--encoding=none",
    "--no-unicode",
    "--sort=path",
)


def find_ripgrep(root: bytes) -> Program | None:
    """Return the program; None if none exists outside the searched directory and the working directory.

    Raises OperationFailed when the search for it fails.
    """
    forbidden = [os.fsdecode(root)]
    with suppress(FileNotFoundError):
        forbidden.append(os.getcwd())
    try:
        found = own_program.find("rg", own_program.search_path())
    except OSError as error:
        raise OperationFailed(f"can't look for ripgrep to search: {error.strerror}") from error
    return next(own_program.outside(found.system, forbidden), None)


def search_with(program: Program, operation: Search, root: bytes, collector: MatchCollector) -> None:
    """Search, and add the matches. Raises OperationFailed if the program does not work."""
    with _started(program, [b"rg", *_arguments(operation), b"--", root]) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        # When the program ends, at whatever moment, so does the reading of its output.
        timer = threading.Timer(collector.left_s, process.kill)
        complaints = _Complaints(process.stderr)
        try:
            _start(timer, complaints)
            binary: dict[bytes, bool] = {}
            for line in process.stdout:
                event = json.loads(line)
                if event["type"] != "match":
                    continue
                data = event["data"]
                path = _bytes_of(data["path"])
                if path not in binary:
                    binary = {path: is_binary(path)}
                if not binary[path]:
                    start = data["submatches"][0]["start"]
                    collector.add_line(path, data["line_number"], _bytes_of(data["lines"]), start)
                if collector.is_over:
                    break
        finally:
            timer.cancel()
            process.kill()
            if complaints.ident is not None:
                complaints.join()
    if collector.is_over:
        return
    if process.returncode < 0:
        collector.truncate()
    elif process.returncode == 2 and not (complaints.lines and complaints.lines[0].startswith("/")):
        # The program reports each path that it can't read, and a name may go on in the next line. Before any
        # search it reports what is wrong with its arguments; this failure has such a cause.
        raise OperationFailed(f"ripgrep failed: {' '.join(complaints.lines)}")
    for complaint in complaints.lines:
        collector.fail_text(complaint)


def _started(program: Program, command: list[bytes]) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            command,
            executable=program.command,
            pass_fds=(program.fd,),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=ROOT,
            env=own_environment(),
        )
    except OSError as error:
        raise OperationFailed(f"can't start ripgrep to search: {error.strerror}") from error


def _start(*threads: threading.Thread) -> None:
    try:
        for thread in threads:
            thread.start()
    except RuntimeError as error:
        raise no_thread() from error


class _Complaints(threading.Thread):
    """Reads ripgrep's standard error, where some versions put their name before each line."""

    def __init__(self, source: IO[bytes]) -> None:
        super().__init__(daemon=True)
        self._source = source
        self.lines: list[str] = []

    def run(self) -> None:
        text = self._source.read(MAX_ERROR_BYTES)
        while self._source.read(MAX_ERROR_BYTES):
            pass
        self.lines = [line.removeprefix("rg: ") for line in os.fsdecode(text).split("\n") if line]


def _arguments(operation: Search) -> list[bytes]:
    arguments = [argument.encode() for argument in _ARGUMENTS]
    arguments.append(b"--max-filesize=%d" % operation.max_file_bytes)
    if operation.is_hidden_included:
        arguments.append(b"--hidden")
    arguments.append(b"--case-sensitive" if operation.is_case_sensitive else b"--ignore-case")
    # In one argument, so that a pattern that begins with a dash is no option.
    arguments.append(b"--regexp=" + translate(operation.pattern, is_regex=operation.is_regex))
    return arguments


def _bytes_of(value: dict[str, str]) -> bytes:
    """Return the bytes of a path or a line, which ripgrep encodes in base64 if it is not UTF-8."""
    if "text" in value:
        return value["text"].encode("utf-8")
    return base64.b64decode(value["bytes"])
