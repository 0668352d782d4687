"""Server-sent events of a body that comes in pieces."""

from __future__ import annotations

from collections.abc import Iterator

DONE = b"[DONE]"


class EventSplitter:
    """Bytes in, data of events out. Lines may end in LF or CR LF, anywhere between two pieces."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[tuple[bytes, bytes]]:
        """(name, data) of each event that is whole now; without a name of its own it is b"". Comments are dropped."""
        whole = self._rest + data
        if b"\r" in whole:
            whole = whole.replace(b"\r\n", b"\n")
        *blocks, self._rest = whole.split(b"\n\n")
        for block in blocks:
            if event := _read(block):
                yield event

    def close(self) -> Iterator[tuple[bytes, bytes]]:
        """A last event that was not followed by an empty line."""
        return self.feed(b"\n\n")


def _read(block: bytes) -> tuple[bytes, bytes] | None:
    if block.startswith(b"data: ") and b"\n" not in block:  # nearly all of them
        return b"", block[6:]
    name, lines = b"", []
    for line in block.split(b"\n"):
        field, _, value = line.partition(b":")
        if field == b"data":
            lines.append(value.removeprefix(b" "))
        elif field == b"event":
            name = value.strip()
    return (name, b"\n".join(lines)) if lines else None
