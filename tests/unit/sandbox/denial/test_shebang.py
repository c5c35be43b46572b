"""First lines of scripts, read as the kernel reads them: it is asked, too."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from paddock.sandbox.denial.shebang import HEAD_BYTES, Interpreter, interpreter_of


@pytest.mark.parametrize(
    ("head", "found"),
    [
        (b"", None),
        (b"#", None),
        (b"\x7fELF", None),
        (b" #!/bin/sh\n", None),
        (b"#!", None),
        (b"#!\n/bin/sh", None),
        (b"#! \t \n", None),
        (b"#!/bin/sh", Interpreter(b"/bin/sh")),
        (b"#! \t/bin/sh \t\n", Interpreter(b"/bin/sh")),
        (b"#!/usr/bin/env python3\n", Interpreter(b"/usr/bin/env", b"python3")),
        (b"#!/usr/bin/env\t-S  a  b \n", Interpreter(b"/usr/bin/env", b"-S  a  b")),
        (b"#!bin/sh\n", Interpreter(b"bin/sh")),
        (b"#!/bin/sh\0-x\n", Interpreter(b"/bin/sh")),
        (b"#!/bin/sh -x\0y\n", Interpreter(b"/bin/sh", b"-x")),
        (b"#!\0/bin/sh\n", None),
    ],
)
def test_the_interpreter_is_the_first_word(head: bytes, found: Interpreter | None) -> None:
    assert interpreter_of(head) == found


def heads(interpreter: bytes) -> list[bytes]:
    """Lines around every limit, with this interpreter."""
    lines = [
        b"#!" + interpreter,
        b"#!" + interpreter + b"\n",
        b"#!\t " + interpreter + b"  \t\n",
        b"#!" + interpreter + b" one two \n",
        b"#!" + interpreter + b"\tone\0two\n",
        b"#!" + interpreter + b"\0one\n",
        b"#!\n" + interpreter,
        b"#!   \n",
        b"#!",
    ]
    for length in range(HEAD_BYTES - 4, HEAD_BYTES + 3):
        blanks = length - len(interpreter) - 2
        lines.append(b"#!" + b" " * blanks + interpreter)
        lines.append(b"#!" + b" " * blanks + interpreter + b"\n")
        lines.append(b"#!" + b" " * blanks + interpreter + b" x\n")
        lines.append(b"#!" + interpreter + b" " + b"a" * (blanks - 1))
        lines.append(b"#!" + interpreter + b" " + b"a" * (blanks - 1) + b"\nrest")
    return lines


def test_the_kernel_agrees(tmp_path: Path) -> None:
    # A program that prints its arguments; a name of its own, so that it can't be taken for another.
    interpreter = tmp_path / "show"
    shutil.copy(shutil.which("echo") or "/bin/echo", interpreter)
    script = tmp_path / "script"
    for number, head in enumerate(heads(os.fsencode(interpreter))):
        script.write_bytes(head)
        script.chmod(0o755)
        found = interpreter_of(head)
        expected = None
        if found is not None and found.path == os.fsencode(interpreter):
            words = [found.argument] if found.argument is not None else []
            expected = b" ".join([*words, os.fsencode(script)]) + b"\n"
        assert output_of(script) == expected, (number, head)


def output_of(script: Path) -> bytes | None:
    """What the script prints; None if the kernel does not execute it."""
    try:
        return subprocess.run([str(script)], capture_output=True, check=True).stdout
    except OSError:
        return None
