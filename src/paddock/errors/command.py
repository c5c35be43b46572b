"""What becomes of a command that a client ran, as opposed to the request for it."""

from __future__ import annotations

from collections.abc import Sequence

from paddock.errors.base import PaddockError


class CommandError(PaddockError):
    """What became of a command that was started as asked."""


class CommandFailed(CommandError):
    """The command ended with a status other than 0. Its whole output is here."""

    def __init__(self, argv: Sequence[str], returncode: int, stdout: bytes, stderr: bytes) -> None:
        super().__init__(argv, returncode, stdout, stderr)
        self.argv = argv
        self.returncode = returncode
        self.stdout = stdout
        self.stderr = stderr

    def __str__(self) -> str:
        return f"command `{_joined(self.argv)}` ended with status {self.returncode}"


class RunTimeout(CommandError, TimeoutError):
    """The command took longer than allowed and was killed. What it wrote until then is here."""

    def __init__(self, argv: Sequence[str], timeout_s: float, stdout: bytes, stderr: bytes) -> None:
        super().__init__(argv, timeout_s, stdout, stderr)
        self.argv = argv
        self.timeout_s = timeout_s
        self.stdout = stdout
        self.stderr = stderr

    def __str__(self) -> str:
        return f"command `{_joined(self.argv)}` did not end within {self.timeout_s} s and was killed"


class OutputTooLarge(CommandError):
    """The command wrote more than allowed and was killed. What it wrote until then is here."""

    def __init__(self, argv: Sequence[str], limit_bytes: int, stdout: bytes, stderr: bytes) -> None:
        super().__init__(argv, limit_bytes, stdout, stderr)
        self.argv = argv
        self.limit_bytes = limit_bytes
        self.stdout = stdout
        self.stderr = stderr

    def __str__(self) -> str:
        return f"command `{_joined(self.argv)}` wrote more than {self.limit_bytes} bytes and was killed"


class WaitTimeout(CommandError, TimeoutError):
    """A process did not do in time what the caller waited for. It goes on as before."""

    def __init__(self, process_id: str, timeout_s: float, awaited: str) -> None:
        super().__init__(process_id, timeout_s, awaited)
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
    """Too much output of a process was left unread, and it was dropped. The process itself is unharmed."""

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
    """Output was missed, and the server no longer had it. Whoever goes on reading gets what came after it.

    `size_bytes` is at most how much that was, None if the server does not tell.
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
    """What became of a process will never be known here: its session, or the connection for good, is gone."""

    def __init__(self, process_id: str, reason: str) -> None:
        super().__init__(process_id, reason)
        self.process_id = process_id
        self.reason = reason

    def __str__(self) -> str:
        return f"process {self.process_id!r} is lost: {self.reason}"


def _joined(argv: Sequence[str]) -> str:
    import shlex

    return shlex.join(argv)
