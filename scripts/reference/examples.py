"""One conversation with a server, which shows every method.

The tests hold it with a real server, message by message, so that the page shows what
happens. What differs from run to run is marked with `Varies`: its type is compared, not its value.
Files are below `/work`, in whose place the tests have a directory of their own.
"""

from __future__ import annotations

from itertools import groupby

from scripts.reference.example import Example, Varies

_ENVIRONMENT = Varies(
    {
        "shell": {"name": "bash", "path": "/bin/bash"},
        "executorVersion": "0.1.0",
        "providerId": "sha256:1f0c…",
        "cwd": "file:///home/me",
        "userHomeDir": "file:///home/me",
        "platformOs": "linux",
        "prependPathDirs": [],
        "temporaryDirectories": [],
        "tempDir": "file:///tmp",
        "capabilities": {"processWait": True, "outputGaps": True},
    }
)

_CAT = {
    "processId": "cat",
    "argv": ["cat"],
    "cwd": "/",
    "env": {"PATH": "/usr/bin:/bin"},
    "tty": False,
    "pipeStdin": True,
}

_STARTED_AT = _MOMENT = Varies(1772600767890)
_USAGE = Varies({"wallMs": 3, "userMs": 1, "systemMs": 1, "peakMemoryBytes": 3670016})

_FILES = (
    Example("fs/createDirectory", "Make a directory, with its parents", {"path": "/work/notes/old"}, {}),
    Example(
        "fs/writeFile",
        "Write `hello` as a whole: nobody sees half of it",
        {"path": "/work/notes/today", "dataBase64": "aGVsbG8=", "atomic": True},
        {},
    ),
    Example("fs/readFile", "Read it", {"path": "/work/notes/today"}, {"dataBase64": "aGVsbG8="}),
    Example(
        "fs/readFile",
        "A file that is not there",
        {"path": "/work/notes/tomorrow"},
        error={
            "code": -32004,
            "message": "can't open '/work/notes/tomorrow': No such file or directory (os error 2)",
            "data": {"name": "fileError", "errno": 2, "path": "/work/notes/tomorrow"},
        },
    ),
    Example(
        "fs/getMetadata",
        "Ask what it is",
        {"path": "/work/notes/today", "followSymlinks": False},
        {
            "isDirectory": False,
            "isFile": True,
            "isSymlink": False,
            "size": 5,
            "createdAtMs": _MOMENT,
            "modifiedAtMs": _MOMENT,
            "mode": 420,
        },
    ),
    Example("fs/chmod", "Let everybody execute it", {"path": "/work/notes/today", "mode": 493}, {}),
    Example(
        "fs/copy",
        "Copy it",
        {"sourcePath": "/work/notes/today", "destinationPath": "/work/notes/old/copy", "recursive": False},
        {},
    ),
    Example(
        "fs/move",
        "Give the copy another name",
        {"sourcePath": "/work/notes/old/copy", "destinationPath": "/work/notes/old/kept"},
        {},
    ),
    Example(
        "fs/move",
        "Take that back",
        {"sourcePath": "/work/notes/old/kept", "destinationPath": "/work/notes/old/copy"},
        {},
    ),
    Example(
        "fs/readDirectory",
        "List a directory",
        {"path": "/work/notes/old"},
        {"entries": [{"fileName": "copy", "isDirectory": False, "isFile": True}]},
    ),
    Example(
        "fs/walk",
        "List a tree; a URI is answered with URIs",
        {
            "path": "file:///work/notes",
            "options": {
                "maxDepth": 64,
                "maxDirectories": 100,
                "maxEntries": 1000,
                "followDirectorySymlinks": False,
            },
        },
        {
            "entries": [
                {"path": "file:///work/notes/old", "kind": "directory"},
                {"path": "file:///work/notes/today", "kind": "file"},
                {"path": "file:///work/notes/old/copy", "kind": "file"},
            ],
            "errors": [],
            "truncated": False,
        },
    ),
    Example(
        "fs/canonicalize",
        "Find the path without links and dots",
        {"path": "/work/notes/old/../today"},
        {"path": "/work/notes/today"},
    ),
    Example(
        "fs/open",
        "Open a file to write it in blocks",
        {"handleId": "upload", "path": "/work/notes/large", "mode": "replace"},
        {"handleId": "upload"},
    ),
    Example("fs/writeBlock", "Write a block", {"handleId": "upload", "offset": 0, "chunk": "aGVsbG8="}, {}),
    Example("fs/close", "Close it", {"handleId": "upload"}, {}),
    Example(
        "fs/open",
        "Open it to read it in blocks",
        {"handleId": "download", "path": "/work/notes/large"},
        {"handleId": "download"},
    ),
    Example(
        "fs/readBlock",
        "Read a block; there were fewer bytes than asked for",
        {"handleId": "download", "offset": 0, "len": 1048576},
        {"eof": True, "chunk": "aGVsbG8="},
    ),
    Example(
        "fs/search",
        "Find a text in all files",
        {"path": "/work/notes", "pattern": "ell", "maxMatches": 1},
        {
            "matches": [
                {"path": "/work/notes/large", "line": 1, "column": 2, "text": "hello", "cut": False},
            ],
            "errors": [],
            "truncated": True,
        },
    ),
    Example(
        "fs/watch",
        "Be told of changes in a directory",
        {"path": "/work/notes", "recursive": True},
        {"watchId": 1},
    ),
    Example(
        "fs/edit",
        "Replace a text that occurs once; the directory is watched",
        {"path": "/work/notes/today", "edits": [{"old": "hello", "new": "good bye"}]},
        {
            "diff": "--- /work/notes/today\n+++ /work/notes/today\n@@ -1,1 +1,1 @@\n"
            "-hello\n\\ No newline at end of file\n+good bye\n\\ No newline at end of file\n"
        },
        events=(
            (
                "fs/changed",
                {
                    "watchId": 1,
                    "events": [{"path": "/work/notes/today", "kind": "modified"}],
                    "overflow": False,
                },
            ),
        ),
    ),
    Example(
        "fs/edit",
        "Replace a text that is not there",
        {"path": "/work/notes/today", "edits": [{"old": "hello", "new": "good bye"}]},
        error={
            "code": -32600,
            "message": "edit 1: its old text occurs 0 times and must occur once; nothing was changed; "
            "read the file again",
        },
    ),
    Example("fs/unwatch", "Be told no more", {"watchId": 1}, {}),
    Example(
        "fs/watchMissing",
        "Be told when a file appears",
        {"watchId": 7, "missing": ["/work/notes/tomorrow"]},
        {"watching": True},
    ),
    Example("fs/remove", "Remove everything", {"path": "/work/notes"}, {}),
)

