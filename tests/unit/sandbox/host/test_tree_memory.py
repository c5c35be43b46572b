"""What was found is there again, whole, or as if it had never been."""

from __future__ import annotations

from pathlib import Path

import pytest

from paddock.sandbox.host.tree_memory import PART_DIRECTORIES, TREE_LIMIT, Directory, Tree, TreeMemory

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


def test_oldest_trees_are_forgotten_first(file: Path) -> None:
    memory = TreeMemory(file)
    for number in range(TREE_LIMIT + 1):
        memory.remember(str(number), SMALL)
    assert [memory.recall(key) for key in ("0", "1", str(TREE_LIMIT))] == [{}, SMALL, SMALL]
