"""Patterns of paths, held against those of `pathlib`."""

from __future__ import annotations

from pathlib import Path

import pytest

from paddock.client.glob import GlobPattern

TREE = ("a.py", "b.txt", ".hidden", "src/c.py", "src/deep/d.py", "src/deep/.e.py", "src/f[1].py")
PATTERNS = (
    "*",
    "*.py",
    "**/*.py",
    "src/*",
    "src/**/*.py",
    "*/*/*",
    "?.txt",
    "[ab].*",
    "src/f[[]1].py",
    "nothing",
)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_pattern_means_what_it_means_in_pathlib(pattern: str, tmp_path: Path) -> None:
    for name in TREE:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    every = [path.relative_to(tmp_path) for path in tmp_path.rglob("*")]
    wanted = GlobPattern(pattern)
    fitting = {path for path in every if wanted.fits(path.parts)}
    assert fitting == {path.relative_to(tmp_path) for path in tmp_path.glob(pattern)}
    assert wanted.depth is None or all(len(path.parts) <= wanted.depth + 1 for path in fitting)


@pytest.mark.parametrize("pattern", ["", "/etc/*", "../*", "a/../b", "."])
def test_pattern_that_is_not_below_the_directory_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match="pattern"):
        GlobPattern(pattern)
