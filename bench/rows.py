"""Every row, in the order of the table."""

from __future__ import annotations

from bench.calls import BatchedCalls, SingleCalls, WindowedCalls
from bench.footprint import IdleMemory, ProcessMemory, Startup
from bench.row import Row
from bench.sandboxes import ConfinedTrue
from bench.starts import OrdinaryLatency, QuickAckLatency, StartRate
from bench.streams import Input, PipeOutput, TerminalOutput

ROWS: tuple[type[Row], ...] = (
    OrdinaryLatency,
    QuickAckLatency,
    StartRate,
    ConfinedTrue,
    BatchedCalls,
    WindowedCalls,
    SingleCalls,
    PipeOutput,
    TerminalOutput,
    Input,
    IdleMemory,
    ProcessMemory,
    Startup,
)
