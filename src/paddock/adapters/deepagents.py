"""Paddock as a sandbox of deepagents.

    from deepagents import create_deep_agent
    from paddock.adapters.deepagents import PaddockSandbox

    agent = create_deep_agent(model=..., backend=PaddockSandbox())

It reads, writes, edits, lists and searches files with Paddock's own requests, not with commands in the
sandbox.
"""

from __future__ import annotations

import asyncio
import base64
import errno
import posixpath
from collections.abc import Callable, Coroutine, Mapping
from functools import wraps
from typing import Any, Final, ParamSpec, TypeVar, cast

from deepagents.backends.protocol import (
    DeleteResult,
    EditResult,
    ExecuteResponse,
    FileData,
    FileDownloadResponse,
    FileInfo,
    FileUploadResponse,
    GlobResult,
    GrepMatch,
    GrepResult,
    LsResult,
    ReadResult,
    WriteResult,
)
from deepagents.backends.sandbox import MAX_BINARY_BYTES, MAX_OUTPUT_BYTES, TRUNCATION_MSG, BaseSandbox
from deepagents.backends.utils import (
    check_empty_content,
    compile_grep_include_glob,
    perform_string_replacement,
    slice_read_response,
)

from paddock.adapters.outcome import TIMED_OUT, file_note, run_line
from paddock.adapters.text_file import TextFile
from paddock.client.reference import BoxReference
from paddock.client.workspace import PROFILE
from paddock.errors import CallRejected
from paddock.model.denial import DenialKind
from paddock.sync.workspace import Target, Workspace

_rel = posixpath.relpath
P = ParamSpec("P")
T = TypeVar("T")

TIMEOUT_S: Final = 1800
OUTPUT_BYTES: Final = 10 * 1024 * 1024
"""The most output of one command; the middleware offloads what is too much for a model."""

MAX_MATCHES: Final = 10_000


def _in_thread(method: Callable[P, T]) -> Callable[P, Coroutine[Any, Any, T]]:
    """Return the asynchronous form of a method, for any event loop."""

    @wraps(method)
    async def call(*arguments: P.args, **options: P.kwargs) -> T:
        return await asyncio.to_thread(method, *arguments, **options)

    return call


