"""An operator for the tests of the verbs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.operators import Operator, new_operator


@pytest.fixture
def operator() -> Iterator[Operator]:
    with new_operator() as operator:
        yield operator
