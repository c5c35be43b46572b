"""What a server counts: names and labels that can be relied on."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from paddock.protocol.codes import CODES
from paddock.protocol.methods import METHODS
from paddock.server.exposition import Kind
from paddock.server.metrics import Metrics


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


def test_every_name_is_there_once_and_says_what_kind_it_is(metrics: Metrics) -> None:
    families = list(metrics.families())

    assert max(Counter(family.name for family in families).values()) == 1
    for family in families:
        assert re.fullmatch(r"paddock_[a-z_]+", family.name)
        assert family.name.endswith("_total") == (family.kind is Kind.COUNTER)
        assert family.name.endswith("_seconds") == (family.kind is Kind.HISTOGRAM)
        assert family.meaning.endswith(".")


def test_only_offered_methods_have_a_latency_so_that_no_client_can_make_the_page_grow(
    metrics: Metrics,
) -> None:
    assert metrics.requests.keys() == {name for name, method in METHODS.items() if method.result is not None}


def test_every_error_code_is_counted_from_the_start(metrics: Metrics) -> None:
    assert metrics.errors == dict.fromkeys(CODES, 0)
