"""Job control of programs that are let out of a sandbox, on a terminal."""

from __future__ import annotations

import asyncio
from pathlib import Path

import paddock

TIMEOUT_S = 60


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
            extra_env={"PS1": "$ ", "TERM": "dumb"},
        )
        output = process.output()

        async def until(text: bytes) -> None:
            nonlocal shown
            while text not in shown:
                shown += (await anext(output)).data
            shown = shown.partition(text)[2]

        async with asyncio.timeout(TIMEOUT_S):
            # It says so when it has the terminal; what is typed looks otherwise.
            await process.write(b"sh -c 'echo rea''dy; exec sed -u s/^/got-/'\n")
            await until(b"ready\r\n")
            await process.write(b"hello\n")
            await until(b"got-hello\r\n")
            await process.write(b"\x1a")
            await until(b"Stopped")
            await process.write(b"jobs\n")
            await until(b"Stopped")
            await process.write(b"fg\n")
            await process.write(b"again\n")
            await until(b"got-again\r\n")
            await process.write(b"\x03")
            await until(b"^C\r\n$ ")
            await process.write(b"echo status $?\n")
            await until(b"status 130")
            await process.write(b"exit\n")
            await process.wait()
