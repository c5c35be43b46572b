"""`paddock proxy`: the policy proxy alone, for other sandboxes that take the port of a proxy."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from paddock.cli.message import failed, tell
from paddock.cli.network_choice import add_network_options
from paddock.cli.options import Verbs, add_verb

if TYPE_CHECKING:
    from paddock.model.endpoint import Endpoint
    from paddock.network.judge import AllowedNetwork
    from paddock.network.policy import Ruling

DESCRIPTION = """\
Run the policy proxy until you interrupt it: HTTP, CONNECT and SOCKS 5 on one port of the
loopback. It prints its URL as the one line on standard output, and a line on standard error
for each host that it blocks. It decides for whoever connects, but it can't keep anybody from
taking another way: that is the job of the sandbox that uses it.
"""

EXAMPLES = """\
examples:
  paddock proxy --allow-host git.example.com --allow-group python
  paddock proxy --port 3128 --allow-host '*' --deny-host ads.example.com
"""

VERB = "proxy"
LOOPBACK = "127.0.0.1"


def add_parser(verbs: Verbs) -> None:
    """Declare the verb."""
    parser = add_verb(
        verbs,
        VERB,
        run,
        help="run the policy proxy alone",
        description=DESCRIPTION,
        examples=EXAMPLES,
    )
    parser.add_argument("--port", metavar="PORT", type=_port, default=0, help="where to listen (default any)")
    parser.add_argument("--upstream", metavar="URL", help="another proxy to send everything through")
    add_network_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Serve the proxy, and return the exit status."""
    import asyncio
    from contextlib import suppress

    from paddock.model.profile import GROUP_MARK, ProxiedNetwork
    from paddock.network.group import GROUPS
    from paddock.network.judge import allowed_network

    try:
        groups = (f"{GROUP_MARK}{name}" for name in arguments.allow_group)
        network = ProxiedNetwork(
            allow=(*arguments.allow_host, *groups),
            deny=tuple(arguments.deny_host),
            allow_local=arguments.allow_local,
            upstream=arguments.upstream,
        )
        allowed = allowed_network(network, GROUPS)
    except ValueError as error:
        arguments.usage_error(str(error))
        raise
    with suppress(KeyboardInterrupt):
        try:
            asyncio.run(_serve(allowed, arguments.port))
        except OSError as error:
            return failed(f"can't listen on port {arguments.port}: {error.strerror}", VERB)
    return 0


async def _serve(allowed: AllowedNetwork, port: int) -> None:
    import asyncio
    import socket

    from paddock.cli.signal_set import STOPPING_SERVER
    from paddock.network.gateway import Gateway
    from paddock.network.judge import PolicyJudge
    from paddock.network.proxy import PolicyProxy
    from paddock.network.wire_server import WireServer

    judge = PolicyJudge(allowed.policies, _tell)
    server = WireServer()
    listener = socket.create_server((LOOPBACK, port))
    await server.listen(listener, PolicyProxy(Gateway(judge, upstream=allowed.upstream)).serve)
    is_over = asyncio.Event()
    for number in STOPPING_SERVER:
        asyncio.get_running_loop().add_signal_handler(number, is_over.set)
    print(f"http://{LOOPBACK}:{listener.getsockname()[1]}", flush=True)
    try:
        await is_over.wait()
    finally:
        await server.aclose()


async def _tell(endpoint: Endpoint, ruling: Ruling) -> None:
    if not ruling.is_allowed:
        tell(f"blocked {endpoint} ({endpoint.protocol}): {ruling.rule}", VERB)


def _port(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) > 0xFFFF:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port")
    return int(text)
