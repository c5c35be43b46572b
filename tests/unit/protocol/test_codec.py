"""Reading JSON strictly, and converting parameters."""

from __future__ import annotations

import base64
import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.errors import InvalidParams, MalformedMessage
from paddock.protocol import codec
from paddock.protocol.codec import CodecLimits, convert_params, read_json, write_json
from paddock.protocol.process import ReadParams, SignalParams, StartParams, WriteParams
from paddock.protocol.structure import NoParams
from paddock.protocol.value_count import CountStrings, count_slowly, count_strings

LIMITS = CodecLimits()

SCALARS = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text()
DOCUMENTS = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4)
)


@given(DOCUMENTS)
def test_every_document_survives_the_round_trip(document: Any) -> None:
    assert read_json(write_json(document), LIMITS) == document


@given(DOCUMENTS)
def test_escaped_and_indented_documents_are_read_alike(document: Any) -> None:
    assert read_json(json.dumps(document, indent=2, ensure_ascii=True).encode(), LIMITS) == document


@given(st.binary(max_size=200))
def test_garbage_is_malformed_and_nothing_worse(data: bytes) -> None:
    with contextlib.suppress(MalformedMessage):
        read_json(data, LIMITS)


def with_duplicate(draw: st.DrawFn) -> bytes:
    key = json.dumps(draw(st.text(max_size=5)))
    others = draw(st.dictionaries(st.text(max_size=3), SCALARS, max_size=3))
    members = [f"{json.dumps(name)}:{json.dumps(value)}" for name, value in others.items()]
    for _ in range(2):
        members.insert(draw(st.integers(0, len(members))), f"{key}:{json.dumps(draw(SCALARS))}")
    document = "{" + ",".join(members) + "}"
    for wrapper in draw(
        st.lists(st.sampled_from(['{"outer":%s}', "[1,%s,2]", '{"a":"\\"","b":[%s]}']), max_size=3)
    ):
        document = wrapper % document.replace("%", "%%") if "%" in document else wrapper % document
    return document.encode()


@given(st.composite(with_duplicate)())
def test_a_key_that_occurs_twice_is_refused_wherever_it_stands(message: bytes) -> None:
    with pytest.raises(MalformedMessage, match="duplicate"):
        read_json(message, LIMITS)


def test_the_same_key_written_in_two_ways_is_a_duplicate() -> None:
    with pytest.raises(MalformedMessage, match="duplicate"):
        read_json(rb'{"a":1,"\u0061":2}', LIMITS)


@pytest.mark.parametrize("depth", [128, 10_000, 1_000_000])
def test_deep_nesting_is_refused(depth: int) -> None:
    with pytest.raises(MalformedMessage, match=r"nested|JSON values"):
        read_json(b"[" * depth + b"]" * depth, LIMITS)


def test_nesting_up_to_the_limit_is_read() -> None:
    read_json(b"[" * 127 + b"]" * 127, LIMITS)


def test_too_many_values_are_refused() -> None:
    limits = CodecLimits(max_values=100)
    read_json(b"[" + b"1," * 98 + b"1]", limits)

    with pytest.raises(MalformedMessage, match="100 JSON values"):
        read_json(b"[" + b"1," * 99 + b"1]", limits)


@pytest.mark.parametrize("item", [b"[]", b'{"a":1}', b"1", b'"\\n"', b"[[[]]]"])
def test_too_many_values_are_refused_before_objects_are_made_of_them(
    monkeypatch: pytest.MonkeyPatch, item: bytes
) -> None:
    message = b'{"params":{"text":"[,{","x":[' + b",".join([item] * LIMITS.max_values) + b"]}}"
    monkeypatch.setattr(codec, "_decoder", None)
    with pytest.raises(MalformedMessage, match="65536 JSON values"):
        read_json(message, LIMITS)


def test_a_message_with_as_many_escapes_as_it_likes_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec, "_refuse_duplicate_keys", None)
    text = '\n,[{"\\' * LIMITS.max_values
    assert read_json(write_json({"a": [text, "\\"], "b\\": text}), LIMITS) == {"a": [text, "\\"], "b\\": text}


def strings_of(document: Any) -> tuple[int, int]:
    """The values of a document, and its strings."""
    if isinstance(document, dict):
        found = [strings_of(each) for each in document.values()]
        return 1 + sum(each[0] for each in found), len(document) + sum(each[1] for each in found)
    if isinstance(document, list):
        found = [strings_of(each) for each in document]
        return 1 + sum(each[0] for each in found), sum(each[1] for each in found)
    return 1, int(isinstance(document, str))


@pytest.mark.parametrize("count", [count_slowly, count_strings], ids=["slowly", "quickly"])
@given(document=DOCUMENTS, is_spaced=st.booleans())
def test_values_and_strings_are_counted_as_they_are(
    count: CountStrings, document: Any, is_spaced: bool
) -> None:
    message = json.dumps(document, indent=2).encode() if is_spaced else write_json(document)
    values, strings = strings_of(document)
    assert count(message, values) == strings
    assert count(message, values - 1) is None


@given(st.lists(st.sampled_from([b'"', b"\\", b"[", b"]", b"{", b"}", b",", b" ", b"x"])).map(b"".join))
def test_what_is_no_json_is_counted_alike(message: bytes) -> None:
    for max_values in (3, 100):
        slowly, quickly = count_slowly(message, max_values), count_strings(message, max_values)
        assert slowly == quickly or (slowly is None and quickly is not None and quickly > 2 * max_values)


