"""A policy that follows its files."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from paddock.errors import RulesError
from paddock.inotify import Inotify
from paddock.model.decision import Action
from paddock.rules import source as source_module
from paddock.rules.layer import Layer
from paddock.rules.loader import load_layers
from paddock.rules.policy import Policy
from paddock.rules.source import RulesSource

PATIENCE_S = 20.0


@asynccontextmanager
async def followed(*directories: Path) -> AsyncIterator[tuple[RulesSource, asyncio.Queue[Policy]]]:
    """A source that is followed, and the policies that it puts in force after the first."""
    policies: asyncio.Queue[Policy] = asyncio.Queue()
    async with RulesSource(map(Layer, directories), policies.put_nowait).followed() as source:
        policies.get_nowait()
        yield source, policies


async def next_policy(policies: asyncio.Queue[Policy]) -> Policy:
    async with asyncio.timeout(PATIENCE_S):
        return await policies.get()


def programs(policy: Policy) -> list[str]:
    return [rule.program for rule in policy.rules]


def test_a_source_is_loaded_when_it_is_told_to(tmp_path: Path) -> None:
    source = RulesSource([Layer(tmp_path)])
    (tmp_path / "a.rules").write_text('prefix_rule(["a"])')
    assert programs(source.policy) == []

    assert programs(source.reload()) == ["a"]
    assert programs(source.policy) == ["a"]


async def test_files_that_were_loaded_before_are_loaded_again_only_if_they_have_changed(
    tmp_path: Path,
) -> None:
    (tmp_path / "a.rules").write_text('prefix_rule(["a"])')
    policies: list[Policy] = []
    source = RulesSource([Layer(tmp_path)], policies.append)
    source.reload()
    async with source.followed():
        assert [programs(policy) for policy in policies] == [["a"]]

    (tmp_path / "a.rules").write_text('prefix_rule(["b"])')
    async with source.followed():
        assert [programs(policy) for policy in policies] == [["a"], ["b"]]


async def test_files_that_are_written_changed_and_removed_are_noticed(tmp_path: Path) -> None:
    async with followed(tmp_path) as (source, policies):
        (tmp_path / "a.rules").write_text('prefix_rule(["a"])')
        assert programs(await next_policy(policies)) == ["a"]

        with (tmp_path / "a.rules").open("a") as file:
            file.write('\nprefix_rule(["b"])')
        assert programs(await next_policy(policies)) == ["a", "b"]

        (tmp_path / "new").write_text('prefix_rule(["c"])')
        (tmp_path / "new").rename(tmp_path / "a.rules")
        assert programs(await next_policy(policies)) == ["c"]

        (tmp_path / "a.rules").unlink()
        assert programs(await next_policy(policies)) == []
        assert source.policy.decide(["c"]).action is None


async def test_directories_that_come_go_and_are_exchanged_are_noticed(tmp_path: Path) -> None:
    directory = tmp_path / "config" / "paddock" / "rules"
    async with followed(directory) as (_, policies):
        directory.mkdir(parents=True)
        (directory / "a.rules").write_text('prefix_rule(["a"])')
        assert programs(await next_policy(policies)) == ["a"]

        (tmp_path / "config").rename(tmp_path / "old")
        assert programs(await next_policy(policies)) == []

        (tmp_path / "old").rename(tmp_path / "config")
        assert programs(await next_policy(policies)) == ["a"]

        (directory / "b.rules").write_text('prefix_rule(["b"])')
        assert programs(await next_policy(policies)) == ["a", "b"]


async def test_a_file_that_breaks_is_a_problem_until_it_is_mended(tmp_path: Path) -> None:
    path = tmp_path / "a.rules"
    path.write_text('prefix_rule(["a"])')
    async with followed(tmp_path) as (source, policies):
        path.write_text("prefix_rule(")
        broken = await next_policy(policies)
        assert [problem.path for problem in broken.problems] == [str(path)]
        assert source.policy.decide(["x"]).action is Action.PROMPT

        path.write_text('prefix_rule(["b"])')
        assert programs(await next_policy(policies)) == ["b"]
        assert source.policy.decide(["x"]).action is None


async def test_a_policy_that_was_taken_stays_what_it_is(tmp_path: Path) -> None:
    (tmp_path / "a.rules").write_text('prefix_rule(["a"])')
    async with followed(tmp_path) as (source, policies):
        taken = source.policy
        (tmp_path / "a.rules").unlink()
        await next_policy(policies)

        assert taken.decide(["a"]).action is Action.ALLOW


async def test_what_does_not_concern_rules_loads_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loads = 0

    def count(*_: object) -> Policy:
        nonlocal loads
        loads += 1
        return Policy()

    async with followed(tmp_path / "rules") as (_, policies):
        monkeypatch.setattr(source_module, "load_layers", count)
        (tmp_path / "other").mkdir()
        (tmp_path / "rules").mkdir()
        (tmp_path / "rules" / "notes.txt").write_text("x")
        (tmp_path / "rules" / "a.rules").write_text("")
        await next_policy(policies)

    assert loads == 1


@pytest.mark.parametrize("error", [RulesError("out of everything"), OSError("so are we"), MemoryError()])
async def test_when_nothing_can_be_loaded_any_more_the_rules_stay_and_the_rest_needs_approval(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(*_: object) -> Policy:
        raise error

    (tmp_path / "a.rules").write_text('prefix_rule(["a"])')
    async with followed(tmp_path) as (_, policies):
        monkeypatch.setattr(source_module, "load_layers", fail)
        (tmp_path / "b.rules").write_text("")
        policy = await next_policy(policies)

        assert policy.decide(["a"]).action is Action.ALLOW
        assert policy.decide(["x"]).action is Action.PROMPT


async def test_what_failed_for_no_fault_of_the_files_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_module, "RETRY_S", 0.01)
    outcomes: list[Exception] = [RulesError("no descriptors")]

    def fail_once(layers: Iterable[Layer]) -> Policy:
        if outcomes:
            raise outcomes.pop()
        return load_layers(layers)

    async with followed(tmp_path) as (_, policies):
        monkeypatch.setattr(source_module, "load_layers", fail_once)
        (tmp_path / "a.rules").write_text('prefix_rule(["a"])')

        assert (await next_policy(policies)).problems
        assert programs(await next_policy(policies)) == ["a"]


async def test_a_directory_that_everybody_may_change_is_noticed(tmp_path: Path) -> None:
    async with followed(tmp_path) as (_, policies):
        os.chmod(tmp_path, 0o777)
        assert (await next_policy(policies)).decide(["a"]).action is Action.PROMPT

        os.chmod(tmp_path, 0o700)
        assert (await next_policy(policies)).decide(["a"]).action is None


async def test_nothing_is_left_open_behind_a_source(tmp_path: Path) -> None:
    before = set(os.listdir("/proc/self/fd"))
    async with followed(tmp_path):
        pass

    assert set(os.listdir("/proc/self/fd")) == before


async def test_nothing_is_left_open_when_nothing_can_be_watched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Inotify, "add", refuse)
    before = set(os.listdir("/proc/self/fd"))

    with pytest.raises(RulesError, match="max_user_watches"):
        async with followed(tmp_path):
            pass

    assert set(os.listdir("/proc/self/fd")) == before
