"""Run a project's tests in a sandbox: no network, bounded memory and time, and a verdict that says why."""

import asyncio
import sys
from pathlib import Path

import paddock

PROFILE = {"extends": ":workspace", "network": "loopback", "filesystem": {"~/.ssh": "deny"}}
LIMITS = paddock.Limits(address_space_bytes=2_000_000_000, wall_seconds=60, open_files=256)


async def run_tests(project: Path, command: list[str]) -> str:
    async with paddock.connect() as box:
        done = await box.run(command, cwd=project, sandbox=PROFILE, limits=LIMITS, text=True)
    match done.ending.cause:
        case paddock.Cause.EXIT if done.returncode == 0:
            return "passed"
        case paddock.Cause.WALL | paddock.Cause.CPU | paddock.Cause.MEMORY as limit:
            return f"stopped by the limit of {limit}"
    for denial in done.ending.denials:
        return f"failed: {denial.kind} {denial.target} is denied ({denial.rule})"
    return f"failed with status {done.returncode}\n{done.stdout}{done.stderr}"


if __name__ == "__main__":
    print(asyncio.run(run_tests(Path(sys.argv[1]).resolve(), sys.argv[2:])))
