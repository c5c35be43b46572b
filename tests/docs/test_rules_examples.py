"""The rules that the documents show load, with their own examples."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from paddock.rules.evaluation import FILE_CPU_LIMIT_S, FILE_LIMIT_BYTES, MEMORY_LIMIT_BYTES, RulesFile
from paddock.rules.evaluator import evaluate

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "reference" / "rules.md"
BLOCKS = re.findall(r"^```starlark\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("text", BLOCKS, ids=[text.partition("\n")[0] for text in BLOCKS])
def test_the_rules_of_the_reference_load(text: str) -> None:
    evaluated = evaluate(RulesFile(path="example.rules", text=text), {})

    assert evaluated.problem is None
    assert evaluated.rules or evaluated.network_rules


def test_the_limits_of_the_reference_are_those_of_the_code() -> None:
    page = " ".join(PAGE.read_text(encoding="utf-8").split())

    assert f"{FILE_LIMIT_BYTES // 2**20} MiB of text" in page
    assert f"takes at most {FILE_CPU_LIMIT_S:g} s of processor time" in page
    assert f"{MEMORY_LIMIT_BYTES // 2**20} MiB of memory" in page
