"""Error codes and exceptions are one table read in both directions."""

from __future__ import annotations

import inspect

import pytest

from paddock import errors
from paddock.protocol import codes
from paddock.protocol.codes import code_of, error_for

CODES = [
    codes.INVALID_REQUEST,
    codes.METHOD_NOT_FOUND,
    codes.INVALID_PARAMS,
    codes.INTERNAL_ERROR,
    codes.NOT_FOUND,
    codes.SESSION_ATTACHED,
]


@pytest.mark.parametrize("code", CODES)
def test_a_code_comes_back_from_the_exception_it_becomes(code: int) -> None:
    error = error_for(code, "what happened")

    assert code_of(error) == code
    assert str(error) == "what happened"


def test_an_unknown_code_stays_visible() -> None:
    assert "-1234" in str(error_for(-1234, "odd"))


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.UnknownProcess("p"), codes.INVALID_REQUEST),
        (errors.ProcessExists("p"), codes.INVALID_REQUEST),
        (errors.UnknownSession("s"), codes.INVALID_REQUEST),
        (errors.SpawnError("exec", 2, "x", "/"), codes.INTERNAL_ERROR),
        (errors.SpawnerLost("gone"), codes.INTERNAL_ERROR),
        (errors.SessionAttached("s"), codes.SESSION_ATTACHED),
    ],
)
def test_exceptions_have_the_code_of_their_kind(error: errors.RequestError, code: int) -> None:
    assert code_of(error) == code


def test_the_drawn_tree_names_every_exception() -> None:
    drawing = errors.__doc__ or ""
    for name, kind in inspect.getmembers(errors, inspect.isclass):
        if issubclass(kind, errors.PaddockError):
            assert f" {name} " in drawing.replace("\n", " "), f"{name} is not in the tree of errors.py"
