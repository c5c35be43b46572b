"""An agent whose command is denied a host, asks for it, and tries again: run in a network of a test's own.

    python -m tests.sandbox.agent_hosts DIRECTORY ANSWER ALLOWED WANTED

prints one line of JSON: what was asked, and what the command got.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import paddock


async def main(directory: str, answer: str, allowed: str, wanted: str) -> None:
    """Run a command that fetches from one host."""
    changes: list[str] = []

    async def approve(request: paddock.ApprovalRequest) -> str:
        changes.extend(request.changes)
        return answer

    profile: dict[str, Any] = {
        "type": "managed",
        "file_system": {
            "type": "restricted",
            "entries": [{"path": {"type": "special", "value": {"kind": "root"}}, "access": "read"}],
        },
        "network": {"type": "proxied", "allow": [allowed]},
    }
    async with paddock.Agent(
        profile=profile, approval_policy="on-failure", approver=approve, cwd=directory
    ) as tools:
        reply = await tools.call("exec_command", {"cmd": f"curl -sSf http://{wanted}/b"})
        other = await tools.call("exec_command", {"cmd": f"curl -sSf http://{wanted}:8080/"})
    asked = {"changes": changes, "exit": reply.exit_code, "output": reply.output, "other": other.exit_code}
    print(json.dumps(asked))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
