"""Upload a project, replace a text in each of its files, and watch the changes arrive."""

import asyncio
import sys
from pathlib import Path

import paddock


async def replace(box: paddock.Box, project: Path, place: str, old: str, new: str) -> list[str]:
    there = box.path(place) / project.name
    await box.fs.upload(project, there)
    found = await there.search(old)
    waited_for = {match.path for match in found.matches}
    async with there.watch(recursive=True) as watch:
        diffs = [await box.path(path).edit((old, new)) for path in sorted(waited_for)]
        async for batch in watch:
            waited_for -= {change.path for change in batch.changes}
            if not waited_for:
                break
    return diffs


async def main(project: Path, place: str, old: str, new: str) -> None:
    async with paddock.connect() as box:
        for diff in await replace(box, project, place, old, new):
            print(diff, end="")


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), *sys.argv[2:5]))
