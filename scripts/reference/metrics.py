"""docs/reference/metrics.md: every metric of `/metrics`."""

from __future__ import annotations

from paddock.config import Settings
from paddock.server.exposition import Family
from paddock.server.metrics import LATENCY_BOUNDS_S, Metrics
from paddock.server.scrape import METRICS_PATH, Scraper
from paddock.server.sessions import SessionRegistry
from scripts.reference.markdown import code, document, table

INTRODUCTION = f"""\
A server on a websocket address answers `GET {METRICS_PATH}` with these, in the text format of Prometheus
(0.0.4). Where clients need a token, so does whoever scrapes. Counters start at 0 with the server. Clients
can't choose the value of any label."""


def page() -> str:
    """The whole page."""
    metrics = Metrics()
    families = Scraper(metrics, SessionRegistry(Settings(), metrics), (), int).families()
    bounds = ", ".join(f"{bound:g}" for bound in LATENCY_BOUNDS_S)
    return document(
        "Metrics",
        INTRODUCTION,
        table(("name", "kind", "label", "meaning"), map(_row, families)),
        f"The upper bounds of histograms, in seconds: {bounds}.",
    )


def _row(family: Family) -> tuple[str, ...]:
    label = f"{code(family.label)}: {_values(family)}" if family.label else ""
    return code(family.name), str(family.kind), label, family.meaning


def _values(family: Family) -> str:
    if family.label == "version":
        return "the version"
    return ", ".join(code(value) for value in family.values)
