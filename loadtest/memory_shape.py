"""A model's appetite for KV memory, and the device it runs on, at full size or scaled down as a whole."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from vtensor.driver.base import Driver
from vtensor.layout import KVLayout

DEVICE_BYTES = 141 * 10**9
WEIGHTS_BYTES = 14_770_000_000
"""Of a Llama-8B shape with a vocabulary of 49,152, bf16."""
PAGED_SHARE = 0.9
"""Of the device that a paged server takes at its start, weights included (vLLM's default)."""


@dataclass(frozen=True, slots=True)
class Shape:
    """max_len: tokens that a request may need at most: what native preallocation reserves for each."""

    layers: int
    kv_heads: int
    head_dim: int
    itemsize: int = 2
    max_len: int = 16_384

    @property
    def token_bytes(self) -> int:
        return self.layers * 2 * self.kv_heads * self.head_dim * self.itemsize

    @property
    def scale(self) -> float:
        """Of the device: 1 for the Llama-8B shape on 141 GB; a small shape has a device as much smaller."""
        return self.token_bytes / LLAMA_8B.token_bytes

    @property
    def device_bytes(self) -> int:
        return int(DEVICE_BYTES * self.scale)

    @property
    def weights_bytes(self) -> int:
        return int(WEIGHTS_BYTES * self.scale)

    @property
    def paged_bytes(self) -> int:
        """KV memory that a paged server takes at its start and keeps."""
        return int(PAGED_SHARE * self.device_bytes) - self.weights_bytes

    @property
    def most_chunks_bytes(self) -> int:
        """KV memory that the device has room for."""
        return self.device_bytes - self.weights_bytes

    def native_bytes(self, requests: int) -> int:
        """What preallocating the longest sequence for each request takes."""
        return requests * self.max_len * self.token_bytes

    def layout(self, driver: Driver) -> KVLayout:
        return KVLayout.choose(
            layers=self.layers,
            kv_heads=self.kv_heads,
            head_dim=self.head_dim,
            itemsize=self.itemsize,
            granularity=driver.granularity,
            max_len=self.max_len,
            tile=128,
        )

    def described(self) -> dict[str, Any]:
        return {
            "kv_bytes_a_token": self.token_bytes,
            "max_len": self.max_len,
            "device_bytes": self.device_bytes,
            "weights_bytes": self.weights_bytes,
            "paged_kv_bytes": self.paged_bytes,
            "scale": self.scale,
        }


LLAMA_8B = Shape(layers=32, kv_heads=8, head_dim=128)
SMALL = Shape(layers=2, kv_heads=1, head_dim=16)
"""For machines without a GPU: 1/1024 of everything."""
