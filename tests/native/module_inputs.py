"""Gives damaged input to the extension modules of native/, in a process that has the sanitizers in it.

    python -m tests.native.module_inputs DIRECTORY COUNT

The modules in the directory were compiled with sanitizers, whose library has to be loaded first (LD_PRELOAD).
"""

from __future__ import annotations

import os
import random
import sys
from contextlib import suppress
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from typing import Any

from tests.native.seeds import seeds_of

LARGE_BYTES = 64
EXPECTED_BYTES = 24
"""Size of an expectation about one path, in native/linkless.c."""


def load(directory: Path, name: str) -> Any:
    loader = ExtensionFileLoader(name, str(directory / f"{name}.abi3.so"))
    spec = spec_from_loader(name, loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module


def changed(data: bytes, chance: random.Random) -> bytearray:
    """A copy with some bytes changed, left out or doubled."""
    copy = bytearray(data)
    for _ in range(chance.randrange(4)):
        at = chance.randrange(len(copy) + 1)
        match chance.randrange(4):
            case 0:
                copy[at : at + 1] = bytes((chance.randrange(256),))
            case 1:
                del copy[at : at + chance.randrange(1, 9)]
            case 2:
                copy[at:at] = copy[at : at + chance.randrange(1, 9)]
            case _:
                del copy[at:]
    return copy


def try_modules(directory: Path, count: int) -> None:
    names = ("_frames", "_scanner", "_status", "_linkless")
    frames, scanner, status, linkless = (load(directory, name) for name in names)
    chance = random.Random(0)
    received = [data for data in seeds_of("frames").values() if len(data) < 1000]
    messages = list(seeds_of("scan").values())
    for _ in range(count):
        seed = chance.choice(received)
        flags, rest = seed[0], changed(seed[2:], chance)
        view = memoryview(rest)
        begin = min(chance.randrange(3), len(rest))
        found, end = frames.take_plain(view, begin, len(rest), flags & 1, 1 << 16, LARGE_BYTES, 100)
        assert begin <= end <= len(rest)
        assert sum(map(len, found)) <= len(rest)
        frames.apply_mask(view[begin:], b"\x01\x02\x80\xff")
        message = bytes(changed(chance.choice(messages)[2:], chance))
        scanned = scanner.scan(message, 1000, chance.randrange(20))
        assert scanned is None or len(scanned) == 4
        strings = scanner.count_strings(message, 1000)
        assert strings is None or strings <= len(message)
        path = b"/" + bytes(view[:200]).replace(b"\0", b"/")
        for describe, name in (
            (status.describe_at_once, path),
            (linkless.identity_without_links, os.fsdecode(path)),
        ):
            with suppress(OSError):
                describe(name)
        try_looks(linkless, path, rest, chance)


def try_looks(linkless: Any, path: bytes, data: bytearray, chance: random.Random) -> None:
    for look in (linkless.status, linkless.identity, linkless.is_real, linkless.is_real_and_there):
        look(os.fsdecode(path))
    paths = tuple(path[: chance.randrange(1, len(path) + 1)] for _ in range(chance.randrange(4)))
    expected = bytes(data[: EXPECTED_BYTES * len(paths)])
    try:
        differing = linkless.differing(paths, expected)
    except ValueError:
        assert len(expected) != EXPECTED_BYTES * len(paths)
    else:
        assert set(differing) <= set(range(len(paths)))


if __name__ == "__main__":
    try_modules(Path(sys.argv[1]), int(sys.argv[2]))
    print("done")
