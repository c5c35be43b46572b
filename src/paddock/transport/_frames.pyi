def take_plain(
    view: memoryview,
    begin: int,
    end: int,
    is_masked: bool,
    max_bytes: int,
    small_bytes: int,
    max_messages: int,
    /,
) -> tuple[list[bytes | memoryview], int]: ...
def apply_mask(data: bytearray | memoryview, key: bytes | memoryview, /) -> None: ...
