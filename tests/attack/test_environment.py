"""Variables, programs and libraries that a client names or a command leaves, for helpers of Paddock to obey.

Each is a request over the wire. The same request without a sandbox makes a file outside of all roots, which
shows that what was planted works.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import paddock
from tests.attack.ground import Ground
from tests.sandbox.identity import PYTHON

LIBRARY_SOURCE = Path(__file__).with_name("planted.c")
PATH = "/usr/local/bin:/usr/bin:/bin"


@dataclass(frozen=True)
class Trick:
    """What a client asks for, by the name of what obeys it.

    `@P` is the project with what was planted, `@L` the library, `@C` the file that nobody may make.
    """

    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    """Made in the project; those in `bin` can be executed."""
    profile: str = ":workspace"
    needs: str = ""


TOUCH = "#!/bin/sh\n: > @C\n"

TRICKS = [
    Trick("a library that is loaded first", ("/bin/true",), {"LD_PRELOAD": "@L"}),
    Trick("a library that watches the loader", ("/bin/true",), {"LD_AUDIT": "@L"}),
    Trick(
        "a library that the name service loads",
        ("/usr/bin/getent", "passwd", "nobody-of-this-name"),
        {"LD_LIBRARY_PATH": "@P/lib"},
        {
            f"lib/libnss_{name}.so.2": "@L"
            for name in ("systemd", "sss", "db", "compat", "ldap", "myhostname")
        },
        needs="a name service that is a library",
    ),
    Trick(
        "the loader writes what it does to a file",
        ("/bin/true",),
        {"LD_DEBUG": "files", "LD_DEBUG_OUTPUT": "@C"},
    ),
    Trick(
        "the loader writes a profile of a library",
        ("/bin/true",),
        {"LD_PROFILE": "libc.so.6", "LD_PROFILE_OUTPUT": "@V"},
        needs="profiles of libraries",
    ),
    Trick(
        "a converter of characters",
        ("/usr/bin/iconv", "-f", "PLANTED", "-t", "UTF-8", "/dev/null"),
        {"GCONV_PATH": "@P/gconv"},
        {"gconv/gconv-modules": "module PLANTED// INTERNAL planted 1\n", "gconv/planted.so": "@L"},
        needs="iconv",
    ),
    Trick(
        "a module that Python imports by itself",
        (PYTHON, "-c", "pass"),
        {"PYTHONPATH": "@P/python"},
        {"python/sitecustomize.py": "open('@C', 'w')\n"},
    ),
    Trick(
        "a module in the directory of the command",
        (PYTHON, "-c", "import json"),
        {},
        {
            "json.py": "open('@C', 'w')\n",
            "msgspec.py": "open('@C', 'w')\n",
            "paddock.py": "open('@C', 'w')\n",
        },
    ),
    Trick(
        "a script that bash reads first", ("/bin/bash", "-c", ":"), {"BASH_ENV": "@P/rc"}, {"rc": ": > @C\n"}
    ),
    Trick(
        "a script that another shell reads first",
        ("/bin/bash", "--posix", "-i", "-c", ":"),
        {"ENV": "@P/rc", "BASH_ENV": "@P/rc"},
        {"rc": ": > @C\n"},
    ),
    Trick("a bubblewrap that is found first", ("bwrap",), {"PATH": f"@P/bin:{PATH}"}, {"bin/bwrap": TOUCH}),
    Trick("a ripgrep that is found first", ("rg",), {"PATH": f"@P/bin:{PATH}"}, {"bin/rg": TOUCH}),
    Trick(
        "a program that is found first because no directory is named",
        ("paddock-init",),
        {"PATH": f":{PATH}"},
        {"bin/paddock-init": TOUCH, "paddock-init": TOUCH, "paddock-janitor": TOUCH},
    ),
    Trick(
        "a filter for the files that ripgrep reads",
        ("/usr/bin/rg", "x", "@P"),
        {"RIPGREP_CONFIG_PATH": "@P/rgrc"},
        {"rgrc": "--pre=@P/bin/pre\n", "bin/pre": TOUCH, "text": "x\n"},
        needs="ripgrep",
    ),
    Trick(
        "a program for git to ask",
        ("/usr/bin/git", "-C", "@P/repository", "status"),
        {
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": "core.fsmonitor",
            "GIT_CONFIG_VALUE_0": "@P/bin/monitor",
            "GIT_DIR": "@P/repository",
            "GIT_WORK_TREE": "@P",
        },
        {
            "bin/monitor": TOUCH,
            "repository/HEAD": "ref: refs/heads/main\n",
            "repository/config": "[core]\n",
            "repository/objects/none": "",
            "repository/refs/none": "",
        },
    ),
]

TEMPORARY = [
    Trick(
        "a temporary directory that is outside",
        ("/bin/sh", "-c", ": > @C"),
        {"TMPDIR": "@V"},
    ),
    Trick(
        "a temporary directory further up",
        ("/bin/sh", "-c", ": > @C"),
        {"TMPDIR": "@V/../../.."},
    ),
]


@pytest.fixture(scope="module")
def library(territory: Path) -> Path:
    """What `planted.c` becomes."""
    target = territory / "planted.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-Wall", "-Werror", "-o", target, LIBRARY_SOURCE], check=True)
    return target


@pytest.fixture(name="ground")
def ground_of_the_user(territory: Path, user: int) -> Iterator[Ground]:
    ground = Ground(Path(tempfile.mkdtemp(prefix="e-", dir=territory)), user)
    yield ground
    ground.remove()


class Scene:
    """A trick in a project of its own."""

    def __init__(self, trick: Trick, ground: Ground, library: Path) -> None:
        self._trick = trick
        self._ground = ground
        self.victim = ground.outside / "victim"
        self.victim.mkdir()
        self._words = {
            "@P": str(ground.project),
            "@L": str(ground.project / "planted.so"),
            "@C": str(self.victim / "canary"),
            "@V": str(self.victim),
        }
        self._plant(Path(self._words["@L"]), library)
        for name, text in trick.files.items():
            path = ground.project / name
            path.parent.mkdir(exist_ok=True)
            if text == "@L":
                self._plant(path, library)
                continue
            path.write_text(self._filled(text))
            path.chmod(0o755)
        ground.give()

    def _plant(self, path: Path, library: Path) -> None:
        path.parent.mkdir(exist_ok=True)
        shutil.copy(library, path)
        Path(f"{path}.target").write_text(self._words["@C"])

    def _filled(self, text: str) -> str:
        for name, value in self._words.items():
            text = text.replace(name, value)
        return text

    async def play(self, box: paddock.Box, *, is_confined: bool) -> bool:
        """Whether something outside was made."""
        await box.run(
            [self._filled(word) for word in self._trick.argv],
            cwd=self._ground.project,
            env={"PATH": PATH, **{name: self._filled(value) for name, value in self._trick.env.items()}},
            sandbox=self._trick.profile if is_confined else None,
        )
        return bool(os.listdir(self.victim))


@pytest.mark.parametrize("trick", [*TRICKS, *TEMPORARY], ids=lambda trick: trick.name)
async def test_helper_obeys_nothing_that_a_client_names(
    trick: Trick, url: str, ground: Ground, library: Path
) -> None:
    scene = Scene(trick, ground, library)
    async with paddock.connect(url) as box:
        assert not await scene.play(box, is_confined=True)
        is_planted_well = await scene.play(box, is_confined=False)
    if trick.needs and not is_planted_well:
        pytest.skip(f"needs {trick.needs}")
    assert is_planted_well
