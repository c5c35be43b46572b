"""Calls of a model's tools that did nothing. Their texts are for the model."""

from __future__ import annotations

from collections.abc import Sequence

from paddock.errors.base import PaddockError


class ToolError(PaddockError):
    """A call of a tool did nothing."""


class InvalidToolCall(ToolError):
    """A tool does not exist, or its arguments do not fit it."""

    def __init__(self, tool: str, problem: str) -> None:
        super().__init__(tool, problem)
        self.tool = tool
        self.problem = problem

    def __str__(self) -> str:
        return self.problem


class CallRejected(ToolError):
    """A rule, the approval policy or a person rejects the call. Nothing was started or changed."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"not done: {self.reason}"


class ApprovalFailed(ToolError):
    """The approver could not be asked, or gave a meaningless answer. Nothing was done."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem

    def __str__(self) -> str:
        return f"not done: the approver failed: {self.problem}"


class PatchError(ToolError):
    """A patch does not fit. Nothing was changed."""


class InvalidPatch(PatchError):
    """A patch can't be read."""

    def __init__(self, line: int, problem: str) -> None:
        super().__init__(line, problem)
        self.line = line
        self.problem = problem

    def __str__(self) -> str:
        return f"line {self.line} of the patch: {self.problem}"


class PatchMismatch(PatchError):
    """A file does not contain the lines to replace, or not after those of the hunk before."""

    def __init__(self, path: str, lines: Sequence[str]) -> None:
        super().__init__(path, lines)
        self.path = path
        self.lines = lines

    def __str__(self) -> str:
        expected = "\n".join(self.lines)
        return f"{self.path} does not have these lines, or not in this order; read it again:\n{expected}"


class PatchTooLong(PatchError):
    """To find the lines to replace would take too long."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path

    def __str__(self) -> str:
        return f"the changes of {self.path} take too long to find; give fewer in one patch"


class PatchIncomplete(PatchError):
    """A write failed in the middle of a patch. The earlier writes are undone, except `left`."""

    def __init__(self, problem: str, left: Sequence[str]) -> None:
        super().__init__(problem, left)
        self.problem = problem
        self.left = left

    def __str__(self) -> str:
        if not self.left:
            return f"{self.problem}; the files are as they were before the patch"
        return f"{self.problem}; these could not be put back as they were: {', '.join(self.left)}"
