"""A stand-in for Anthropic's API on the loopback: a model that follows a script, a queue with one session.

It answers what the SDK asks for and keeps what the model would have read.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Call = tuple[str, dict[str, Any]]
NOW = "2026-01-01T00:00:00Z"
WORK = {
    "id": "work_1",
    "type": "work",
    "created_at": NOW,
    "data": {"type": "session", "id": "session_1"},
    "environment_id": "env_1",
    "metadata": {},
    "state": "queued",
}
SESSION = {
    "id": "session_1",
    "type": "session",
    "agent": {"id": "agent_1", "type": "agent", "skills": []},
    "created_at": NOW,
    "updated_at": NOW,
    "environment_id": "env_1",
    "metadata": {},
    "outcome_evaluations": [],
    "resources": [],
    "stats": {},
    "status": "running",
    "usage": {},
    "vault_ids": [],
}
HEARTBEAT = {"type": "work_heartbeat", "last_heartbeat": NOW, "lease_extended": True, "state": "active"}


class Endpoint:
    """What the model calls, one call a turn, and what it reads after each."""

    def __init__(self, *calls: Call) -> None:
        self.calls = calls
        self.told: list[str] = []
        self.errors: list[bool] = []
        self.tools: list[dict[str, Any]] = []
        self.is_stopped = threading.Event()
        self.url = ""
        self._is_claimed = False
        self._all_told = threading.Event()

    def get(self, path: str) -> Any:
        """Answer a GET request; None is an empty queue."""
        match path.strip("/").split("/")[1:]:
            case ["environments", _, "work", "poll"]:
                was_claimed, self._is_claimed = self._is_claimed, True
                return None if was_claimed else WORK
            case ["sessions", _]:
                return SESSION
            case ["sessions", _, "events"]:
                return {"data": [self._event(*each) for each in enumerate(self.calls)], "next_page": None}
        raise LookupError(path)

    def post(self, path: str, body: dict[str, Any]) -> Any:
        """Answer a POST request."""
        match path.strip("/").split("/")[1:]:
            case ["messages"]:
                return self._message(body)
            case ["environments", _, "work", _, "heartbeat"]:
                return HEARTBEAT | {"ttl_seconds": 60}
            case ["environments", _, "work", _, "ack"]:
                return WORK
            case ["environments", _, "work", _, "stop"]:
                self.is_stopped.set()
                return WORK
            case ["sessions", _, "events"]:
                for event in body["events"]:
                    self._read(event)
                return {"data": body["events"]}
        raise LookupError(path)

    def stream(self) -> Iterator[dict[str, Any]]:
        """Yield the events of the session: its end, when the model has read everything."""
        self._all_told.wait(60)
        yield {"type": "session.status_terminated", "id": "event_end", "processed_at": NOW}

    def _message(self, body: dict[str, Any]) -> dict[str, Any]:
        # A request that goes on with a thread says only what is new.
        self.tools = body.get("tools", self.tools)
        last = body["messages"][-1]
        for block in last["content"] if isinstance(last["content"], list) else []:
            if block["type"] == "tool_result":
                self._read(block)
        turn = len(self.told)
        if turn < len(self.calls):
            name, arguments = self.calls[turn]
            block = {"type": "tool_use", "id": f"toolu_{turn}", "name": name, "input": arguments}
        else:
            block = {"type": "text", "text": "Done."}
        return {
            "id": f"msg_{turn}",
            "type": "message",
            "role": "assistant",
            "model": "scripted",
            "content": [block],
            "stop_reason": "tool_use" if block["type"] == "tool_use" else "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": 1, "output_tokens": 1},
        }

    def _event(self, number: int, call: Call) -> dict[str, Any]:
        name, arguments = call
        return {
            "type": "agent.tool_use",
            "id": f"event_{number}",
            "name": name,
            "input": arguments,
            "processed_at": NOW,
        }

    def _read(self, result: dict[str, Any]) -> None:
        content = result["content"]
        text = content if isinstance(content, str) else "".join(each.get("text", "") for each in content)
        self.told.append(text)
        self.errors.append(bool(result.get("is_error")))
        if len(self.told) == len(self.calls):
            self._all_told.set()


@contextmanager
def serving(endpoint: Endpoint) -> Iterator[Endpoint]:
    """Serve an endpoint on a free port of the loopback."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            if path.endswith("/stream"):
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.send_header("Connection", "close")
                self.end_headers()
                for event in endpoint.stream():
                    self.wfile.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())
                self.close_connection = True
                return
            self._answer(endpoint.get(path))

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self._answer(endpoint.post(self.path.partition("?")[0], json.loads(body or b"{}")))

        def _answer(self, value: Any) -> None:
            data = json.dumps(value).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *arguments: Any) -> None:
            """Stay silent."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        endpoint.url = f"http://127.0.0.1:{server.server_address[1]}"
        try:
            yield endpoint
        finally:
            server.shutdown()
            thread.join()
