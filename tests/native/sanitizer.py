"""Compiles C with the sanitizers of addresses and of undefined behaviour, and runs the drivers made of it.

A driver (harness.h) gives one parser of native/ one input after the other. Whatever a sanitizer finds ends
it; the input is then in the failure.
"""

from __future__ import annotations

import functools
import os
import platform
import shlex
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

HERE = Path(__file__).parent
NATIVE = HERE.parent.parent / "native"

DRIVERS: tuple[str, ...] = (
    "frames",
    "scan",
    "values",
    "spawner",
    "init",
    "janitor",
    "stub",
    "wrapper",
    "text",
)
"""Of each there is a `NAME_driver.c`."""
if platform.machine() == "x86_64":
    # Other machines have the C library.
    DRIVERS = (*DRIVERS, "bare")

SANITIZED = (
    "-std=gnu11",
    "-O1",
    "-g",
    "-Wall",
    "-Wextra",
    "-Werror",
    # A driver calls only a part of what it includes.
    "-Wno-unused-function",
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover=all",
    "-fno-omit-frame-pointer",
    # GCC 12 leaves out the check of what `read_number` reads where it is inlined.
    "-fno-inline",
)

OPTIONS = {
    # What a program keeps until it ends is not lost.
    "ASAN_OPTIONS": "detect_leaks=0:detect_stack_use_after_return=1:strict_string_checks=1",
    "UBSAN_OPTIONS": "print_stacktrace=1:abort_on_error=1",
}

COMPILER = shlex.split(os.environ.get("CC") or "cc")


@dataclass(frozen=True)
class Failure:
    """What ended a driver."""

    input: bytes
    text: str


def compile_sanitized(*arguments: str | Path) -> None:
    """Run the compiler with the sanitizers."""
    command = [*COMPILER, *SANITIZED, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@functools.cache
def sanitizer_flaw() -> str | None:
    """Say why nothing can be compiled with sanitizers here; None if it can."""
    with tempfile.TemporaryDirectory() as directory:
        source = Path(directory, "empty.c")
        source.write_text("#include <sanitizer/common_interface_defs.h>\nint main(void) { return 0; }\n")
        command = [
            *COMPILER,
            *SANITIZED,
            "-fsanitize-coverage=trace-pc",
            "-c",
            str(source),
            "-o",
            f"{source}.o",
        ]
        # Who covers a program has to be there; that is the engine, and not here.
        linking = [*COMPILER, *SANITIZED, str(source), "-o", f"{source}.out"]
        try:
            for step in (command, linking, [f"{source}.out"]):
                subprocess.run(step, capture_output=True, check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            return f"the compiler's address sanitizer is missing: {error}"
    return None


needs_sanitizers = pytest.mark.skipif(
    sanitizer_flaw() is not None, reason="the compiler's address sanitizer (libasan) is missing"
)


def _in_memory() -> str | None:
    """Where files are made and removed ten times as fast, if there is such a place."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK | os.X_OK) else None


def build_driver(name: str, directory: Path, *, native: Path = NATIVE) -> Path:
    """Make a driver, of the sources of native/ or of a copy of them; the engine once in a directory."""
    engine, driver = directory / "engine.o", directory / f"{name}_driver"
    if not engine.exists():
        compile_sanitized("-c", HERE / "engine.c", "-o", engine)
    source = HERE / f"{name}_driver.c"
    compile_sanitized(
        "-fsanitize-coverage=trace-pc", f"-I{native}", f"-I{HERE}", source, engine, "-o", driver
    )
    return driver


def run_driver(
    driver: Path, seeds: Mapping[str, bytes], directory: Path, *, count: int, seed: int = 0
) -> Failure | None:
    """Try inputs and so many changed ones. Give what failed, if anything did."""
    files, failed = directory / "seeds", directory / "failed-input"
    files.mkdir(exist_ok=True)
    for name, data in seeds.items():
        (files / name).write_bytes(data)
    command: list[str | Path] = [driver, str(seed), str(count), failed, *sorted(files.iterdir())]
    with tempfile.TemporaryDirectory(dir=_in_memory()) as scratch:
        done = subprocess.run(
            command,
            env={"PATH": os.defpath, "SCRATCH": scratch, **OPTIONS},
            capture_output=True,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    if done.returncode == 0:
        return None
    data = failed.read_bytes() if failed.exists() else b""
    return Failure(data, done.stderr.decode(errors="replace"))
