"""A network of the test's own: servers with addresses of documentation, under names that only it knows.

    python -m tests.sandbox.network_ground DIRECTORY COMMAND [ARGUMENT]...

runs a command there, in network and mount namespaces that end with it: the loopback interface has further
addresses, and /etc/hosts is another file. Servers answer as long as the command runs. `DIRECTORY/www` is
served as files; other paths are answered with the host that was asked, the method and the path. What is below
`/private` there is for whoever shows an authorization; `DIRECTORY/requests` tells what was shown. A host has
the certificate of `DIRECTORY/NAME.pem`, if there is one.
"""

from __future__ import annotations

import fcntl
import os
import socket
import ssl
import struct
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.tls import CERT, KEY

GOOD, OTHER, PRIVATE, LOCAL = "good.test", "other.test", "private.test", "local.test"
ADDRESSES = {GOOD: "192.0.2.10", OTHER: "198.51.100.20", PRIVATE: "10.1.2.3", LOCAL: "127.0.0.1"}

_SIOCSIFADDR, _SIOCSIFFLAGS, _IFF_UP = 0x8916, 0x8914, 1


class NetworkGround:
    """Runs commands in such a network, in a directory of the test that is not below /tmp."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.files = directory / "www"
        self.work = directory / "work"
        for made in (self.files, self.work):
            made.mkdir()

    def argv(self, *words: str) -> list[str]:
        """Give the command line that runs one there."""
        # Whoever is not root is root in a user namespace, and so may set up the others.
        own = ["--map-root-user"] if os.geteuid() else []
        spaces = ["unshare", *own, "--mount", "--net", "--"]
        return [*spaces, sys.executable, "-m", "tests.sandbox.network_ground", str(self.directory), *words]

    def run(self, *words: str, timeout_s: float = 50, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a command there, to its end."""
        kept = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
        return subprocess.run(
            self.argv(*words),
            env={**kept, "PYTHONPATH": str(Path(__file__).parents[2]), **variables},
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
            stdin=subprocess.DEVNULL,
        )


def _set_up_network() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, _SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", _IFF_UP))
        for number, address in enumerate(ADDRESSES.values()):
            if address.startswith("127."):
                continue
            entry = struct.pack(
                "16sH2x4s8x", f"lo:{number}".encode(), socket.AF_INET, socket.inet_aton(address)
            )
            fcntl.ioctl(control, _SIOCSIFADDR, entry)


def _set_up_names(directory: Path) -> None:
    hosts = directory / "hosts"
    lines = ["127.0.0.1 localhost", *(f"{address} {name}" for name, address in ADDRESSES.items())]
    hosts.write_text("\n".join(lines) + "\n")
    resolver = directory / "resolv.conf"
    # Nobody answers there, and that is known at once.
    resolver.write_text("nameserver 127.0.0.1\noptions timeout:1 attempts:1\n")
    # The one of the host is shared with whoever tests something else there at the same time.
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=1777", "tmpfs", "/tmp"], check=True)
    for own, place in ((hosts, "/etc/hosts"), (resolver, "/etc/resolv.conf")):
        subprocess.run(["mount", "--bind", str(own), os.path.realpath(place)], check=True)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    files: Path

    def do_GET(self) -> None:
        authorization = self.headers.get("Authorization", "")
        with (self.files.parent / "requests").open("a") as log:
            log.write(f"{self.headers['Host']} {self.path} {authorization}\n")
        if self.path.startswith("/private/") and not authorization:
            self._answer(b"who are you?\n", 401, **{"WWW-Authenticate": "Basic realm=private"})
            return
        file = self.files / self.path.partition("?")[0].lstrip("/")
        if file.is_dir() and (file / "index.html").exists():
            file /= "index.html"
        if file.is_file():
            self._answer(file.read_bytes())
        elif self.path.startswith("/redirect-to-other"):
            self._answer(b"", 302, Location=f"http://{OTHER}/from-there")
        elif self.path.startswith("/redirect-to-private"):
            self._answer(b"", 302, Location=f"http://{ADDRESSES[PRIVATE]}/")
        elif self.path.startswith(("/missing", "/repository")):
            self._answer(b"no such file\n", 404)
        else:
            self._answer(f"{self.headers['Host']} {self.command} {self.path} {authorization}\n".encode())

    def do_POST(self) -> None:
        size = int(self.headers.get("Content-Length", 0))
        self._answer(f"{len(self.rfile.read(size))} bytes\n".encode())

    def _answer(self, body: bytes, status: int = 200, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        kind = "text/html" if body.startswith(b"<!") else "application/octet-stream"
        self.send_header("Content-Type", "application/json" if body.startswith(b"{") else kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 1024


def _serve(files: Path) -> None:
    handler = type("Handler", (_Handler,), {"files": files})
    for name, address in ADDRESSES.items():
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        own = files.parent / f"{name}.pem"
        context.load_cert_chain(*((own,) if own.exists() else (CERT, KEY)))
        for port in (80, 443, 8080):
            server = _Server((address, port), handler)
            if port == 443:
                server.socket = context.wrap_socket(server.socket, server_side=True)
            threading.Thread(target=server.serve_forever, daemon=True).start()


def main() -> int:
    """Set everything up, and run the command."""
    directory = Path(sys.argv[1])
    _set_up_network()
    _set_up_names(directory)
    _serve(directory / "www")
    return subprocess.run(sys.argv[2:], cwd=directory / "work", check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
