"""The text that Prometheus reads, checked by reading it back."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.server.exposition import Family, Histogram, Kind, render, single

SAMPLE = re.compile(r'([a-z_]+)(?:\{((?:[a-z]+="(?:[^"\\\n]|\\.)*",?)*)\})? (\S+)')
LABEL = re.compile(r'([a-z]+)="((?:[^"\\\n]|\\.)*)"')
UNESCAPED = {r"\\": "\\", r"\"": '"', r"\n": "\n"}

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def read(page: bytes) -> Samples:
    """Every sample of a page; fails on a line that is neither a sample nor a comment."""
    samples: Samples = {}
    for line in page.decode().removesuffix("\n").split("\n"):
        if line.startswith("# "):
            continue
        match = SAMPLE.fullmatch(line)
        assert match is not None, line
        labels = tuple(
            (name, re.sub(r"\\.", lambda found: UNESCAPED[found[0]], value))
            for name, value in LABEL.findall(match[2] or "")
        )
        assert (match[1], labels) not in samples
        samples[match[1], labels] = float(match[3])
    return samples


def test_a_page_is_help_type_and_samples() -> None:
    page = render(
        [
            single("up", Kind.GAUGE, "Whether it is up.", 1),
            Family("bytes_total", Kind.COUNTER, "Bytes.", {"stdout": 5, "pty": 0}, "stream"),
        ]
    )

    assert page == (
        b"# HELP up Whether it is up.\n"
        b"# TYPE up gauge\n"
        b"up 1\n"
        b"# HELP bytes_total Bytes.\n"
        b"# TYPE bytes_total counter\n"
        b'bytes_total{stream="stdout"} 5\n'
        b'bytes_total{stream="pty"} 0\n'
    )


@given(st.dictionaries(st.text(st.characters(codec="utf-8")), st.integers(min_value=0, max_value=2**53)))
def test_labels_are_read_back_as_they_were(values: dict[str, int]) -> None:
    page = render([Family("things", Kind.COUNTER, "Things.", values, "name")])

    assert read(page) == {("things", (("name", name),)): count for name, count in values.items()}


@given(st.text(st.characters()))
def test_neither_a_label_nor_a_help_text_can_break_a_line(text: str) -> None:
    page = render([Family("things", Kind.GAUGE, text.encode("utf-8", "replace").decode(), {text: 1}, "name")])

    assert page.count(b"\n") == 3
    assert len(read(page)) == 1


@given(st.lists(st.floats(min_value=0, max_value=20)))
def test_a_histogram_counts_what_is_at_most_each_bound(durations_s: list[float]) -> None:
    histogram = Histogram((0.1, 1.0, 10.0))
    for duration_s in durations_s:
        histogram.observe(duration_s)

    samples = read(render([single("took_seconds", Kind.HISTOGRAM, "Time.", histogram)]))

    for text, bound_s in (("0.1", 0.1), ("1.0", 1.0), ("10.0", 10.0), ("+Inf", math.inf)):
        expected = sum(duration_s <= bound_s for duration_s in durations_s)
        assert samples["took_seconds_bucket", (("le", text),)] == expected
    assert samples["took_seconds_count", ()] == len(durations_s)
    assert samples["took_seconds_sum", ()] == pytest.approx(math.fsum(durations_s))


def test_what_was_not_timed_counts_as_the_next_that_was() -> None:
    histogram = Histogram((0.1, 1.0))
    histogram.untimed += 4

    histogram.observe_for_untimed(0.5)

    assert histogram.counts == [0, 5, 0]
    assert histogram.sum_s == pytest.approx(2.5)


def test_a_page_counts_what_was_not_timed_yet_as_the_latest_that_was() -> None:
    histogram = Histogram((0.1, 1.0))
    histogram.observe_for_untimed(0.5)
    histogram.untimed += 2

    samples = read(render([single("took_seconds", Kind.HISTOGRAM, "Time.", histogram)]))

    assert samples["took_seconds_count", ()] == 3
    assert samples["took_seconds_sum", ()] == pytest.approx(1.5)
    assert histogram.untimed == 0