class PaddockSandbox(BaseSandbox):
    """A confined directory on this host or on a server, made on first use; see `paddock.Workspace`.

    `id` is a reference by which another process attaches: `PaddockSandbox.attach(id)`. Call `close`, or use
    it with `with`, when the agent is done.
    """

    def __init__(
        self,
        target: Target = None,
        *,
        directory: str | None = None,
        profile: str | Mapping[str, Any] = PROFILE,
        env: Mapping[str, str] | None = None,
        workspace: Workspace | None = None,
    ) -> None:
        self.workspace = workspace or Workspace(target, directory=directory, profile=profile, env=env)

    @classmethod
    def attach(cls, sandbox_id: str, target: Target = None) -> PaddockSandbox:
        """Return the sandbox that another process has made."""
        return cls(workspace=Workspace.attach(BoxReference.decode(sandbox_id), target))

    @property
    def id(self) -> str:
        """Return the reference that `attach` takes. Makes the sandbox if it does not exist yet."""
        if self.workspace.reference is None:
            self.workspace.open()
        return cast("BoxReference", self.workspace.reference).encode()

    def close(self) -> None:
        """Remove the directory, if the sandbox has made it, and end the connection."""
        self.workspace.__exit__(None, None, None)

    def __enter__(self) -> PaddockSandbox:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    # --- commands -----------------------------------------------------------

    def execute(self, command: str, *, timeout: int | None = None) -> ExecuteResponse:
        """Run a line of Bash; a `timeout` of 0 means none."""
        timeout_s = TIMEOUT_S if timeout is None else timeout
        done = self.workspace.call(
            run_line(self.workspace.inner, command, timeout_s=timeout_s or None, limit_bytes=OUTPUT_BYTES)
        )
        exit_code = TIMED_OUT if done.exit_code is None else done.exit_code
        return ExecuteResponse(output=done.text, exit_code=exit_code, truncated=done.is_cut)

    # --- files --------------------------------------------------------------

    def read(self, file_path: str, offset: int = 0, limit: int = 2000) -> ReadResult:
        """Return lines of a text file, or any other file as base64."""
        try:
            data = self.workspace.read_bytes(file_path)
        except OSError as error:
            return ReadResult(error=self._why(error, DenialKind.READ, file_path))
        try:
            text = data.decode()
        except UnicodeDecodeError:
            if len(data) > MAX_BINARY_BYTES:
                problem = f"Binary file exceeds maximum preview size of {MAX_BINARY_BYTES} bytes"
                return ReadResult(error=f"File '{file_path}': {problem}")
            encoded = base64.standard_b64encode(data).decode()
            return ReadResult(file_data=FileData(content=encoded, encoding="base64"))
        if (reminder := check_empty_content(text)) is not None:
            return ReadResult(file_data=FileData(content=reminder, encoding="utf-8"))
        page = slice_read_response(FileData(content=text, encoding="utf-8"), offset, limit)
        if page.file_data is not None:
            page.file_data["content"] = _page(
                page.file_data["content"], has_more=page.next_offset is not None
            )
        return page

    def write(self, file_path: str, content: str) -> WriteResult:
        """Replace a file, or create it with the directories above it."""
        try:
            self.workspace.write_bytes(file_path, content.encode())
        except OSError as error:
            return WriteResult(error=self._why(error, DenialKind.WRITE, file_path))
        return WriteResult(path=file_path)

    def edit(self, file_path: str, old_string: str, new_string: str, replace_all: bool = False) -> EditResult:
        """Replace a text in a file."""
        try:
            text = self.workspace.read_bytes(file_path).decode()
            if old_string and not replace_all and text.count(old_string) > 1:
                return EditResult(error=f"Error: '{old_string}' {_MULTIPLE}")
            replaced = perform_string_replacement(text, old_string, new_string, replace_all)
            if isinstance(replaced, str):
                return EditResult(error=replaced)
            self.workspace.call(TextFile(self.workspace.inner, file_path).exchange(text, replaced[0]))
        except OSError as error:
            return EditResult(error=self._why(error, DenialKind.WRITE, file_path))
        except (CallRejected, UnicodeDecodeError) as error:
            problem = error if isinstance(error, CallRejected) else f"'{file_path}' is not text"
            return EditResult(error=f"Error: {problem}")
        return EditResult(path=file_path, occurrences=replaced[1])

    def ls(self, path: str) -> LsResult:
        """Return what is in a directory."""
        try:
            found = self.workspace.call(self.workspace.inner.entries(path))
        except OSError as error:
            return LsResult(error=self._why(error, DenialKind.READ, path))
        return LsResult(
            entries=[
                FileInfo(path=posixpath.join(path, each.file_name), is_dir=each.is_directory)
                for each in found
            ]
        )

    def glob(self, pattern: str, path: str | None = None) -> GlobResult:
        """Return the files below a directory that match a pattern."""
        if ".." in pattern.split("/"):
            return GlobResult(error=f"Error: pattern '{pattern}' leads out of the directory")
        there = self.workspace.open()
        root = there.locate(path or "")
        try:
            fits = compile_grep_include_glob(pattern)
            tree = self.workspace.call(self.workspace.inner.walk(root))
        except ValueError as error:
            return GlobResult(error=f"Error: {error}")
        except OSError as error:
            return GlobResult(error=self._why(error, DenialKind.READ, root))
        reason = "budget" if tree.is_truncated else "unreadable" if tree.errors else None
        return GlobResult(
            matches=[
                FileInfo(path=file, is_dir=False) for file in sorted(tree.files) if fits(_rel(file, root))
            ],
            truncated=reason is not None,
            # Not in the version that Deep Agents Code pins.
            **({"truncation_reason": reason} if hasattr(GlobResult, "truncation_reason") else {}),
        )

    def grep(
        self, pattern: str, path: str | None = None, glob: str | None = None, *, max_count: int | None = None
    ) -> GrepResult:
        """Return the lines that contain a text."""
        there = self.workspace.open()
        root = there.locate(path or "")
        try:
            fits = None if glob is None else compile_grep_include_glob(glob)
            found = self.workspace.call(
                there.files.search(root, pattern, hidden=True, max_matches=MAX_MATCHES)
            )
        except ValueError as error:
            return GrepResult(error=f"Error: {error}")
        except OSError as error:
            return GrepResult(error=self._why(error, DenialKind.READ, root))
        matches = [
            GrepMatch(path=each.path, line=each.line or 0, text=each.text or "")
            for each in found.matches
            if fits is None or fits(_rel(each.path, root))
        ]
        limit = len(matches) if max_count is None else max_count
        return GrepResult(matches=matches[:limit], truncated=found.is_truncated or len(matches) > limit)

    def delete(self, file_path: str) -> DeleteResult:
        """Remove a file, or a directory with everything in it."""
        there = self.workspace.open()
        try:
            self.workspace.call(there.files.remove(there.locate(file_path), force=False))
        except OSError as error:
            return DeleteResult(error=self._why(error, DenialKind.WRITE, file_path))
        return DeleteResult(path=file_path)

    def upload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        """Write files, each independently of the others."""
        return [FileUploadResponse(path=path, error=self._upload(path, data)) for path, data in files]

    def download_files(self, paths: list[str]) -> list[FileDownloadResponse]:
        """Read files, each independently of the others."""
        return [self._download(path) for path in paths]

    aexecute = _in_thread(execute)
    aread = _in_thread(read)
    awrite = _in_thread(write)
    aedit = _in_thread(edit)
    als = _in_thread(ls)
    aglob = _in_thread(glob)
    agrep = _in_thread(grep)

    # --- inside -------------------------------------------------------------

    def _upload(self, path: str, data: bytes) -> str | None:
        if not posixpath.isabs(path):
            return "invalid_path"
        try:
            self.workspace.write_bytes(path, data)
        except OSError as error:
            return _CODES.get(error.errno or 0, str(error))
        return None

    def _download(self, path: str) -> FileDownloadResponse:
        if not posixpath.isabs(path):
            return FileDownloadResponse(path=path, error="invalid_path")
        try:
            return FileDownloadResponse(path=path, content=self.workspace.read_bytes(path))
        except OSError as error:
            return FileDownloadResponse(path=path, error=_CODES.get(error.errno or 0, str(error)))

    def _why(self, error: OSError, kind: DenialKind, path: str) -> str:
        if isinstance(error, FileNotFoundError):
            return f"Error: File '{path}' not found"
        return f"Error: {file_note(error, kind, path, self.workspace.inner)}"


_MULTIPLE: Final = "occurs multiple times; give more of the text around it, or use replace_all=True"


def _page(text: str, *, has_more: bool) -> str:
    """Return a page as commands of the framework would print it: bounded, without a last line end."""
    if len(data := text.encode()) > MAX_OUTPUT_BYTES:
        return data[: MAX_OUTPUT_BYTES - len(TRUNCATION_MSG)].decode("utf-8", "ignore") + TRUNCATION_MSG
    return text.removesuffix("\n") if has_more else text


_CODES: Final = {
    errno.ENOENT: "file_not_found",
    errno.EISDIR: "is_directory",
    errno.EACCES: "permission_denied",
    errno.EPERM: "permission_denied",
    errno.EROFS: "permission_denied",
}
