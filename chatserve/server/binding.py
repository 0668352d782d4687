"""The listening socket: taken before anything slow is begun, so that a taken port is known at once."""

from __future__ import annotations

import errno
import socket
from typing import Any

BACKLOG = 2048
UNREAD_SECONDS = 120
SEND_BUFFER = 128 * 1024


class CannotBind(Exception):
    """The address cannot be listened on; the message says why and what to do."""


def bind(host: str, port: int, *, send_buffer: int = SEND_BUFFER) -> socket.socket:
    """A socket that listens on the address; connections wait in it until they are served. Raises CannotBind.

    send_buffer: bytes the system may hold for one reader; left to itself it grows to megabytes for each that stalls.
    """
    return bind_several(host, port, 1, send_buffer=send_buffer)[0]


def bind_several(host: str, port: int, count: int, *, send_buffer: int = SEND_BUFFER) -> list[socket.socket]:
    """So many sockets that listen on one address; the system spreads connections over them. Raises CannotBind."""
    if not 0 <= port <= 65535:
        raise CannotBind(f"{host}:{port} is no address to listen on: ports are 0 to 65535.")
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    except (socket.gaierror, UnicodeError) as error:
        raise CannotBind(f"{host}:{port} is no address to listen on: {error}.") from None
    family, kind, protocol, _, address = found
    sockets: list[socket.socket] = []
    try:
        for number in range(count):
            sockets.append(socket.socket(family, kind, protocol))
            _listen(sockets[-1], address, send_buffer, first=number == 0, shared=count > 1)
            address = sockets[-1].getsockname()  # port 0 was any port
    except OSError as error:
        for each in sockets:
            each.close()
        raise CannotBind(_reason(host, port, error)) from None
    return sockets


def _listen(listening: socket.socket, address: Any, send_buffer: int, *, first: bool, shared: bool) -> None:
    """The first takes the port for itself, so that no other program has it already, and only then shares it."""
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a port left a moment ago is free
    # Accepted sockets inherit both. What a dead or stalled reader never takes is not kept for ever.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNREAD_SECONDS * 1000)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer)
    if shared and not first:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    listening.bind(address)
    if shared and first:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    listening.listen(BACKLOG)  # binding alone would not keep another server out
    listening.setblocking(False)


def _reason(host: str, port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"Port {port} of {host} is taken by another program. Stop it, or choose another port."
    if error.errno == errno.EACCES:
        return f"Port {port} of {host} needs rights this program lacks. Choose one above 1023."
    return f"{host}:{port} cannot be listened on: {error.strerror}."
