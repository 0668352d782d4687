"""KVLayout: how the KV cache of a model lies in chunks and slots. Arithmetic only.

One address range, the arena, is cut into equal slots. Element order is [slot, token, layer, K|V, kv_head, dim], so a
chunk holds a number of tokens of *all* layers, and a layer's K or V is a strided view that any attention kernel can
read as a contiguous sequence (vTensor paper, section 5.1).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import lcm

CHUNK_TOKENS = (64, 128, 256, 512, 1024)
PREFERRED_CHUNK_TOKENS = 256
ALIGNMENT = 16
"""Bytes: rows start where a vector load may start."""


class LayoutError(ValueError):
    """A shape that cannot be laid out; the message names the value and what is allowed."""


@dataclass(frozen=True, slots=True)
class KVLayout:
    """Sizes in bytes and tokens for one model on one driver.

    chunk_bytes: one physical handle: a whole number of the driver's granularity.
    token_stride: bytes from one token's row to the next; `token_bytes` of them are used, the rest is padding.
    slot_tokens: rows of one slot: the longest sequence, and the kernel's tile after it, in whole chunks.
    """

    layers: int
    kv_heads: int
    head_dim: int
    itemsize: int
    max_len: int
    chunk_tokens: int
    chunk_bytes: int
    slot_chunks: int

    @classmethod
    def choose(
        cls,
        *,
        layers: int,
        kv_heads: int,
        head_dim: int,
        itemsize: int,
        granularity: int,
        max_len: int,
        tile: int = 1,
        chunk_tokens: int | None = None,
    ) -> KVLayout:
        """The layout with the least padding, then the chunk nearest to 256 tokens.

        granularity: bytes, the smallest piece the driver maps.  max_len: tokens of the longest sequence.
        tile: rows that a kernel may load past the last token (1 for kernels that mask their loads).
        chunk_tokens: asked for by the caller instead of chosen.

        Raises LayoutError for sizes that are not positive.
        """
        sizes = {
            "layers": layers,
            "kv_heads": kv_heads,
            "head_dim": head_dim,
            "itemsize": itemsize,
            "granularity": granularity,
            "max_len": max_len,
            "tile": tile,
        } | ({} if chunk_tokens is None else {"chunk_tokens": chunk_tokens})
        for name, size in sizes.items():
            if size < 1:
                raise LayoutError(f"{name} is {size}; it must be at least 1")
        token_bytes = layers * 2 * kv_heads * head_dim * itemsize

        def chunk_size(tokens: int) -> int:
            unit = lcm(granularity, tokens * lcm(ALIGNMENT, itemsize))
            return -(-tokens * token_bytes // unit) * unit

        def padding_then_distance(tokens: int) -> tuple[float, int]:
            stride = chunk_size(tokens) / tokens
            return stride / token_bytes, abs(tokens - PREFERRED_CHUNK_TOKENS)

        tokens = chunk_tokens or min(CHUNK_TOKENS, key=padding_then_distance)
        return cls(
            layers=layers,
            kv_heads=kv_heads,
            head_dim=head_dim,
            itemsize=itemsize,
            max_len=max_len,
            chunk_tokens=tokens,
            chunk_bytes=chunk_size(tokens),
            slot_chunks=-(-(max_len + tile) // tokens),
        )

    @property
    def token_bytes(self) -> int:
        """Bytes of KV one token needs."""
        return self.layers * 2 * self.kv_heads * self.head_dim * self.itemsize

    @property
    def token_stride(self) -> int:
        """Bytes from one token to the next."""
        return self.chunk_bytes // self.chunk_tokens

    @property
    def slot_tokens(self) -> int:
        """Rows of one slot."""
        return self.slot_chunks * self.chunk_tokens

    @property
    def slot_bytes(self) -> int:
        """Bytes of addresses of one slot."""
        return self.slot_chunks * self.chunk_bytes

    @property
    def padding(self) -> float:
        """The share of a chunk that no token uses."""
        return 1 - self.token_bytes / self.token_stride

    def chunks_for(self, tokens: int) -> int:
        """Chunks that hold this many tokens."""
        return -(-tokens // self.chunk_tokens)

    def shape(self, slots: int) -> tuple[int, int, int, int, int, int]:
        """[slots, rows, layers, 2, kv_heads, head_dim]."""
        return slots, self.slot_tokens, self.layers, 2, self.kv_heads, self.head_dim

    def strides(self) -> tuple[int, int, int, int, int, int]:
        """Elements, in the order of `shape`."""
        head, kv = self.head_dim, self.kv_heads * self.head_dim
        return self.slot_bytes // self.itemsize, self.token_stride // self.itemsize, 2 * kv, kv, head, 1
