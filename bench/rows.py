"""Every row, in the order of the table."""

from __future__ import annotations

from bench.calls import BatchedCalls, SingleCalls, WindowedCalls
from bench.files import ConfinedFileRead, FileRead, FileWrite, SingleMetadata, Walk, WindowedMetadata
from bench.footprint import IdleMemory, ProcessMemory, Startup
from bench.row import Row
from bench.sandboxes import ConfinedTrue
from bench.starts import ConfinedLatency, OrdinaryLatency, QuickAckLatency, StartRate
from bench.streams import Input, PipeOutput, TerminalOutput

ROWS: tuple[type[Row], ...] = (
    OrdinaryLatency,
    QuickAckLatency,
    StartRate,
    ConfinedTrue,
    ConfinedLatency,
    BatchedCalls,
    WindowedCalls,
    SingleCalls,
    PipeOutput,
    TerminalOutput,
    Input,
    FileRead,
    ConfinedFileRead,
    FileWrite,
    WindowedMetadata,
    SingleMetadata,
    Walk,
    IdleMemory,
    ProcessMemory,
    Startup,
)