@pytest.mark.parametrize("text", [b"", b"{", b"\xff", b'{"a":NaN}', b'"\\ud800"', b"1 2", b"\xef\xbb\xbf{}"])
def test_what_is_not_json_is_malformed(text: bytes) -> None:
    with pytest.raises(MalformedMessage):
        read_json(text, LIMITS)


# --- parameters -------------------------------------------------------------

START = {"processId": "p", "argv": ["true"], "cwd": "/", "env": {}, "tty": False}


@given(st.binary(max_size=300))
def test_base64_fields_become_bytes(data: bytes) -> None:
    text = base64.b64encode(data).decode()

    assert convert_params({"processId": "p", "chunk": text}, WriteParams).chunk == data


@pytest.mark.parametrize("text", ["!!!!", "YQ", "Y", "YQ=", "YW Jj", "YR==", "YWJjZH=="])
def test_loose_base64_is_refused(text: str) -> None:
    with pytest.raises(InvalidParams, match=r"params\.chunk"):
        convert_params({"processId": "p", "chunk": text}, WriteParams)


def test_the_place_of_a_wrong_value_is_named() -> None:
    with pytest.raises(InvalidParams, match=r"params\.argv\[1\]: expected `str`, got `int`"):
        convert_params(START | {"argv": ["a", 1]}, StartParams)


def test_unknown_fields_of_a_request_are_ignored() -> None:
    convert_params(START | {"fromTheFuture": 1}, StartParams)


def test_unknown_fields_of_a_grant_are_refused() -> None:
    permissions = {"type": "disabled", "fromTheFuture": 1}
    sandbox = {"permissions": permissions, "windowsSandboxLevel": "disabled"}

    with pytest.raises(InvalidParams, match="fromTheFuture"):
        convert_params(START | {"sandbox": sandbox}, StartParams)


@pytest.mark.parametrize("field", ["processId", "argv", "cwd", "env", "tty"])
def test_required_fields_of_a_start_are_named_when_missing(field: str) -> None:
    with pytest.raises(InvalidParams, match=f"`{field}`"):
        convert_params({name: value for name, value in START.items() if name != field}, StartParams)


@pytest.mark.parametrize("field", ["pipeStdin", "enforceManagedNetwork", "argv", "tty", "cwd", "env"])
def test_null_is_not_a_default(field: str) -> None:
    with pytest.raises(InvalidParams, match=field):
        convert_params(START | {field: None}, StartParams)


@pytest.mark.parametrize("field", ["arg0", "envPolicy", "sandbox", "metadata", "io", "prepared"])
def test_null_of_an_optional_field_means_absent(field: str) -> None:
    assert convert_params(START | {field: None}, StartParams) == convert_params(START, StartParams)


def test_io_says_tty_and_stdin_in_another_way() -> None:
    base = {name: value for name, value in START.items() if name != "tty"}
    pty = convert_params(base | {"io": {"pty": {"rows": 5, "cols": 9}}}, StartParams)
    open_pipe = convert_params(base | {"io": {"pipe": {"stdin": "open"}}}, StartParams)
    closed_pipe = convert_params(base | {"io": {"pipe": {}}}, StartParams)

    assert (pty.is_terminal, pty.has_open_stdin) == (True, True)
    assert (open_pipe.is_terminal, open_pipe.has_open_stdin) == (False, True)
    assert (closed_pipe.is_terminal, closed_pipe.has_open_stdin) == (False, False)


@pytest.mark.parametrize(
    "change",
    [
        {"io": {}},
        {"io": {"pty": {"rows": 1, "cols": 1}, "pipe": {}}},
        {"io": {"pty": {"rows": 0, "cols": 80}}},
        {"io": {"pty": {"rows": 24, "cols": 65536}}},
        {"io": {"pty": {"rows": 24, "cols": 80}}, "tty": False},
        {"prepared": {"argv": ["true"], "cwd": "/", "env": {}}},
        {"argv": []},
    ],
)
def test_contradictions_of_a_start_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(InvalidParams):
        convert_params(START | change, StartParams)


def test_parameters_may_be_given_by_position() -> None:
    assert convert_params(["p", 3, None, 5], ReadParams) == ReadParams(process_id="p", after_seq=3, wait_ms=5)


@pytest.mark.parametrize("values", [[], ["p"], ["p", None, None, None, None]])
def test_positions_must_be_complete(values: list[Any]) -> None:
    with pytest.raises(InvalidParams, match="positional"):
        convert_params(values, ReadParams)


@pytest.mark.parametrize("value", [None, {}])
def test_methods_without_parameters_take_none(value: Any) -> None:
    assert convert_params(value, NoParams) == NoParams()


@pytest.mark.parametrize("value", [{"a": 1}, [], [1], 5, "x"])
def test_methods_without_parameters_take_nothing_else(value: Any) -> None:
    with pytest.raises(InvalidParams):
        convert_params(value, NoParams)


@pytest.mark.parametrize("value", [-1, 1.5, "1", True, 2**64])
def test_counts_are_whole_and_not_negative(value: Any) -> None:
    with pytest.raises(InvalidParams, match=r"params.*afterSeq"):
        convert_params({"processId": "p", "afterSeq": value}, ReadParams)


@pytest.mark.parametrize("name", ["SIGTERM", "TERM", "interrupt", "SIGRTMIN"])
def test_signal_names_are_understood(name: str) -> None:
    convert_params({"processId": "p", "signal": name}, SignalParams)


@pytest.mark.parametrize("name", ["terminate", "sigterm", "", "15", 15])
def test_other_signal_names_are_refused(name: Any) -> None:
    with pytest.raises(InvalidParams):
        convert_params({"processId": "p", "signal": name}, SignalParams)
