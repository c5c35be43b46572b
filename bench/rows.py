"""Every row, in the order of the table."""

from __future__ import annotations

from bench.agents import AgentCommand
from bench.calls import BatchedCalls, SingleCalls, WindowedCalls
from bench.confined_starts import ColdStarts, ConfinedStartRate, WarmStarts
from bench.decisions import Decisions
from bench.files import (
    BatchedMetadata,
    ConfinedFileRead,
    FileRead,
    FileWrite,
    SingleMetadata,
    Walk,
    WindowedMetadata,
)
from bench.floods import (
    FloodBesideLargeWatches,
    FloodOfExits,
    FloodOfFrames,
    FloodOfOutput,
    FloodOfRenames,
    FloodOfText,
    FloodOfUnwatching,
    FloodOfValues,
)
from bench.footprint import IdleMemory, ProcessMemory, Startup
from bench.interceptions import Interceptions, WrapperInterceptions
from bench.mcp_servers import ShellCalls, ShellServerStart
from bench.proxies import Proxies
from bench.row import Row
from bench.sandboxes import ConfinedTrue, OneShot
from bench.starts import ConfinedLatency, OrdinaryLatency, QuickAckLatency, StartRate
from bench.streams import BatchedInput, PipeOutput, TerminalOutput, WindowedInput

ROWS: tuple[type[Row], ...] = (
    OrdinaryLatency,
    QuickAckLatency,
    StartRate,
    ConfinedTrue,
    ConfinedLatency,
    WarmStarts,
    ColdStarts,
    ConfinedStartRate,
    OneShot,
    Interceptions,
    WrapperInterceptions,
    Proxies,
    AgentCommand,
    ShellCalls,
    ShellServerStart,
    BatchedCalls,
    WindowedCalls,
    SingleCalls,
    PipeOutput,
    TerminalOutput,
    BatchedInput,
    WindowedInput,
    FileRead,
    ConfinedFileRead,
    FileWrite,
    BatchedMetadata,
    WindowedMetadata,
    SingleMetadata,
    Walk,
    FloodOfFrames,
    FloodOfText,
    FloodOfValues,
    FloodOfOutput,
    FloodOfExits,
    FloodOfRenames,
    FloodOfUnwatching,
    FloodBesideLargeWatches,
    Decisions,
    IdleMemory,
    ProcessMemory,
    Startup,
)
