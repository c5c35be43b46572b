"""Base64 that is checked when it is used."""

from __future__ import annotations

import base64

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.errors import InvalidParams
from paddock.protocol.codec import convert_params, write_json
from paddock.protocol.fs import WriteFileParams
from paddock.protocol.late_base64 import LateBase64


@given(st.binary(max_size=50))
def test_data_is_the_same_before_and_after_it_was_decoded(data: bytes) -> None:
    text = base64.b64encode(data).decode()

    assert LateBase64(text).decode() == LateBase64(data).decode() == data
    assert LateBase64(text).text == LateBase64(data).text == text


@pytest.mark.parametrize("text", ["!", "QQ", "QQ=", "QR==", "Q Q=", "QQ==\n", "Q\N{SNOWMAN}=="])
def test_what_is_not_strict_base64_is_refused_when_it_is_used(text: str) -> None:
    with pytest.raises(ValueError, match="invalid base64"):
        LateBase64(text).decode()


def test_parameters_hold_it_as_it_was_written() -> None:
    params = convert_params({"path": "/x", "dataBase64": "!!"}, WriteFileParams)

    assert msgspec.json.decode(write_json(params))["dataBase64"] == "!!"
    for wrong in (5, None, ["x"]):
        with pytest.raises(InvalidParams, match="dataBase64"):
            convert_params({"path": "/x", "dataBase64": wrong}, WriteFileParams)
