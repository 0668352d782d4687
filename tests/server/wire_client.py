"""A client made of a bare socket: it sees every byte, and can stall, dawdle and vanish."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from typing import Any


class WireClient:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self._writer = writer

    @classmethod
    async def connect(cls, port: int, *, receive_buffer: int | None = None) -> WireClient:
        """receive_buffer: bytes the kernel may hold for us; small makes a stalled reader felt at once."""
        sock = socket.socket()
        if receive_buffer is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", port))
        limit = 2**16 if receive_buffer is None else 256
        return cls(*await asyncio.open_connection(sock=sock, limit=limit))

    async def post(self, path: str, body: dict[str, Any], **headers: str) -> None:
        data = json.dumps(body).encode()
        lines = [
            f"POST {path} HTTP/1.1",
            "Host: test",
            "Content-Type: application/json",
            f"Content-Length: {len(data)}",
        ]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        self._writer.write("\r\n".join([*lines, "", ""]).encode() + data)
        await self._writer.drain()

    async def send(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def head(self) -> tuple[int, dict[str, str]]:
        """Status and headers of the response."""
        lines = (await self.reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines[1:] if line)
        return int(lines[0].split()[1]), {name.lower(): value for name, value in headers.items()}

    async def chunk(self) -> bytes:
        """One chunk of a chunked body: one event. Empty at the end."""
        size = int((await self.reader.readuntil(b"\r\n")).strip(), 16)
        data = await self.reader.readexactly(size)
        await self.reader.readexactly(2)
        return data

    async def events(self) -> list[bytes]:
        """All that is still to come."""
        events = []
        while event := await self.chunk():
            events.append(event)
        return events

    async def json(self, headers: dict[str, str]) -> Any:
        return json.loads(await self.reader.readexactly(int(headers["content-length"])))

    def vanish(self) -> None:
        """Gone without a word (a reset)."""
        self._writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()

    def close(self) -> None:
        self._writer.close()
