"""Walks, copies and removals of random trees, compared with a model in plain Python."""

from __future__ import annotations

import os
import tempfile
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from paddock.fs.handle import HandleTable
from paddock.fs.operation import MIB, Copy, Remove, Walk
from paddock.fs.perform import perform

NAMES = st.binary(min_size=1, max_size=3).filter(
    lambda name: b"\0" not in name and b"/" not in name and name not in (b".", b"..")
)


@dataclass
class Link:
    target: bytes


@dataclass
class Fifo:
    pass


@dataclass
class Directory:
    entries: dict[bytes, Node] = field(default_factory=dict)


Node = bytes | Link | Fifo | Directory
"""A file is its content."""

LEAVES = st.binary(max_size=5) | st.builds(Link, NAMES) | st.builds(Fifo)
TREES = st.builds(
    Directory,
    st.recursive(
        st.dictionaries(NAMES, LEAVES, max_size=4),
        lambda inner: st.dictionaries(NAMES, LEAVES | st.builds(Directory, inner), max_size=4),
        max_leaves=12,
    ),
)


def build(node: Node, path: bytes) -> None:
    match node:
        case bytes():
            Path(os.fsdecode(path)).write_bytes(node)
        case Link():
            os.symlink(node.target, path)
        case Fifo():
            os.mkfifo(path)
        case Directory():
            os.mkdir(path)
            for name, child in node.entries.items():
                build(child, path + b"/" + name)


def scan(path: bytes) -> Node:
    if os.path.islink(path):
        return Link(os.readlink(path))
    if os.path.isdir(path):
        return Directory({name: scan(path + b"/" + name) for name in os.listdir(path)})
    if os.path.isfile(path):
        return Path(os.fsdecode(path)).read_bytes()
    return Fifo()


def without_fifos(directory: Directory) -> Directory:
    return Directory(
        {
            name: without_fifos(node) if isinstance(node, Directory) else node
            for name, node in directory.entries.items()
            if not isinstance(node, Fifo)
        }
    )


def model_walk(tree: Directory, max_depth: int, max_entries: int, *, prune: bool) -> tuple[list[bytes], bool]:
    """What a walk lists, directories with a slash, and whether it was cut short."""
    listed: list[bytes] = []
    scanned = 0
    waiting: deque[tuple[bytes, Directory, int]] = deque([(b"", tree, 0)])
    while waiting:
        path, directory, depth = waiting.popleft()
        for name, node in sorted(directory.entries.items()):
            if scanned == max_entries:
                return listed, True
            scanned += 1
            if isinstance(node, bytes):
                listed.append(path + name)
            elif isinstance(node, Directory):
                listed.append(path + name + b"/")
                if depth < max_depth and not (prune and name.startswith(b".")):
                    waiting.append((path + name + b"/", node, depth + 1))
    return listed, False


@given(TREES, st.integers(0, 4), st.integers(1, 12), st.booleans())
def test_a_walk_lists_what_the_model_lists(
    tree: Directory, max_depth: int, max_entries: int, prune: bool
) -> None:
    with tempfile.TemporaryDirectory() as root:
        top = os.fsencode(root) + b"/tree"
        build(tree, top)
        walk = Walk(
            path=top,
            max_depth=max_depth,
            max_directories=1000,
            max_entries=max_entries,
            max_bytes=MIB,
            follow_directory_links=False,
            prune_hidden=prune,
        )

        walked = perform(walk, HandleTable())

    listed = [
        (directory.path + b"/" + name)[len(top) + 1 :] + (b"/" if is_directory else b"")
        for directory in walked.directories
        for name, is_directory in zip(directory.names, directory.are_directories, strict=True)
    ]
    assert (listed, walked.is_truncated) == model_walk(tree, max_depth, max_entries, prune=prune)
    assert walked.errors == []


@given(TREES)
def test_a_copy_is_the_tree_without_its_fifos_and_the_tree_stays(tree: Directory) -> None:
    with tempfile.TemporaryDirectory() as root:
        source, destination = os.fsencode(root) + b"/source", os.fsencode(root) + b"/destination"
        build(tree, source)

        perform(Copy(source=source, destination=destination, recursive=True), HandleTable())

        assert scan(destination) == without_fifos(tree)
        assert scan(source) == tree


@given(TREES, NAMES)
def test_a_removal_takes_one_entry_and_leaves_the_others(tree: Directory, name: bytes) -> None:
    with tempfile.TemporaryDirectory() as root:
        top = os.fsencode(root) + b"/tree"
        build(tree, top)
        victim = min(tree.entries, default=name)

        perform(Remove(path=top + b"/" + victim, recursive=True, force=True), HandleTable())

        left = {other: node for other, node in tree.entries.items() if other != victim}
        assert scan(top) == Directory(left)
