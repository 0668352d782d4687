"""Run steps over an arena whose unmapped rows fault, in a process of its own: a stray read or write kills it."""

from __future__ import annotations

import ctypes
import mmap

import torch

from tests.model.tiny import make_batch, make_runner, make_tiny, tiny_config

SLOTS, ROWS = 3, 1100
PAGE = mmap.PAGESIZE


def main() -> None:
    """Prints a line at the end, if it lives that long."""
    tiny = make_tiny(tiny_config("llama", max_position_embeddings=2048), max_len=2048)
    spec = tiny.model.spec
    memory = mmap.mmap(-1, SLOTS * ROWS * PAGE, prot=mmap.PROT_READ | mmap.PROT_WRITE)
    flat = torch.frombuffer(memory, dtype=torch.float32)
    shape = (spec.layers, 2, spec.kv_heads, spec.head_dim)
    row = PAGE // 4
    arena = flat.as_strided((SLOTS, ROWS, *shape), (ROWS * row, row, *torch.empty(shape, device="meta").stride()))
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    protect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)

    def allow(slot: int, first: int, last: int, prot: int) -> None:
        assert protect(flat.data_ptr() + (slot * ROWS + first) * PAGE, (last - first) * PAGE, prot) == 0

    allow(0, 0, SLOTS * ROWS, 0)
    runner = make_runner(tiny.model, arena)
    lengths = dict.fromkeys(range(SLOTS), 0)
    for step in ({1: 700}, {1: 1, 0: 30}, {1: 17, 0: 1, 2: 5}, {2: 1, 1: 1, 0: 1}, {1: 300, 0: 2}):
        parts = []
        for slot, count in step.items():
            allow(slot, lengths[slot], lengths[slot] + count, mmap.PROT_READ | mmap.PROT_WRITE)
            parts.append((slot, lengths[slot], [5 + index % 80 for index in range(count)]))
            lengths[slot] += count
        runner.launch(make_batch(parts)).tokens()
    runner.close()
    print("alive")


if __name__ == "__main__":
    main()
