"""`paddock mcp install`: tell an MCP client of `paddock mcp`."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from paddock.cli.exit_status import FAILURE
from paddock.cli.message import tell
from paddock.cli.options import Verbs, add_verb
from paddock.errors import LocalFileError, PaddockError

DESCRIPTION = """\
Add `paddock mcp` to the servers of an MCP client. First show how the client's configuration would
change, and ask. Everything that is there stays.
"""

EXAMPLES = """\
examples:
  paddock mcp install --client claude-code
  paddock mcp install --client codex --workspace ~/project
  paddock mcp install --client vscode --yes            write without asking

exit status:
  0 if the client knows it now, 1 if nothing was changed.
"""

CLIENT_NAMES = ("claude-code", "claude-desktop", "codex", "cursor", "gemini", "vscode", "windsurf")
"""Those of `paddock.mcp_server.client_config`, which is not loaded for the help."""


def add_parser(verbs: Verbs) -> None:
    """Declare the verb."""
    parser = add_verb(
        verbs, "install", run, help="add it to a client", description=DESCRIPTION, examples=EXAMPLES
    )
    parser.add_argument("--client", choices=CLIENT_NAMES, required=True, help="which client")
    parser.add_argument(
        "--workspace",
        metavar="DIR",
        help="what commands may write (default: the directory that the client names)",
    )
    parser.add_argument("--yes", action="store_true", help="write without asking")


def run(arguments: argparse.Namespace) -> int:
    """Show the difference, and write."""
    from paddock.mcp_server.client_config import CLIENTS, expanded, with_entry

    kind = CLIENTS[arguments.client]
    # A link, as people have from a repository of such files, stays one.
    path = Path(os.path.realpath(expanded(kind.path, os.environ, str(Path.home()))))
    before = _read(path)
    try:
        after = with_entry(kind, before or "", _command(arguments.workspace))
    except PaddockError as error:
        raise PaddockError(f"{path}: {error}") from error
    if after == before:
        print(f"{path} has it already")
        return 0
    _show(path, before or "", after)
    if not arguments.yes and not _is_wanted(path):
        tell("nothing was changed", "mcp install")
        return FAILURE
    _write(path, before, after)
    print(f"{kind.title} knows paddock now; start it again")
    return 0


def _command(workspace: str | None) -> list[str]:
    program = os.path.abspath(sys.argv[0])
    is_ours = os.path.basename(program) == "paddock" and os.access(program, os.X_OK)
    command = [program] if is_ours else [sys.executable, "-P", "-m", "paddock"]
    if workspace is None:
        return [*command, "mcp"]
    directory = os.path.realpath(os.path.expanduser(workspace))
    if not os.path.isdir(directory):
        raise PaddockError(f"the workspace {directory} is not a directory")
    return [*command, "mcp", "--workspace", directory]


def _read(path: Path) -> str | None:
    """Return what is in a file, None if there is none."""
    try:
        return path.read_bytes().decode()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise LocalFileError(str(path), error) from error
    except UnicodeDecodeError as error:
        raise PaddockError(f"{path} is not UTF-8 text; nothing was changed") from error


def _show(path: Path, before: str, after: str) -> None:
    from difflib import unified_diff

    name = str(path)
    for line in unified_diff(before.splitlines(), after.splitlines(), name, name, lineterm=""):
        print(line)


def _is_wanted(path: Path) -> bool:
    if not sys.stdin.isatty():
        tell("there is nobody to ask; give --yes to write it", "mcp install")
        return False
    return input(f"write {path}? [y/N] ").strip().lower() in ("y", "yes")


def _write(path: Path, before: str | None, after: str) -> None:
    """Replace the file as a whole, unless somebody has changed it meanwhile."""
    import tempfile

    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        mode = 0o600 if before is None else path.stat().st_mode & 0o777
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with open(descriptor, "wb") as file:
                file.write(after.encode())
                os.fchmod(file.fileno(), mode)
                file.flush()
                os.fsync(file.fileno())
            if _read(path) != before:
                raise PaddockError(f"{path} has changed in the meantime; nothing was written, try again")
            os.replace(name, path)
        except BaseException:
            os.unlink(name)
            raise
    except OSError as error:
        raise LocalFileError(str(path), error) from error
