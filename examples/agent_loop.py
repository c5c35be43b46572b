"""A model works in a Python session: it writes lines to standard input and reads what comes back."""

import asyncio
import sys

import paddock

PROMPT = ">>> "


class ScriptedModel:
    def __init__(self, *lines: str) -> None:
        self._lines = list(lines)
        self.seen: list[str] = []

    def next_line(self, output: str) -> str | None:
        self.seen.append(output)
        return self._lines.pop(0) if self._lines else None


async def converse(box: paddock.Box, model: ScriptedModel) -> int:
    session = await box.start(["python3", "-iq"], tty=True, sandbox=":workspace")
    while (line := model.next_line(await session.read_until(PROMPT, timeout_s=30))) is not None:
        await session.write(f"{line}\n")
    await session.write("print('bye', flush=True); exit()\n")
    async for text in session.text():
        sys.stdout.write(text)
    return await session.wait()


async def main() -> int:
    model = ScriptedModel("numbers = [3, 1, 2]", "sorted(numbers)", "1 / 0")
    async with paddock.connect() as box:
        status = await converse(box, model)
    print(*model.seen, sep="\n")
    return status


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
