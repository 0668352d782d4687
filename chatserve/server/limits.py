"""What one server allows, apart from what its model and engine can hold."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """Sizes in bytes or items, times in seconds.

    body_bytes: a request's body; one past it is refused while it is read.
    body_seconds: how long a body may take to arrive.
    messages: messages in one request.
    text: characters of all messages, or of the prompt, in one request.
    inline_text: characters of new text that are encoded on the event loop; longer text goes to a thread.
    encoders: threads that encode long text at once; further ones wait their turn.
    ping_seconds: silence on a stream after which a comment line is sent.
    send_seconds: how long a reader may leave a stream unread before its answer is ended.
    """

    body_bytes: int = 2 * 1024 * 1024
    body_seconds: float = 30.0
    messages: int = 4096
    text: int = 1_000_000
    inline_text: int = 4096
    encoders: int = 1
    ping_seconds: float = 15.0
    send_seconds: float = 60.0
