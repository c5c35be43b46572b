"""The addresses of this host's interfaces, as the kernel tells them."""

from __future__ import annotations

import socket
import subprocess
import sys
from ipaddress import ip_address
from pathlib import Path

import pytest

from paddock.network import own_address
from paddock.network.own_address import own_addresses


def test_they_are_this_hosts_and_none_is_of_the_loopback_interface() -> None:
    found = own_addresses()
    assert not found & {ip_address("127.0.0.1"), ip_address("::1")}
    for address in found:
        if address.version == 4:
            # Nobody else's can be bound.
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as bound:
                bound.bind((str(address), 0))


def test_names_of_interfaces_may_have_any_bytes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    table = tmp_path / "if_inet6"
    table.write_bytes(
        b"00000000000000000000000000000001 01 80 10 80       lo\n"
        b"fe800000000000000000000000000001 02 40 20 80 \xc3\xbc\xff\x1d0\n"
    )
    monkeypatch.setattr(own_address, "_IPV6_TABLE", str(table))
    found = own_addresses()
    assert ip_address("fe80::1") in found
    assert ip_address("::1") not in found


def test_the_way_out_of_this_host_begins_at_one_of_them() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as leaving:
        try:
            # Datagrams are connected without a packet.
            leaving.connect(("198.51.100.1", 9))
        except OSError:
            # A host without a network.
            return
        address = ip_address(leaving.getsockname()[0])
    assert address.is_loopback or address in own_addresses()


def test_there_are_none_where_there_is_no_interface() -> None:
    code = "from paddock.network.own_address import own_addresses; print(sorted(own_addresses()))"
    spaces = ["unshare", "--map-root-user", "--net", "--"]
    done = subprocess.run([*spaces, sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "[]\n" or "unshare" in done.stderr
