"""Starts a command that is intercepted, on a server in this program, and tells what the server says of it.

    python -m tests.sandbox.told_interceptor PROGRAM [SETTINGS [PROFILE]]

The settings are JSON, and so is what is told. The profile is one of the server's; without it everything can
be read.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from paddock.config import make_settings
from paddock.server.app import serve
from tests.sandbox.profiles import READ_ONLY
from tests.wire import WireError, attach

INTERCEPT = {
    "rules": [{"pattern": [["uname"]], "action": "forbidden", "path": "/etc/test.rules", "line": 7}],
    "onPrompt": "deny",
}


async def told(program: str, settings: dict[str, Any], profile: str | None) -> dict[str, Any]:
    """What becomes of `uname` in a shell."""
    sandbox = READ_ONLY if profile is None else {"profile": profile}
    async with serve(make_settings(settings)) as server:
        client = attach(server)
        await client.initialize(capabilities={"extensions": True})
        try:
            started = await client.start("p", program, "-c", "uname", sandbox=sandbox, intercept=INTERCEPT)
        except WireError as error:
            return {"error": error.message}
        finished = await client.finish("p")
        said = {name: data.decode() for name, data in finished.streams.items()}
        return {"interceptor": started.get("interceptor"), "status": finished.exit_code, **said}


if __name__ == "__main__":
    settings = json.loads(sys.argv[2]) if len(sys.argv) > 2 else {}
    profile = sys.argv[3] if len(sys.argv) > 3 else None
    print(json.dumps(asyncio.run(told(sys.argv[1], settings, profile))))
