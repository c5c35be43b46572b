"""Values in git's settings, judged by git itself."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.sandbox.host.git_settings import UnreadableSettings, values_of

GIT = shutil.which("git")

TEXTS = [
    b"",
    b"[core]\n\tworktree = ../tree\n",
    b"[CORE]\n\tWorkTree=../tree",
    b"[core] worktree = ../tree",
    b'[x "]"][core]worktree = ../tree',
    b'[x "\\"]"]\ny = 1\n[core]\nworktree = ../tree',
    b"\xef\xbb\xbf[core]worktree = ../tree",
    b"[core]\n\r\t worktree\t= ../tree\r\n",
    b"[core]\n\x0bworktree = ../tree\n",
    b"[core]\nworktree = ../tree \t # comment\n",
    b"[core]\nworktree = ../tree;comment\n",
    b'[core]\nworktree = "../tree "\n',
    b'[core]\nworktree = ../"tr ee"x "  "\n',
    b"[core]\nworktree = ../tr\\tee\\b\\n\n",
    b"[core]\nworktree = ../tr\\\n  ee\\\r\n\n",
    b"[core]\nworktree = ../tr\x0b ee\x0c\n",
    b'[core]\nworktree = ../tr\\\\\\"ee\n',
    b"[core]\nworktree = one\nworktree = two\n# worktree = three\n",
    b"[core]\nworktree\nbare = no\n[core]worktree = one",
    b"[core]\nworktree = ../tree\\",
    b"[core]\nworktree = ../tr\\ee\n",
    b'[core]\nworktree = "../tree\n',
    b"[core]\nworktree # = ../tree\n",
    b"[core\n]worktree = ../tree\n",
    b"[core]\n_worktree = ../tree\n",
    b'[core"x"]worktree = ../tree\n',
    b'[core "x" ]worktree = ../tree\n',
    b'[core "x\n"]worktree = ../tree\n',
]


@pytest.mark.skipif(GIT is None, reason="git is not installed")
@pytest.mark.parametrize("text", TEXTS)
def test_values_are_those_that_git_reads(text: bytes, tmp_path: Path) -> None:
    assert GIT is not None
    (tmp_path / "config").write_bytes(text)
    words = [GIT, "config", "--file", "config", "--null", "--list"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, check=False)
    if done.returncode:
        with pytest.raises(UnreadableSettings):
            values_of(b"worktree", text)
        return
    entries = [entry.partition(b"\n") for entry in done.stdout.split(b"\0")]
    read = [value for name, sign, value in entries if sign and name.endswith(b".worktree")]
    assert list(values_of(b"worktree", text)) == read


def test_space_in_a_value_is_read_as_every_version_of_git_reads_it() -> None:
    assert values_of(b"worktree", b"[core]\nworktree = a\t\tb \n") == (b"a\t\tb", b"a  b")


def test_value_ends_at_a_nul() -> None:
    assert values_of(b"worktree", b"[core]\nworktree = a\0b\n") == (b"a",)


@given(st.binary().filter(lambda value: b"\0" not in value), st.sampled_from([b"", b"# x\n", b"[y]z = 1\n"]))
def test_value_in_quotes_is_read_as_it_was(value: bytes, before: bytes) -> None:
    quoted = value.replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n")
    # An end of line from DOS is one wherever it stands.
    text = before + b'[core]\n\tworktree = "' + quoted + b'"\n'
    assert values_of(b"worktree", text) == (value,)


@given(st.lists(st.sampled_from([b"[core]", b"worktree", b"=", b'"', b"\\", b"\n", b" ", b"#", b"]", b"a"])))
def test_text_is_read_or_refused(parts: list[bytes]) -> None:
    with contextlib.suppress(UnreadableSettings):
        values_of(b"worktree", b"".join(parts))
