"""`paddock run -- COMMAND` imports what it takes to start one command, and no more."""

from __future__ import annotations

import subprocess
import sys
from fnmatch import fnmatch

from tests.operators import PATIENCE_S

UNNEEDED = (
    "argparse",
    "base64",
    "concurrent.futures.thread",
    "dataclasses",
    "datetime",
    "hashlib",
    "inspect",
    "ipaddress",
    "locale",
    "msgspec.inspect",
    "paddock.adapters*",
    "paddock.agent*",
    "paddock.audit*",
    "paddock.client.confinement",
    "paddock.client.files",
    "paddock.client.remote_path",
    "paddock.client.watch",
    "paddock.client.workspace",
    "paddock.fetch*",
    "paddock.fs.local",
    "paddock.fs.perform",
    "paddock.fs.remote",
    "paddock.intercept*",
    "paddock.network.gateway",
    "paddock.network.policy",
    "paddock.protocol.discovery",
    "paddock.protocol.fetch",
    "paddock.protocol.fs",
    "paddock.protocol.text",
    "paddock.protocol.watch",
    "paddock.rules*",
    "paddock.sandbox.denial*",
    "paddock.sandbox.enforce*",
    "paddock.sandbox.host*",
    "paddock.sandbox.launch",
    "paddock.sandbox.plan*",
    "paddock.server.file_workers",
    "paddock.server.handlers.fs",
    "paddock.server.http*",
    "paddock.server.listen_policy",
    "paddock.server.sandboxes",
    "paddock.server.session_audit",
    "paddock.server.warm_sandboxes",
    "paddock.sync*",
    "paddock.transport.websocket",
    "pathlib",
    "pybase64",
    "random",
    "ssl",
    "termios",
    "textwrap",
    "tokenize",
    "urllib.parse",
    "uvloop",
)
"""What it did import, or might: each of these is for another use, and has its time where that is wanted."""

SCRIPT = """\
import sys
sys.argv = ["paddock", "run", "--", "true"]
from paddock.cli.main import main
status = main()
from paddock.cli.late_import import LateModule
names = [name for name, module in sys.modules.items() if type(module) is not LateModule]
print(status, *names)
"""


def test_a_command_loads_nothing_that_only_others_need() -> None:
    # What `site` imports for the packages of this environment is not Paddock's doing.
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path[:] = {sys.path!r}\n{SCRIPT}"],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        stdin=subprocess.DEVNULL,
        check=True,
    )
    status, *names = done.stdout.splitlines()[-1].split()
    assert status == "0", done.stderr
    assert [name for name in names if any(fnmatch(name, pattern) for pattern in UNNEEDED)] == []


def test_what_is_not_loaded_is_named_as_it_is_called() -> None:
    """A module that has moved must not drop out of the list."""
    from importlib.util import find_spec

    names = [name for name in UNNEEDED if not name.endswith("*")]
    assert [name for name in names if find_spec(name) is None] == []
