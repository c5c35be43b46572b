"""The extension modules, too, take damaged input without a fault that a sanitizer can see."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import hatch_build
from tests.native.sanitizer import COMPILER, OPTIONS, compile_sanitized, needs_sanitizers

REPOSITORY = Path(hatch_build.__file__).parent
COUNT = 10_000


@needs_sanitizers
@pytest.mark.skipif(not (hatch_build._HEADERS / "Python.h").is_file(), reason="Python's headers are missing")
def test_damaged_input_does_no_harm_to_python(tmp_path: Path) -> None:
    for module in hatch_build.MODULES:
        output = tmp_path / module.binary.name
        compile_sanitized(*module.flags, REPOSITORY / module.source, "-o", output)
    runtimes = [
        subprocess.run(
            [*COMPILER, f"-print-file-name={name}"], capture_output=True, text=True, check=True
        ).stdout.strip()
        for name in ("libasan.so", "libubsan.so")
    ]

    done = subprocess.run(
        [sys.executable, "-m", "tests.native.module_inputs", str(tmp_path), str(COUNT)],
        cwd=REPOSITORY,
        env={
            **os.environ,
            **OPTIONS,
            "LD_PRELOAD": " ".join(runtimes),
            # The sanitizer knows only what comes from malloc(3) itself.
            "PYTHONMALLOC": "malloc",
        },
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.stdout == "done\n", done.stderr
