"""A server of one's own: a child process that serves one client and ends with it.

The child has one end of a socket pair as its standard input and output. However the client ends, the kernel
closes the other end, and the server then ends its processes and itself.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from typing import Final

from paddock import own_program
from paddock.errors import ConnectError

EXIT_TIMEOUT_S: Final = 5.0
"""How long the server may take to end its processes: more than twice their grace of 2 s."""

NAME: Final = "a private server"


class PrivateServer:
    """The child process. Call `aclose` after closing the link to it."""

    def __init__(self, child: asyncio.subprocess.Process) -> None:
        self._child = child

    @classmethod
    async def start(cls, *, allow_escalation: bool = False) -> tuple[PrivateServer, socket.socket]:
        """Start a server and return the socket to talk to it. Raises ConnectError.

        With `allow_escalation` rules of its client may let programs out of sandboxes.

        The server inherits the working directory, the environment and standard error. None of these changes
        where it imports from.
        """
        ours, theirs = socket.socketpair()
        try:
            python = own_program.python()
            options = ["--allow-escalation"] if allow_escalation else []
            child = await asyncio.create_subprocess_exec(
                *own_program.python_command(
                    "paddock.cli.main", "serve", "--listen", "stdio", *options, confines=True
                ),
                executable=f"/proc/self/fd/{python}",
                pass_fds=(python,),
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
                # Ctrl-C at the terminal is for the client, which passes it on as it sees fit.
                start_new_session=True,
            )
        except OSError as error:
            ours.close()
            raise ConnectError(NAME, f"can't start {sys.executable}: {error.strerror}") from error
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        ours.setblocking(False)
        return cls(child), ours

    @property
    def returncode(self) -> int | None:
        """Return the exit status of the server, None while it runs."""
        return self._child.returncode

    async def aclose(self) -> None:
        """Wait until the server has ended; kill it if that takes too long or this is cancelled."""
        try:
            async with asyncio.timeout(EXIT_TIMEOUT_S):
                await self._child.wait()
        except TimeoutError:
            self._kill()
            await self._child.wait()
        except asyncio.CancelledError:
            self._kill()
            raise

    def _kill(self) -> None:
        if self._child.returncode is None:
            self._child.kill()
