"""Job control of programs that are let out of a sandbox, on a terminal."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

import paddock
from tests.processes import is_stopped
from tests.sandbox.helper_process import wait_until

TIMEOUT_S = 60
PROMPT = b"$ "


async def require_job_control(url: str, workspace: Path, intercept: paddock.InterceptParams) -> None:
    """See that an interactive Bash stops, continues and ends `sh`, which the rules let out.

    It is in the group of the job, and stops, goes on and ends as the shell says.
    """
    shown = b""
    async with paddock.connect(url) as box:
        process = await box.start(
            ["bash", "--norc", "--noprofile", "-i"],
            cwd=workspace,
            sandbox=":workspace",
            intercept=intercept,
            tty=True,
            extra_env={"PS1": PROMPT.decode(), "TERM": "dumb"},
        )
        output = process.output()

        async def until(text: bytes) -> bytes:
            """Wait until something is shown, and return what comes before it."""
            nonlocal shown
            while text not in shown:
                shown += (await anext(output)).data
            before, _, shown = shown.partition(text)
            return before

        async with asyncio.timeout(TIMEOUT_S):
            # What is typed while Bash changes the terminal, before its prompt, may lose a character.
            await until(PROMPT)
            # It says so when it has the terminal; what is typed looks otherwise.
            await process.write(b"sh -c 'echo rea''dy $$; exec sed -u s/^/got-/'\n")
            await until(b"ready ")
            program = int(await until(b"\r\n"))
            await process.write(b"hello\n")
            await until(b"got-hello\r\n")
            await process.write(b"\x1a")
            await until(b"Stopped")
            await until(PROMPT)
            # Bash has seen its own child stop. The program outside may still read the terminal until it does.
            wait_until(partial(is_stopped, program))
            await process.write(b"jobs\n")
            await until(b"Stopped")
            await until(PROMPT)
            await process.write(b"fg\n")
            await until(b"got-/'\r\n")
            await process.write(b"again\n")
            await until(b"got-again\r\n")
            await process.write(b"\x03")
            await until(b"^C\r\n" + PROMPT)
            await process.write(b"echo status $?\n")
            await until(b"status 130")
            await until(PROMPT)
            await process.write(b"exit\n")
            await process.wait()
