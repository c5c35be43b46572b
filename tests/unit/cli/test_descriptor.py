from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

from paddock.cli.descriptor import write_all


def test_an_output_that_somebody_made_non_blocking_gets_everything() -> None:
    data = bytes(range(256)) * 4096
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with os.fdopen(reading, "rb") as output, ThreadPoolExecutor(1) as pool:
        written = pool.submit(write_all, writing, data)
        written.add_done_callback(lambda _: os.close(writing))
        assert output.read() == data
        written.result()
