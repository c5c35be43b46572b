"""A server where attacks may destroy what they reach: a stage on which commands come over the wire.

python -m tests.attack.server USER GROUND SETTINGS
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.attack.stage import apart, keep_capabilities, settle
from tests.sandbox.launcher import import_everything, use_copies
from tests.sandbox.user_server import rehearse, serve_until_end


@contextmanager
def server_apart(
    user: int, ground: Path, env: Mapping[str, str] | None = None, **settings: Any
) -> Iterator[str]:
    """The URL of a server in namespaces of its own, with `env` added to its environment."""
    words = [str(user), str(ground), json.dumps({"env": dict(env or {}), "settings": settings})]
    with subprocess.Popen(
        apart("tests.attack.server", *words), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        try:
            yield url
        finally:
            process.stdin.close()


def main(user: int, ground: Path, request: dict[str, Any]) -> None:
    """Serve until there is no more input."""
    keep_capabilities()
    use_copies(ground)
    import_everything()
    asyncio.run(rehearse(ground))
    settle(user, ground)
    os.environ.update(request["env"])
    asyncio.run(serve_until_end(ground, request["settings"]))


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]), json.loads(sys.argv[3]))
