"""Build hook: compiles native/ into the package.

The results are plain executables which the package runs as separate processes,
so the wheel depends on the platform but on no Python ABI. The hook promises
that each is there and newer than its sources, or that the build fails with
one sentence saying why. It knows nothing about what the programs do.

Run as a script it only compiles; `make native` does this.
"""

import os
import shlex
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


@dataclass(frozen=True)
class Program:
    """One executable: a source that includes the headers beside it, and flags of its own."""

    source: Path
    binary: Path
    flags: tuple[str, ...] = ()


PROGRAMS = (
    Program(Path("native/spawner.c"), Path("src/paddock/native/paddock-spawner")),
    # Static, because it runs where the C library of the host may not be in sight.
    Program(Path("native/init.c"), Path("src/paddock/native/paddock-init"), ("-static",)),
    # Static, because it starts faster.
    Program(Path("native/janitor.c"), Path("src/paddock/native/paddock-janitor"), ("-static",)),
)
_COMPILE_FLAGS = (
    "-O2",
    "-std=gnu11",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-fstack-protector-strong",
    # Some distributions predefine another level, and redefining a macro is a warning, hence an error.
    "-U_FORTIFY_SOURCE",
    "-D_FORTIFY_SOURCE=2",
    "-Wl,-z,relro,-z,now",
)


_STATIC_HINT = (
    ". It is linked statically: if libc.a is missing, install libc6-dev (Debian) or glibc-static (Fedora), "
    "or set CC=musl-gcc"
)


class NativeBuildError(Exception):
    """The executable could not be made; an older one, if any, is still in place."""


def compile_programs(root: Path) -> None:
    """Make every executable under `root` that is not there or older than its sources and these flags."""
    for program in PROGRAMS:
        _compile(root, program)


def _compile(root: Path, program: Program) -> None:
    source, binary = root / program.source, root / program.binary
    if not source.is_file():
        raise NativeBuildError(f"{program.source} is missing, so {binary.name} cannot be compiled")
    inputs = [Path(__file__), *source.parent.glob("*.[ch]")]
    newest_input_ns = max(path.stat().st_mtime_ns for path in inputs)
    if binary.is_file() and binary.stat().st_mtime_ns > newest_input_ns:
        return
    binary.parent.mkdir(parents=True, exist_ok=True)
    # A server may be running the old executable, and open(2) for writing then
    # fails with ETXTBSY; rename(2) replaces the name and leaves the old file alone.
    unfinished = binary.with_name(f".{binary.name}.{os.getpid()}")
    compiler = shlex.split(os.environ.get("CC") or "cc")
    try:
        subprocess.run(
            [*compiler, *_COMPILE_FLAGS, *program.flags, "-o", str(unfinished), str(source)], check=True
        )
        unfinished.replace(binary)
    except FileNotFoundError as error:
        raise NativeBuildError(
            f"C compiler {compiler[0]!r} is not installed; install gcc or clang, or set CC to a compiler"
        ) from error
    except subprocess.CalledProcessError as error:
        raise NativeBuildError(
            f"{shlex.join(compiler)} could not compile {program.source} (exit status {error.returncode}); "
            "its messages are above" + (_STATIC_HINT if "-static" in program.flags else "")
        ) from error
    finally:
        unfinished.unlink(missing_ok=True)


class NativeBuildHook(BuildHookInterface[Any]):
    """Compiles before a wheel or an editable install is made; a source distribution needs no compiler."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and tag the wheel with the platform but without a Python ABI."""
        if self.target_name != "wheel":
            return
        try:
            compile_programs(Path(self.root))
        except NativeBuildError as error:
            # The frontend prints the traceback of any other exception.
            raise SystemExit(f"error: {error}") from None
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform}"


if __name__ == "__main__":
    try:
        compile_programs(Path(__file__).resolve().parent)
    except NativeBuildError as error:
        sys.exit(f"error: {error}")
