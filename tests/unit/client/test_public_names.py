from __future__ import annotations

import inspect
import re
import subprocess
import sys

import pytest

import paddock
from paddock import errors


def test_every_public_name_can_be_loaded() -> None:
    for name in paddock.__all__:
        assert getattr(paddock, name) is not None
    assert set(paddock.__all__) <= set(dir(paddock))


def test_the_lazy_names_are_the_public_ones() -> None:
    assert set(paddock.__all__) == {*paddock._HOME_OF, "__version__"}


def test_every_exception_that_the_public_names_promise_is_public() -> None:
    promised = set()
    for name in paddock.__all__:
        public = getattr(paddock, name)
        members = vars(public).values() if inspect.isclass(public) else ()
        for documented in (public, *members):
            promised |= set(re.findall(r"[A-Z]\w+", inspect.getdoc(documented) or ""))
    exceptions = {name for name, kind in inspect.getmembers(errors, inspect.isclass)}

    assert promised & exceptions - {"PaddockError"} > {"StdinClosed", "NotATerminal", "SpawnError"}
    assert promised & exceptions <= set(paddock.__all__)


def test_a_name_that_does_not_exist_is_an_ordinary_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'paddock' has no attribute 'nonsense'"):
        _ = paddock.nonsense  # type: ignore[attr-defined]


def test_importing_the_package_loads_nothing_big() -> None:
    script = "import sys, paddock; print(*(n for n in ('asyncio', 'msgspec', 'uvloop') if n in sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "\n"


def test_a_private_client_loads_nothing_that_only_a_websocket_needs() -> None:
    script = (
        "import sys, paddock; paddock.connect; names = ('paddock.transport.websocket', 'uvloop'); "
        "print(*(name in sys.modules for name in names))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "False False\n"
