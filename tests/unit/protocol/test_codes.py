"""Error codes and exceptions are one table read in both directions."""

from __future__ import annotations

import inspect

import pytest

from paddock import errors
from paddock.protocol import codes
from paddock.protocol.codes import code_of, data_of, error_for

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


NAMED_ERRORS = (
    errors.UnknownProcess("p"),
    errors.ProcessExists("p"),
    errors.TooManyProcesses(3),
    errors.TooManyWaits(3),
    errors.StdinClosed("p"),
    errors.StdinFull("p"),
    errors.NotATerminal("p"),
    errors.ExecForbidden("direct", "allow_direct_exec"),
    errors.ProfileExceeded("write access to /etc, where the most is read", "dev"),
    errors.UnknownQuestion("q"),
    errors.UnknownSession("s"),
    errors.ForeignSession("s"),
    errors.SpawnError("exec", 2, "x", "/"),
    errors.SpawnError("request", 22, "x", "/", "argument 1 contains a NUL byte"),
    errors.SpawnerLost("gone"),
)


@pytest.mark.parametrize("error", NAMED_ERRORS, ids=lambda error: type(error).__name__)
def test_a_named_error_arrives_as_it_was_raised(error: errors.RequestError) -> None:
    received = error_for(code_of(error), str(error), data_of(error))

    assert type(received) is type(error)
    assert vars(received) == vars(error)
    assert str(received) == str(error)


def test_every_named_error_is_tested() -> None:
    assert {type(error) for error in NAMED_ERRORS} == {named.kind for named in codes.NAMED}


@pytest.mark.parametrize(
    "data",
    [
        None,
        "stdinClosed",
        {},
        {"name": "stdinClosed"},
        {"name": ["stdinClosed"], "processId": "p"},
        {"name": "somethingElse", "processId": "p"},
        {"name": "spawnError", "stage": "exec", "errno": 2, "program": "x", "cwd": "/", "flaw": None},
    ],
)
def test_data_that_makes_no_sense_leaves_the_class_of_the_code(data: object) -> None:
    received = error_for(codes.INVALID_REQUEST, "no", data)

    assert type(received) is errors.InvalidRequest
    assert str(received) == "no"


@pytest.mark.parametrize("number", ["2", 2**40, None])
def test_particulars_of_the_wrong_type_leave_the_class_of_the_code(number: object) -> None:
    data = {"name": "spawnError", "stage": "exec", "errno": number, "program": "x", "cwd": "/", "flaw": None}

    assert type(error_for(codes.INTERNAL_ERROR, "no", data)) is errors.OperationFailed


def test_the_drawn_tree_names_every_exception() -> None:
    drawing = errors.__doc__ or ""
    for name, kind in inspect.getmembers(errors, inspect.isclass):
        if issubclass(kind, errors.PaddockError):
            assert f" {name} " in drawing.replace("\n", " "), f"{name} is not in the tree of paddock.errors"
