"""The blocks of code in a page of Markdown, and how they are run.

A block of `python` or `sh` is run; one of `output` right behind it is what it must
print. Blocks of one page share their names, as a reader who tries them in order would
have them. In a comment in front of a block,

    <!-- not run: REASON -->     leaves it out
    <!-- run after: CODE -->     runs Python first that is not shown
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import inspect
import io
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SHELL_TIMEOUT_S = 120.0

_BLOCK = re.compile(
    r"(?:^<!-- (?P<order>not run|run after):\s(?P<comment>(?:(?!-->).)*?)\s?-->\n+)?"
    r"^```(?P<language>python|sh)\n(?P<code>.*?)^```$"
    r"(?:\n+^```output\n(?P<output>.*?)^```$)?",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Block:
    """One block of code of a page."""

    page: Path
    line: int
    language: str
    code: str
    output: str | None
    """What it must print; None if the page does not say."""
    prelude: str = ""

    def run(self, names: dict[str, Any], directory: Path) -> str:
        """Run it in a directory; what it prints is returned."""
        if self.language == "sh":
            return _run_shell(self.code, directory)
        with contextlib.chdir(directory), contextlib.redirect_stdout(io.StringIO()) as printed:
            _run_python(self.prelude, "prelude", 0, names)
            _run_python(self.code, str(self.page), self.line, names)
        return printed.getvalue()


def blocks_in(page: Path) -> Iterator[Block]:
    """The blocks that are to be run, in order."""
    text = page.read_text(encoding="utf-8")
    for found in _BLOCK.finditer(text):
        if found["order"] == "not run":
            continue
        line = text.count("\n", 0, found.start("code"))
        prelude = found["comment"] if found["order"] == "run after" else ""
        yield Block(page, line, found["language"], found["code"], found["output"], prelude)


def _run_python(code: str, name: str, line: int, names: dict[str, Any]) -> None:
    # `await` and `async with` outside of a function, as in `python -m asyncio`. Blank lines in front make
    # a traceback point into the page.
    compiled = compile("\n" * line + code, name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    result = eval(compiled, names)
    if inspect.iscoroutine(result):
        asyncio.run(result)


def _run_shell(code: str, directory: Path) -> str:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", code],
        cwd=directory,
        env=os.environ | {"PATH": path},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        timeout=SHELL_TIMEOUT_S,
        check=True,
    )
    return done.stdout
