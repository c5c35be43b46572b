"""Rules that a command plants where the next Paddock looks for them, to be let out of its sandbox by these.

Each way is tried without a sandbox first, and works there: Paddock would find the planted rule.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from paddock.cli.run_rules import rule_files
from paddock.rules.layer import Layer, user_directory
from tests.attack.conftest import NewGround
from tests.attack.stage import Stage

RULE = 'prefix_rule(pattern=["planted"], decision="allow")'
PLANT = f"echo '{RULE}' >"
USUAL = ".config/paddock/rules"


@dataclass(frozen=True)
class Way:
    """A script that runs in the project, which is the home directory, and plants a rule."""

    name: str
    script: str
    there: tuple[str, ...] = ()
    """Directories that the home has from the beginning."""
    link: tuple[str, str] | None = None
    """A link in the home, and where it leads."""
    config: str | None = None
    """What of the home XDG_CONFIG_HOME names for Paddock."""
    named: str | None = None
    """What Paddock is told to obey, with --rules: a file, or one of the directories."""


WAYS = [
    Way("a directory of rules that nobody has made", f"mkdir -p {USUAL}; {PLANT} {USUAL}/x.rules"),
    Way(
        "a part of its path that nobody has made", f"mkdir -p {USUAL}; {PLANT} {USUAL}/x.rules", (".config",)
    ),
    Way("a file in the user's own directory", f"{PLANT} {USUAL}/x.rules", (USUAL,)),
    Way(
        "another directory in the place of that of the user",
        f"mkdir n; {PLANT} n/x.rules; mv {USUAL} old; mv n {USUAL}",
        (USUAL,),
    ),
    Way(
        "another directory in the place of one above it",
        f"mkdir -p n/paddock/rules; {PLANT} n/paddock/rules/x.rules; mv .config old; mv n .config",
        (USUAL,),
    ),
    Way(
        "a link in the place of one that leads there",
        f"mkdir -p n/paddock/rules; {PLANT} n/paddock/rules/x.rules; rm .config; ln -s n .config",
        ("dotfiles/paddock/rules",),
        (".config", "dotfiles"),
    ),
    Way(
        "the directory that a variable of the user names",
        f"mkdir -p settings/paddock/rules; {PLANT} settings/paddock/rules/x.rules",
        config="settings",
    ),
    Way(
        "the usual directory, where a variable of the user names another today",
        f"mkdir -p {USUAL}; {PLANT} {USUAL}/x.rules",
        config="settings",
    ),
    Way(
        "a file of rules that is named, changed or exchanged",
        f"{PLANT}> team.rules; {PLANT} n; mv -f n team.rules",
        named="team.rules",
    ),
    Way(
        "a directory of rules that is named, added to or exchanged",
        f"{PLANT} team/x.rules; mkdir n; {PLANT} n/x.rules; mv team old && mv n team",
        ("team",),
        named="team",
    ),
]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
def test_rule_that_a_command_plants_is_found_by_nobody(
    way: Way, stage: Stage, new_ground: NewGround, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert _is_found_after(way, stage, new_ground, monkeypatch, is_confined=False)
    assert not _is_found_after(way, stage, new_ground, monkeypatch, is_confined=True)


def _is_found_after(
    way: Way, stage: Stage, new_ground: NewGround, patch: pytest.MonkeyPatch, *, is_confined: bool
) -> bool:
    ground = new_ground(stage.user)
    home = ground.project
    for name in way.there:
        (home / name).mkdir(parents=True)
    if way.link is not None:
        (home / way.link[0]).symlink_to(way.link[1])
    if way.named is not None:
        (home / way.named / "first.rules" if way.named in way.there else home / way.named).write_text("")
    ground.give()
    env = {"HOME": str(home)} | ({} if way.config is None else {"XDG_CONFIG_HOME": str(home / way.config)})
    command = ["/bin/sh", "-c", way.script]
    if not is_confined:
        stage.run(command, cwd=home, is_plain=True)
    elif way.named is not None:
        stage.run(["run", "--profile", ":workspace", "--rules", way.named, "--", *command], cwd=home, env=env)
    else:
        stage.run(["sandbox", "--", *command], cwd=home, env=env)
    patch.setenv("HOME", str(home))
    files = [file for told in ({}, env) for file in Layer(user_directory(told)).files()]
    if way.named is not None:
        files += rule_files([home / way.named])
    return any(RULE in file.read_text() for file in files)
