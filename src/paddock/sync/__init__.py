"""The client for programs that do not use asyncio: scripts, notebooks, threads.

    import paddock.sync

    with paddock.sync.connect() as box:
        print(box.run(["uname", "-a"]).stdout.decode())

Everything works as in the asynchronous client, but blocks. Each box has an event loop in a thread of its own,
so it works where a loop runs already, as in Jupyter. Boxes and processes may be used from any thread.
"""

from paddock.sync.box import Box, connect
from paddock.sync.files import Files, RemotePath, RemoteReader, RemoteWriter
from paddock.sync.process import Process
from paddock.sync.workspace import Workspace

__all__ = ["Box", "Files", "Process", "RemotePath", "RemoteReader", "RemoteWriter", "Workspace", "connect"]
