"""Where a server listens."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import urlsplit

PORTS = {"http": 80, "https": 443}


class BadUrl(ValueError):
    """The message says how to write one."""


@dataclass(frozen=True, slots=True)
class Target:
    """prefix: of every path, without /v1.  key: sent as a bearer token; in no file and no message."""

    scheme: str
    host: str
    port: int
    prefix: str = ""
    key: str | None = field(default=None, repr=False)

    @classmethod
    def parse(cls, url: str, key: str | None = None) -> Target:
        """`http://127.0.0.1:8000`, with or without /v1 at its end. Raises BadUrl."""
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port
        except ValueError:
            host, port = None, None
        if host is None or parts.scheme not in PORTS or parts.query or parts.fragment or parts.username is not None:
            raise BadUrl(f"{url!r} is no server's URL; write it as http://127.0.0.1:8000 or https://host/v1")
        prefix = parts.path.rstrip("/").removesuffix("/v1")
        return cls(parts.scheme, host, port or PORTS[parts.scheme], prefix, key)

    def __str__(self) -> str:
        return f"{self.scheme}://{self._authority}{self.prefix}"

    @property
    def _authority(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == PORTS[self.scheme] else f"{host}:{self.port}"

    def request(self, method: str, path: str, body: bytes | None = None) -> bytes:
        """The bytes of a whole request."""
        lines = [f"{method} {self.prefix}{path} HTTP/1.1", f"Host: {self._authority}", "Accept: */*"]
        if self.key is not None:
            lines.append(f"Authorization: Bearer {self.key}")
        if body is not None:
            lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
        return "\r\n".join([*lines, "", ""]).encode() + (body or b"")
