"""`paddock agent-demo`: show what an agent's tools do, without a model."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from paddock.cli import exit_status
from paddock.cli.connecting import connecting
from paddock.cli.message import failed
from paddock.cli.options import Verbs, add_verb
from paddock.cli.server_choice import add_credential_options
from paddock.errors import PaddockError

if TYPE_CHECKING:
    from paddock.agent.agent import Tools

DESCRIPTION = """\
Play a model that uses the tools of `paddock.Agent`: run a command in a read-only sandbox, try to
write a file, which the sandbox denies, and ask you for permission. If you say yes, the command runs
again with just that permission. All of this happens in a new directory, which the demo removes at
the end.
"""

EXAMPLES = """\
examples:
  paddock agent-demo                              on this host
  paddock agent-demo --url ws://127.0.0.1:4100    on a server
  echo y | paddock agent-demo                     with a yes to the question

exit status:
  0 if the demo ran to its end, whatever you answered.
"""

CLIENT_NAME = "paddock-agent-demo"

CALLS = (
    ("exec_command", {"cmd": "echo This is the project:; pwd; ls -A"}),
    ("exec_command", {"cmd": "echo written by the agent > notes.txt && cat notes.txt"}),
    ("read_file", {"path": "notes.txt"}),
)


def add_parser(verbs: Verbs) -> None:
    """Declare the verb."""
    parser = add_verb(
        verbs,
        "agent-demo",
        run,
        help="show an agent's tools: a command, a denial, the approval and the retry",
        description=DESCRIPTION,
        examples=EXAMPLES,
    )
    parser.add_argument("--url", metavar="URL", help="server to use (default: a private one)")
    add_credential_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Play the demonstration."""
    import asyncio

    try:
        asyncio.run(_demonstrate(arguments))
    except PaddockError as error:
        return failed(str(error), "agent-demo", exit_status.FAILURE)
    return 0


async def _demonstrate(arguments: argparse.Namespace) -> None:
    from uuid import uuid4

    from paddock.agent.agent import Agent
    from paddock.agent.approver import TerminalApprover
    from paddock.client.wire_path import local_name

    async with connecting(arguments, arguments.url, CLIENT_NAME) as box:
        directory = f"{local_name(box.environment.temp_dir)}/paddock-agent-demo-{uuid4().hex[:8]}"
        await box.fs.create_directory(directory)
        try:
            await box.fs.write_file(f"{directory}/notes.txt", b"nothing yet\n")
            agent = Agent(
                box,
                profile=":read-only",
                approver=TerminalApprover(),
                approval_policy="on-failure",
                cwd=directory,
            )
            async with agent as tools:
                await _play(tools)
        finally:
            await box.fs.remove(directory)


async def _play(tools: Tools) -> None:
    import json

    for name, call in CALLS:
        print(f"── the model calls {name} {json.dumps(call)}", flush=True)
        reply = await tools.call(name, call)
        print(f"── the model reads\n{reply.text.rstrip()}\n", flush=True)
