"""The managed network of one process: serves its ports for as long as its sandbox lasts.

`paddock.network` defines the services and who decides on connections.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence

from paddock.errors import SandboxNotMade
from paddock.model.denial import Denial
from paddock.network.judge import PolicyJudge
from paddock.network.turn import Turns
from paddock.network.wire_server import Serve, WireServer
from paddock.server.network_questions import NetworkQuestions


class ProcessNetwork:
    """The network of one process. Call `serve` once the process is confined, and `aclose` at the end in any
    case.

    All processes of a server share the `turns`. The `judge` decides on connections in the services, if there
    is one, and `questions` are what it asks. `bundle` has the authorities that the process trusts, if they
    are others than those of the host.
    """

    def __init__(
        self,
        services: Mapping[int, Serve],
        turns: Turns,
        judge: PolicyJudge | None = None,
        questions: NetworkQuestions | None = None,
        bundle: bytes | None = None,
    ) -> None:
        self._services = services
        self._turns = turns
        self.judge = judge
        self._questions = questions
        self.bundle = bundle
        self._server: WireServer | None = None

    @property
    def ports(self) -> Sequence[int]:
        """Return the ports that the sandbox has to listen on."""
        return tuple(self._services)

    @property
    def denials(self) -> tuple[Denial, ...]:
        """Return what the network denied the process."""
        return () if self.judge is None else self.judge.denials

    async def serve(self, listeners: Sequence[socket.socket]) -> None:
        """Serve these, one for each port. Raises SandboxNotMade if there are not as many."""
        if len(listeners) != len(self._services):
            for listener in listeners:
                listener.close()
            raise SandboxNotMade("the sandbox gave no listeners for its proxy")
        self._server = WireServer(self._turns)
        for listener, service in zip(listeners, self._services.values(), strict=True):
            await self._server.listen(listener, service)

    async def aclose(self) -> None:
        """Stop serving, unless another sandbox is made for the process. Idempotent."""
        if self._questions is not None:
            self._questions.close()
        if self._server is not None:
            await self._server.aclose()
            self._server = None
