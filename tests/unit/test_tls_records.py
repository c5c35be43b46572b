"""The records of TLS in a stream, however it is cut."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from paddock.tls_records import HEAD_BYTES, TlsRecords


def record(size: int) -> bytes:
    return b"\x17\x03\x03" + size.to_bytes(2) + bytes(size)


@given(
    st.lists(st.integers(0, 40), max_size=30), st.lists(st.integers(1, 60), max_size=60), st.integers(1, 5)
)
def test_so_many_records_are_taken_and_nothing_is_lost(sizes: list[int], cuts: list[int], limit: int) -> None:
    stream = b"".join(map(record, sizes))
    ends = {sum(map(len, map(record, sizes[: count + 1]))) for count in range(len(sizes))}
    records, kept, at = TlsRecords(), bytearray(), 0
    for cut in (*cuts, len(stream)):
        kept += stream[at + len(kept) : at + len(kept) + cut]
        while records.has_more(kept):
            size = records.take(kept, limit)
            assert 0 < size <= len(kept)
            assert sum(at < end < at + size for end in ends) < limit
            at += size
            del kept[:size]
        assert len(kept) < HEAD_BYTES
        assert records.take(kept, limit) == 0
    assert at == len(stream)


def test_head_is_not_taken_before_it_is_whole() -> None:
    records = TlsRecords()
    assert records.take(record(3)[:4], 1) == 0
    assert records.take(record(3)[:6], 1) == 6
    assert records.has_more(b"x")
    assert records.take(bytes(2) + record(0), 1) == 2
    assert records.take(record(0), 1) == HEAD_BYTES
