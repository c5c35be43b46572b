"""How attributes of objects that serve every message, or exist once for each process, are stored.

CPython 3.11 keeps at most 29 attributes of an object in place. With one more the object gets a table of its
own, which takes 1.3 kB and slows every access. Slots have no such limit.
"""

from __future__ import annotations

from pathlib import Path

from tests.wire import attach, served


async def test_no_connection_or_process_has_a_table_of_attributes_of_its_own(tmp_path: Path) -> None:
    async with served() as server:
        client = attach(server)
        await client.initialize()
        await client.start("p", "/bin/sleep", "1000")
        await client.call("fs/getMetadata", {"path": tmp_path.as_uri()})

        (connection,) = server._connections
        process = connection.session.get("p").managed

        assert vars(connection) == {}
        assert not hasattr(process, "__dict__")
