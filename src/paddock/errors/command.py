"""Outcomes of a command that a client ran, as opposed to outcomes of the request for it."""

from __future__ import annotations

from collections.abc import Sequence

from paddock.errors.base import PaddockError


class CommandError(PaddockError):
    """A command started as requested, but did not do what the caller wanted."""


class CommandFailed(CommandError):
    """The command ended with a status other than 0. This error holds its whole output."""

    def __init__(self, argv: Sequence[str], returncode: int, stdout: bytes, stderr: bytes) -> None:
        super().__init__(argv, returncode, stdout, stderr)
        self.argv = argv
        self.returncode = returncode
        self.stdout = stdout
        self.stderr = stderr

    def __str__(self) -> str:
        return f"command `{_joined(self.argv)}` ended with status {self.returncode}"


class RunTimeout(CommandError, TimeoutError):
    """The command took longer than allowed and was killed. This error holds the output until then."""

    def __init__(self, argv: Sequence[str], timeout_s: float, stdout: bytes, stderr: bytes) -> None:
        # As an OSError it would take more than one argument for an error number and a file name.
        super().__init__(timeout_s)
        self.argv = argv
        self.timeout_s = timeout_s
        self.stdout = stdout
        self.stderr = stderr

    def __str__(self) -> str:
        return f"command `{_joined(self.argv)}` did not end within {self.timeout_s} s and was killed"


class OutputTooLarge(CommandError):
    """The command wrote more than allowed and was killed. This error holds the output until then."""

    def __init__(self, argv: Sequence[str], limit_bytes: int, stdout: bytes, stderr: bytes) -> None:
        super().__init__(argv, limit_bytes, stdout, stderr)
        self.argv = argv
        self.limit_bytes = limit_bytes
        self.stdout = stdout
        self.stderr = stderr

    def __str__(self) -> str:
        return f"command `{_joined(self.argv)}` wrote more than {self.limit_bytes} bytes and was killed"


class WaitTimeout(CommandError, TimeoutError):
    """The event that the caller waited for did not happen in time. The process goes on as before."""

    def __init__(self, process_id: str, timeout_s: float, awaited: str) -> None:
        # One argument, as above.
        super().__init__(timeout_s)
        self.process_id = process_id
        self.timeout_s = timeout_s
        self.awaited = awaited

    def __str__(self) -> str:
        return f"process {self.process_id!r} did not {self.awaited} within {self.timeout_s:g} s"


class PatternNotFound(CommandError):
    """The output ended, or grew too long, without a match. All of it can still be read."""

    def __init__(self, process_id: str, pattern: str, text: str, size_bytes: int) -> None:
        super().__init__(process_id, pattern, text, size_bytes)
        self.process_id = process_id
        self.pattern = pattern
        self.text = text
        self.size_bytes = size_bytes

    def __str__(self) -> str:
        output = f"{self.size_bytes} bytes of output of process {self.process_id!r}"
        return f"nothing in {output} matches {self.pattern!r}"


class OutputOverrun(CommandError):
    """The caller left too much output of a process unread, and it was dropped. The process goes on."""

    def __init__(self, process_id: str, limit_bytes: int) -> None:
        super().__init__(process_id, limit_bytes)
        self.process_id = process_id
        self.limit_bytes = limit_bytes

    def __str__(self) -> str:
        return (
            f"the output of process {self.process_id!r} was dropped: {self.limit_bytes} bytes were unread on "
            "its connection while somebody waited for an answer; read the output sooner"
        )


class OutputGap(CommandError):
    """The client missed output that the server no longer has. Further reads return what came after the gap.

    `size_bytes` is an upper bound of the loss; None if the server does not report it.
    """

    def __init__(self, process_id: str, from_seq: int, to_seq: int, size_bytes: int | None) -> None:
        super().__init__(process_id, from_seq, to_seq, size_bytes)
        self.process_id = process_id
        self.from_seq = from_seq
        self.to_seq = to_seq
        self.size_bytes = size_bytes

    def __str__(self) -> str:
        size = "some" if self.size_bytes is None else f"{self.size_bytes} bytes of"
        return (
            f"{size} output of process {self.process_id!r} was missed, numbers {self.from_seq} to "
            f"{self.to_seq}: the server keeps a limited amount while nobody reads; go on reading, or let "
            "the server keep more"
        )


class ProcessLost(CommandError):
    """The outcome of a process will never be known: its session ended, or the connection is lost for good."""

    def __init__(self, process_id: str, reason: str) -> None:
        super().__init__(process_id, reason)
        self.process_id = process_id
        self.reason = reason

    def __str__(self) -> str:
        return f"process {self.process_id!r} is lost: {self.reason}"


def _joined(argv: Sequence[str]) -> str:
    import shlex

    return shlex.join(argv)
