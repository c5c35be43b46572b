"""Build hook: compiles native/ into the package.

The result is a plain executable which the package runs as a separate process,
so the wheel depends on the platform but on no Python ABI. The hook promises
that the executable is there and newer than its sources, or that the build
fails with one sentence saying why. It knows nothing about what the program does.

Run as a script it only compiles; `make native` does this.
"""

import os
import shlex
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_SOURCE = Path("native/spawner.c")
_BINARY = Path("src/paddock/native/paddock-spawner")
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


class NativeBuildError(Exception):
    """The executable could not be made; an older one, if any, is still in place."""


def compile_spawner(root: Path) -> None:
    """Make the executable under `root` unless it is there and newer than its sources and these flags."""
    source, binary = root / _SOURCE, root / _BINARY
    if not source.is_file():
        raise NativeBuildError(f"{_SOURCE} is missing, so paddock-spawner cannot be compiled")
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
        subprocess.run([*compiler, *_COMPILE_FLAGS, "-o", str(unfinished), str(source)], check=True)
        unfinished.replace(binary)
    except FileNotFoundError as error:
        raise NativeBuildError(
            f"C compiler {compiler[0]!r} is not installed; install gcc or clang, or set CC to a compiler"
        ) from error
    except subprocess.CalledProcessError as error:
        raise NativeBuildError(
            f"{shlex.join(compiler)} could not compile {_SOURCE} (exit status {error.returncode}); "
            "its messages are above"
        ) from error
    finally:
        unfinished.unlink(missing_ok=True)


class SpawnerBuildHook(BuildHookInterface[Any]):
    """Compiles before a wheel or an editable install is made; a source distribution needs no compiler."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and tag the wheel with the platform but without a Python ABI."""
        if self.target_name != "wheel":
            return
        try:
            compile_spawner(Path(self.root))
        except NativeBuildError as error:
            # The frontend prints the traceback of any other exception.
            raise SystemExit(f"error: {error}") from None
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform}"


if __name__ == "__main__":
    try:
        compile_spawner(Path(__file__).resolve().parent)
    except NativeBuildError as error:
        sys.exit(f"error: {error}")