CONVERSATION = (
    Example(
        "initialize",
        "Open a session, and ask for extensions",
        {
            "clientName": "example",
            "capabilities": {"extensions": True, "notifications": ["process/started"]},
        },
        {"sessionId": Varies("7b1c4c3e-52a8-4f0e-9a55-3e1f6a0f9d11"), "environmentInfo": _ENVIRONMENT},
    ),
    Example("environment/info", "Ask about the host", None, _ENVIRONMENT),
    Example("environment/status", "Ask whether commands are taken", None, {"status": "ready"}),
    Example(
        "process/start",
        "Start a process on pipes that can be written to",
        _CAT,
        {"processId": "cat", "sandboxType": "none"},
        events=(("process/started", {"processId": "cat", "startedAtMs": _STARTED_AT}),),
    ),
    Example(
        "process/write",
        "Write `hello`, which comes back",
        {"processId": "cat", "chunk": "aGVsbG8K", "writeId": "1"},
        {"status": "accepted"},
        events=(("process/output", {"processId": "cat", "seq": 1, "stream": "stdout", "chunk": "aGVsbG8K"}),),
    ),
    Example(
        "process/read",
        "Read what is retained",
        {"processId": "cat", "afterSeq": 0, "waitMs": 1000},
        {
            "chunks": [{"seq": 1, "stream": "stdout", "chunk": "aGVsbG8K"}],
            "nextSeq": 2,
            "exited": False,
            "exitCode": None,
            "closed": False,
            "failure": None,
            "sandboxDenied": False,
            "gaps": [],
        },
    ),
    Example(
        "process/read",
        "A process that is not there",
        {"processId": "dog"},
        error={
            "code": -32600,
            "message": "unknown process id 'dog': never started here, or forgotten after it closed",
            "data": {"name": "unknownProcess", "processId": "dog"},
        },
    ),
    Example(
        "process/list",
        "List the processes of the session",
        None,
        {
            "processes": [
                {
                    "processId": "cat",
                    "argv": ["cat"],
                    "cwd": "/",
                    "tty": False,
                    "running": True,
                    "exitCode": None,
                    "startedAtMs": _STARTED_AT,
                }
            ]
        },
    ),
    Example(
        "process/closeStdin",
        "End the input, and with it the process",
        {"processId": "cat"},
        {},
        events=(
            (
                "process/exited",
                {
                    "processId": "cat",
                    "seq": 2,
                    "exitCode": 0,
                    "sandboxDenied": False,
                    "cause": "exit",
                    "usage": _USAGE,
                },
            ),
            ("process/closed", {"processId": "cat", "seq": 3}),
        ),
    ),
    Example(
        "process/wait",
        "Wait for the exit; here it has been seen already",
        {"processId": "cat", "timeoutMs": 1000},
        {
            "exited": True,
            "exitCode": 0,
            "closed": True,
            "sandboxDenied": False,
            "cause": "exit",
            "usage": _USAGE,
        },
    ),
    Example(
        "process/snapshot",
        "Look at everything that it wrote",
        {"processId": "cat"},
        {
            "stdout": "aGVsbG8K",
            "stderr": "",
            "terminal": "",
            "truncated": False,
            "omittedBytes": {"stdout": 0, "stderr": 0, "terminal": 0},
            "exitCode": 0,
            "running": False,
            "sandboxDenied": False,
            "cause": "exit",
            "usage": _USAGE,
        },
    ),
    Example(
        "process/start",
        "Start one on a terminal, once, even if the request is repeated",
        {
            "processId": "sleep",
            "argv": ["sleep", "1000"],
            "cwd": "/",
            "env": {"PATH": "/usr/bin:/bin"},
            "io": {"pty": {"rows": 24, "cols": 80}},
            "idempotencyKey": "sleep-1",
        },
        {"processId": "sleep", "sandboxType": "none"},
        events=(("process/started", {"processId": "sleep", "startedAtMs": _STARTED_AT}),),
    ),
    Example("process/resize", "Resize its window", {"processId": "sleep", "rows": 50, "cols": 132}, {}),
    Example(
        "network/policyUpdate",
        "Let all processes whose network is proxied reach a host",
        {"session": True, "allow": ["*.example.com"], "deny": ["old.example.com"]},
        {},
    ),
    Example("process/signal", "Send its group a signal", {"processId": "sleep", "signal": "SIGCONT"}, {}),
    Example(
        "process/terminate",
        "SIGTERM, and SIGKILL after half a second if need be",
        {"processId": "sleep", "mode": {"graceful": {"timeoutMs": 500}}},
        {"running": True},
        events=(
            (
                "process/exited",
                {
                    "processId": "sleep",
                    "seq": 1,
                    "exitCode": 143,
                    "sandboxDenied": False,
                    "cause": "terminated",
                    "usage": _USAGE,
                },
            ),
            ("process/closed", {"processId": "sleep", "seq": 2}),
        ),
    ),
    *_FILES,
    Example(
        "http/request",
        "Ask for something that cannot be had from this host",
        {
            "method": "GET",
            "url": "http://127.0.0.1:1/",
            "requestId": "r1",
            "headers": [{"name": "Accept", "value": "application/json"}],
            "timeoutMs": 5000,
        },
        error={
            "code": -32603,
            "message": "http/request failed: error sending request for url (http://127.0.0.1:1/): "
            "Connection refused",
        },
    ),
    Example(
        "environmentConfig/read",
        "Ask what Codex's configuration on the host says about one key",
        {"cwd": "/", "configPaths": [["model"]], "requirementsPaths": []},
        Varies(
            {
                "userHomeDir": "file:///home/me",
                "codexHomeDir": "file:///home/me/.codex",
                "hostname": "box",
                "config": {
                    "layers": [
                        {
                            "source": "user (/home/me/.codex/config.toml)",
                            "baseDir": "file:///home/me/.codex",
                            "toml": 'model = "large"\n',
                        }
                    ],
                    "cloudInsertionIndex": 0,
                },
                "requirements": {"layers": [], "cloudInsertionIndex": 0},
            }
        ),
    ),
    Example(
        "capabilityRoots/discoverV1",
        "Look for plugins and skills in a directory that is not there",
        {"roots": [{"id": "mine", "path": "/nonexistent"}]},
        {
            "roots": [
                {
                    "id": "mine",
                    "path": "/nonexistent",
                    "plugin": None,
                    "skills": [],
                    "namespaceManifests": [],
                    "warnings": [],
                    "error": "failed to inspect capability root /nonexistent: "
                    "No such file or directory (os error 2)",
                }
            ]
        },
    ),
    Example(
        "capabilities/discoverV2",
        "Look for what the user of the host has installed",
        {"cwd": "/"},
        Varies(
            {
                "plugins": [],
                "skills": [
                    {
                        "name": "review",
                        "description": "Reviews a change",
                        "shortDescription": None,
                        "path": "/home/me/.agents/skills/review/SKILL.md",
                        "discoveryRoot": {"id": "user-agent-skills", "path": "/home/me/.agents/skills"},
                        "dependencies": None,
                        "policy": None,
                    }
                ],
                "warnings": [],
            }
        ),
    ),
    Example(
        "control/status",
        "See every session, as an operator",
        None,
        Varies(
            {
                "server": {"pid": 4321, "url": "ws://127.0.0.1:4100", "version": "0.1.0", "uptimeMs": 60000},
                "sessions": [
                    {
                        "sessionId": "7b1c4c3e-52a8-4f0e-9a55-3e1f6a0f9d11",
                        "clientName": "example",
                        "attached": True,
                        "processes": [],
                    }
                ],
            }
        ),
        is_operators=True,
    ),
    Example(
        "control/questions",
        "See what waits for an answer, as an operator",
        None,
        Varies(
            {
                "questions": [
                    {
                        "questionId": "5a0c3d1e-8f0b-4a8e-b1d0-6b7f2c9e4a10",
                        "sessionId": "7b1c4c3e-52a8-4f0e-9a55-3e1f6a0f9d11",
                        "clientName": "example",
                        "processId": "build",
                        "method": "process/execApproval",
                        "params": {
                            "questionId": "5a0c3d1e-8f0b-4a8e-b1d0-6b7f2c9e4a10",
                            "processId": "build",
                            "execId": "12",
                            "program": "/usr/bin/git",
                            "argv": ["git", "push"],
                            "cwd": "/work",
                            "matches": [],
                            "reason": "`git push` requires approval: these rules are broken: git.rules",
                        },
                        "sent": True,
                        "waitedMs": 1500,
                        "timeLeftMs": 58500,
                    }
                ],
                "omitted": 0,
            }
        ),
        is_operators=True,
    ),
    Example(
        "control/answer",
        "Answer a question that somebody else has answered already",
        {"questionId": "5a0c3d1e-8f0b-4a8e-b1d0-6b7f2c9e4a10", "result": {"verdict": "run"}},
        error={
            "code": -32600,
            "message": "question '5a0c3d1e-8f0b-4a8e-b1d0-6b7f2c9e4a10' is not open: it was never asked, "
            "or is answered, withdrawn or timed out",
        },
        is_operators=True,
    ),
)
"""In the order in which they are held."""

EXAMPLES: dict[str, tuple[Example, ...]] = {
    method: tuple(examples)
    for method, examples in groupby(
        sorted(CONVERSATION, key=lambda example: example.method), key=lambda example: example.method
    )
}
"""By method."""
