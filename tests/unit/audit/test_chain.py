"""The chain of lines, and the tip."""

from __future__ import annotations

import hashlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.audit.chain import (
    NO_HASH,
    ORIGIN,
    Anchor,
    hash_of,
    link_of,
    parse_anchor,
    seal,
    time_text,
)
from paddock.audit.event import KINDS, Opened, encode
from paddock.audit.tip import TIP_BYTES, Tip, decode_tip, encode_tip
from tests.unit.audit.logs import TIME_NS, a_start, an_exit

anchors = st.builds(
    Anchor, st.integers(0, 2**63), st.binary(max_size=8).map(lambda data: hashlib.sha256(data).hexdigest())
)


def test_a_line_is_json_and_names_the_hash_of_the_line_before() -> None:
    first, anchor = seal(ORIGIN, TIME_NS, encode(a_start("build")))
    second, _ = seal(anchor, TIME_NS, encode(an_exit("build", 3)))

    assert json.loads(first) == {
        "seq": 1,
        "time": "2026-03-04T05:06:07.890123Z",
        "kind": "start",
        "session": "0f3a9c2e",
        "process": "build",
        "argv": ["ls"],
        "cwd": "/",
        "env": {"PATH": "/bin"},
        "prev": NO_HASH,
    }
    assert json.loads(second)["prev"] == hashlib.sha256(first).hexdigest()
    assert json.loads(second)["exit_code"] == 3


def test_what_is_not_utf_8_is_written_with_escapes() -> None:
    line, _ = seal(ORIGIN, TIME_NS, encode(a_start("p", "\udcff")))

    assert json.loads(line)["argv"] == ["ls", "\\udcff"]


@given(st.text(), anchors)
def test_whatever_a_client_names_a_line_has_one_line_end_and_chains(text: str, previous: Anchor) -> None:
    line, anchor = seal(previous, TIME_NS, encode(a_start(text, text)))
    link = link_of(line)

    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert link is not None
    assert (link.seq, link.prev) == (previous.seq + 1, previous.sha256)
    assert anchor == Anchor(previous.seq + 1, hash_of(line))


@pytest.mark.parametrize(
    "line", [b"", b"\n", b"{}", b"[]\n", b'{"seq":0,"prev":"' + b"0" * 64 + b'"}', b'{"seq":1,"prev":"00"}']
)
def test_what_is_not_a_record_has_no_link(line: bytes) -> None:
    assert link_of(line) is None


@given(anchors)
def test_an_anchor_is_read_as_it_is_printed(anchor: Anchor) -> None:
    assert parse_anchor(str(anchor)) == anchor


@pytest.mark.parametrize(
    "text", ["", "1", "1:", "x:" + "0" * 64, "1:" + "g" * 64, "²:" + "0" * 64, "-1:" + "0" * 64]
)
def test_what_is_not_an_anchor_is_none(text: str) -> None:
    assert parse_anchor(text) is None


@given(anchors, st.booleans())
def test_a_tip_is_read_as_it_was_written_and_always_has_one_size(anchor: Anchor, is_closed: bool) -> None:
    data = encode_tip(Tip(anchor, is_closed))

    assert len(data) == TIP_BYTES
    assert decode_tip(data) == Tip(anchor, is_closed)


@given(anchors, st.integers(0, TIP_BYTES - 1), st.integers(1, 255))
def test_a_damaged_tip_is_none_or_another(anchor: Anchor, position: int, change: int) -> None:
    data = bytearray(encode_tip(Tip(anchor)))
    data[position] ^= change

    assert decode_tip(bytes(data)) != Tip(anchor)


def test_time_is_utc_in_microseconds() -> None:
    assert time_text(0) == "1970-01-01T00:00:00.000000Z"
    assert time_text(1_999_999_999) == "1970-01-01T00:00:01.999999Z"


def test_every_kind_is_there_once() -> None:
    assert len(set(KINDS)) == len(KINDS)
    assert {"decision", "start", "exit", "denial", "approval", "network"} <= set(KINDS)


def test_what_has_no_value_is_left_out() -> None:
    assert json.loads(encode(Opened(version="1", pid=2))) == {"kind": "opened", "version": "1", "pid": 2}
