"""Which part of a table the paths of a request select."""

from __future__ import annotations

from typing import Any

import pytest

from paddock.discovery.settings import select

TABLE = {"model": "m", "tools": {"web": True, "sub": {"k": "v", "l": 1}}, "a.b": {"c": [1, {"d": 2}]}}


@pytest.mark.parametrize(
    ("paths", "selected"),
    [
        ([["model"]], {"model": "m"}),
        ([["nothing"]], {}),
        ([["tools", "nothing"]], {}),
        ([["model", "deeper"]], {"model": "m"}),
        ([["tools", "sub", "k"], ["tools", "web"]], {"tools": {"sub": {"k": "v"}, "web": True}}),
        ([["tools"], ["tools", "sub", "k"]], {"tools": TABLE["tools"]}),
        ([["tools", "sub", "k"], ["tools"]], {"tools": TABLE["tools"]}),
        ([["tools", "sub"], ["tools", "sub", "k"]], {"tools": {"sub": {"k": "v", "l": 1}}}),
        ([["a.b"]], {"a.b": {"c": [1, {"d": 2}]}}),
        ([[""]], {}),
    ],
)
def test_paths_select_what_they_lead_to(paths: list[list[str]], selected: dict[str, Any]) -> None:
    assert select(TABLE, paths) == selected
