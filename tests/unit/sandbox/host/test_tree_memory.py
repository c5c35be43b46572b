"""What was found is there again, whole, or as if it had never been."""

from __future__ import annotations

from pathlib import Path

import pytest

from paddock.sandbox.host.tree_memory import (
    EARLY_SAVES,
    PART_DIRECTORIES,
    SAVE_INTERVAL_S,
    TREE_LIMIT,
    Directory,
    Tree,
    TreeMemory,
)

LARGE: Tree = {
    f"d{number}": Directory(number, number, True, ("a", "b"), (f"hit {number}",))
    for number in range(2 * PART_DIRECTORIES + 1)
}
SMALL: Tree = {"": Directory(1, 2, False, (), ())}


@pytest.fixture(name="file")
def file_of_the_memory(tmp_path: Path) -> Path:
    return tmp_path / "memory"


def test_trees_of_any_size_are_kept_for_the_next_process(file: Path) -> None:
    memory = TreeMemory(file)
    memory.remember("large", LARGE)
    memory.remember("small", SMALL)
    memory.save()
    again = TreeMemory(file)
    assert again.recall("large") == LARGE
    assert again.recall("small") == SMALL
    assert again.recall("unknown") == {}


@pytest.mark.parametrize("cut", [1, 3, 5, 1000])
def test_a_file_that_was_cut_is_as_none(file: Path, cut: int) -> None:
    memory = TreeMemory(file)
    memory.remember("large", LARGE)
    memory.save()
    file.write_bytes(file.read_bytes()[:-cut])
    assert TreeMemory(file).recall("large") == {}


def test_names_that_can_not_be_encoded_leave_no_file_behind(file: Path) -> None:
    memory = TreeMemory(file)
    memory.remember("odd", {"\udcff": SMALL[""]})
    memory.save()
    assert list(file.parent.iterdir()) == []
    assert memory.recall("odd") == {"\udcff": SMALL[""]}


def test_a_process_that_searches_often_seldom_writes_the_file(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = [1000.0]
    monkeypatch.setattr("time.monotonic", lambda: now_s[0])
    memory = TreeMemory(file)

    def saved(inode: int) -> bool:
        memory.remember("key", {"": Directory(inode, 2, False, (), ())})
        memory.save()
        return TreeMemory(file).recall("key") == memory.recall("key")

    assert all(saved(number) for number in range(EARLY_SAVES))
    assert not saved(100)
    now_s[0] += SAVE_INTERVAL_S
    # What was new then is not forgotten.
    memory.save()
    assert TreeMemory(file).recall("key") == memory.recall("key")
    assert not saved(101)


def test_oldest_trees_are_forgotten_first(file: Path) -> None:
    memory = TreeMemory(file)
    for number in range(TREE_LIMIT + 1):
        memory.remember(str(number), SMALL)
    assert [memory.recall(key) for key in ("0", "1", str(TREE_LIMIT))] == [{}, SMALL, SMALL]
