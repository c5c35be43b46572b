"""An operator for the tests of the verbs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.operators import Desk
from tests.operators import desk as new_desk


@pytest.fixture
def desk() -> Iterator[Desk]:
    with new_desk() as operator:
        yield operator
