"""How much the rTree holds, in all and of each tenant, counted as it changes."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Extent:
    """nodes: a tenant's root counts."""

    tokens: int = 0
    nodes: int = 0
    chunks: int = 0

    def add(self, tokens: int, nodes: int, chunks: int) -> None:
        self.tokens += tokens
        self.nodes += nodes
        self.chunks += chunks


@dataclass(slots=True)
class Extents:
    """tenants: those that have a node."""

    total: Extent = field(default_factory=Extent)
    tenants: dict[str, Extent] = field(default_factory=dict)

    def of(self, tenant: str) -> Extent:
        """To be looked at only."""
        return self.tenants.get(tenant) or Extent()

    def add(self, tenant: str, *, tokens: int = 0, nodes: int = 0, chunks: int = 0) -> None:
        """Less where it is negative."""
        own = self.tenants.setdefault(tenant, Extent())
        own.add(tokens, nodes, chunks)
        self.total.add(tokens, nodes, chunks)
        if own.nodes == 0:
            del self.tenants[tenant]
