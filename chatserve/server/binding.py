"""The listening socket: taken before anything slow is begun, so that a taken port is known at once."""

from __future__ import annotations

import errno
import socket

BACKLOG = 2048
UNREAD_SECONDS = 120
SEND_BUFFER = 128 * 1024


class CannotBind(Exception):
    """The address cannot be listened on; the message says why and what to do."""


def bind(host: str, port: int, *, send_buffer: int = SEND_BUFFER) -> socket.socket:
    """A socket that listens on the address; connections wait in it until they are served. Raises CannotBind.

    send_buffer: bytes the system may hold for one reader; left to itself it grows to megabytes for each that stalls.
    """
    if not 0 <= port <= 65535:
        raise CannotBind(f"{host}:{port} is no address to listen on: ports are 0 to 65535.")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (socket.gaierror, UnicodeError) as error:
        raise CannotBind(f"{host}:{port} is no address to listen on: {error}.") from None
    listening = socket.socket(family, kind, protocol)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a port left a moment ago is free
        # Accepted sockets inherit both. What a dead or stalled reader never takes is not kept for ever.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNREAD_SECONDS * 1000)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer)
        listening.bind(address)
        listening.listen(BACKLOG)  # binding alone would not keep another server out
        listening.setblocking(False)
    except OSError as error:
        listening.close()
        raise CannotBind(_reason(host, port, error)) from None
    return listening


def _reason(host: str, port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"Port {port} of {host} is taken by another program. Stop it, or choose another port."
    if error.errno == errno.EACCES:
        return f"Port {port} of {host} needs rights this program lacks. Choose one above 1023."
    return f"{host}:{port} cannot be listened on: {error.strerror}."
