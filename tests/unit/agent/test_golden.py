"""What a model reads, word for word."""

from __future__ import annotations

import pytest

from tests.unit.agent.golden import CASES, Case, known, names, reply_of, shown


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
async def test_model_reads_what_it_read_before(case: Case) -> None:
    assert shown(await reply_of(case)) == known()[case.name]


def test_every_text_has_its_case() -> None:
    assert list(known()) == list(names())
