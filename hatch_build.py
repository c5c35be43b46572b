"""Build hook: compiles native/ into the package.

Most results are executables which the package runs as separate processes, and a library that one of
them loads. The hook promises that each is there and newer than its sources, or that the build fails
with one sentence saying why. Extension modules only make the package faster: where
they cannot be made, a warning says why, and none of older sources stays behind. They are
of the stable ABI, so that a wheel with them serves every later version of Python. The
hook knows nothing about what the C does.

Run as a script it only compiles; `make native` does this.
"""

import os
import shlex
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


@dataclass(frozen=True)
class Program:
    """One executable or module: a source that includes the headers beside it, and flags of its own."""

    source: Path
    binary: Path
    flags: tuple[str, ...] = ()

    @property
    def needs_static_library(self) -> bool:
        """Whether libc.a goes into it, which not every host with a compiler has."""
        return "-static" in self.flags and "-nostdlib" not in self.flags


_BARE_FLAGS = (
    "-nostdlib",
    "-ffreestanding",
    # A variable of a thread, as which it is usually kept, is one that the C library sets up.
    "-mstack-protector-guard=global",
    # The checks are functions of the C library.
    "-U_FORTIFY_SOURCE",
)
# Where native/bare.h takes its place, for the library takes longer to start than the program to run.
_FLAGS_OF_MACHINE = _BARE_FLAGS if sysconfig.get_platform() == "linux-x86_64" else ()
_LIBRARY_FLAGS = ("-fPIC", "-shared", "-fvisibility=hidden", *_FLAGS_OF_MACHINE)

PROGRAMS = (
    # Static, so that a wheel serves hosts with an older C library than that of its build.
    Program(Path("native/spawner.c"), Path("src/paddock/native/paddock-spawner"), ("-static",)),
    # Static, because it runs where the C library of the host may not be in sight.
    Program(Path("native/init.c"), Path("src/paddock/native/paddock-init"), ("-static", *_FLAGS_OF_MACHINE)),
    # Static, for the same reason.
    Program(Path("native/stub.c"), Path("src/paddock/native/paddock-stub"), ("-static", *_FLAGS_OF_MACHINE)),
    Program(
        Path("native/execve_wrapper.c"),
        Path("src/paddock/native/paddock-execve-wrapper"),
        ("-static", *_FLAGS_OF_MACHINE),
    ),
    # Static, because they start faster.
    Program(Path("native/leader.c"), Path("src/paddock/native/paddock-leader"), ("-static",)),
    Program(Path("native/janitor.c"), Path("src/paddock/native/paddock-janitor"), ("-static",)),
    # A library, because it is for a process that is there already.
    Program(Path("native/worker.c"), Path("src/paddock/native/paddock-worker.so"), _LIBRARY_FLAGS),
)

_HEADERS = Path(sysconfig.get_path("include"))
# As headers of the system: a warning in them is not ours, and would be an error.
_MODULE_FLAGS = ("-fPIC", "-shared", "-fvisibility=hidden", "-isystem", str(_HEADERS))

MODULES = (
    Program(Path("native/frames.c"), Path("src/paddock/transport/_frames.abi3.so"), _MODULE_FLAGS),
    Program(Path("native/scanner.c"), Path("src/paddock/protocol/_scanner.abi3.so"), _MODULE_FLAGS),
    Program(Path("native/status.c"), Path("src/paddock/fs/_status.abi3.so"), _MODULE_FLAGS),
    Program(Path("native/linkless.c"), Path("src/paddock/sandbox/host/_linkless.abi3.so"), _MODULE_FLAGS),
)
MODULES_FROM = "cp311"
"""The version of Python whose stable ABI they are of: Py_LIMITED_API in their sources."""

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
    """Something could not be made; an older one, if any, is still in place."""


def compile_native(root: Path, into: Path | None = None) -> bool:
    """Make everything from the sources in `root` that is not there or older than these and the flags.

    The results go to their places in the same tree, or in another that is named by `into`.
    Tells whether the modules are there. Raises NativeBuildError for a program.
    """
    into = into or root
    for program in PROGRAMS:
        _compile(root, program, into)
    try:
        _compile_modules(root, into)
    except NativeBuildError as problem:
        sys.stderr.write(f"warning: {problem}. The server will take longer for each request\n")
        for module in MODULES:
            # One of older sources need not fit the Python that calls it.
            (into / module.binary).unlink(missing_ok=True)
        return False
    return True


def _compile_modules(root: Path, into: Path) -> None:
    if not (_HEADERS / "Python.h").is_file():
        raise NativeBuildError(
            f"Python's headers are not in {_HEADERS}; "
            "install python3-dev (Debian) or python3-devel (Fedora), of the version that is used"
        )
    for module in MODULES:
        _compile(root, module, into)


def _compile(root: Path, program: Program, into: Path) -> None:
    source, binary = root / program.source, into / program.binary
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
            "its messages are above" + (_STATIC_HINT if program.needs_static_library else "")
        ) from error
    finally:
        unfinished.unlink(missing_ok=True)


class NativeBuildHook(BuildHookInterface[Any]):
    """Compiles before a wheel or an editable install is made; a source distribution needs no compiler.

    A wheel can be made from a tree that its user can't write: the results are somewhere else then.
    """

    _elsewhere: TemporaryDirectory[str] | None = None

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and tag the wheel with the platform and the ABI of its modules, if it has some."""
        if self.target_name != "wheel":
            return
        try:
            if version == "editable" or _is_writable(Path(self.root)):
                has_modules = compile_native(Path(self.root))
            else:
                has_modules = self._compile_elsewhere(build_data)
        except NativeBuildError as error:
            # The frontend prints the traceback of any other exception.
            raise SystemExit(f"error: {error}") from None
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["pure_python"] = False
        build_data["tag"] = f"{MODULES_FROM}-abi3-{platform}" if has_modules else f"py3-none-{platform}"

    def _compile_elsewhere(self, build_data: dict[str, Any]) -> bool:
        root = Path(self.root)
        results = [root / program.binary for program in (*PROGRAMS, *MODULES)]
        if any(result.exists() for result in results):
            newest_ns = max(path.stat().st_mtime_ns for path in (root / "native").glob("*.[ch]"))
            if all(result.exists() and result.stat().st_mtime_ns > newest_ns for result in results):
                return True
            # They would go into the wheel beside the new ones.
            raise NativeBuildError(
                f"{root} has programs that are older than their sources, and can't be written; "
                "ask its owner to run `make native`, or install from a copy"
            )
        self._elsewhere = TemporaryDirectory(prefix="paddock-build-")
        into = Path(self._elsewhere.name)
        has_modules = compile_native(root, into)
        for program in (*PROGRAMS, *MODULES):
            if (into / program.binary).exists():
                inside = program.binary.relative_to("src")
                build_data["force_include"][str(into / program.binary)] = str(inside)
        return has_modules

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what was made outside of the tree."""
        if self._elsewhere is not None:
            self._elsewhere.cleanup()


def _is_writable(root: Path) -> bool:
    places = (root / program.binary.parent for program in (*PROGRAMS, *MODULES))
    return all(os.access(place if place.exists() else place.parent, os.W_OK) for place in places)


if __name__ == "__main__":
    try:
        compile_native(Path(__file__).resolve().parent)
    except NativeBuildError as error:
        sys.exit(f"error: {error}")
