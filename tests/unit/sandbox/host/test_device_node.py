"""Which nodes a command of root's would own, however often that changes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from paddock.sandbox.host import device_node
from paddock.sandbox.host.device_node import _Nodes, owned_nodes


def test_only_root_owns_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert owned_nodes() == ()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_a_node_that_changes_hands_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node, link, missing = (tmp_path / name for name in ("node", "link", "missing"))
    node.write_text("")
    link.symlink_to("target")
    (tmp_path / "target").write_text("")
    monkeypatch.setattr(device_node, "NODES", tuple(map(str, (node, link, missing))))
    nodes = _Nodes()
    for _ in range(2):
        assert nodes.owned_by_root() == (str(node), str(link))
    os.chown(tmp_path / "target", 12345, -1)
    assert nodes.owned_by_root() == (str(node),)
    os.chown(node, 12345, -1)
    assert nodes.owned_by_root() == ()
    os.chown(node, 0, -1)
    assert nodes.owned_by_root() == (str(node),)
    missing.write_text("")
    assert nodes.owned_by_root() == (str(node), str(missing))
    node.unlink()
    assert nodes.owned_by_root() == (str(missing),)
