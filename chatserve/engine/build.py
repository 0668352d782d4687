"""An engine from its parts: model, memory, scheduler, for one device."""

from __future__ import annotations

from collections.abc import Callable

import torch

from chatserve.engine.engine import Engine
from chatserve.engine.memory import Memory
from chatserve.engine.messages import EngineLimits
from chatserve.engine.scheduler import Scheduler
from chatserve.engine.settings import EngineSettings
from chatserve.model.loader import LoadedModel
from chatserve.model.runner import Runner
from vtensor.driver.registry import open_driver
from vtensor.layout import KVLayout
from vtensor.manager import Manager
from vtensor.mapper import Mapper
from vtensor.view import arena_view

SLOTS_PER_RUNNING = 4
"""Warm slots beside the running ones: each is a conversation whose next turn costs no mapping."""


KV_SHARE = 0.8
"""Of the memory that is free after loading the model, what KV may take unless the operator says."""


def build_engine(model: LoadedModel, settings: EngineSettings, wake: Callable[[], None]) -> tuple[Engine, EngineLimits]:
    """An engine around a loaded model. Raises DriverError when the device's memory calls cannot be used."""
    spec, device = model.spec, torch.device(model.device)
    if device.type == "cuda":
        driver = open_driver("cuda", device=device.index or 0, stream=torch.cuda.current_stream(device).cuda_stream)
    else:
        driver = open_driver("host")
    dtype = getattr(torch, spec.dtype)
    layout = KVLayout.choose(
        layers=spec.layers,
        kv_heads=spec.kv_heads,
        head_dim=spec.head_dim,
        itemsize=dtype.itemsize,
        granularity=driver.granularity,
        max_len=spec.max_len,
        chunk_tokens=settings.chunk_tokens,
    )
    kv_bytes = settings.kv_bytes or int(driver.free_bytes() * KV_SHARE)
    slots = settings.max_running * SLOTS_PER_RUNNING
    manager = Manager(
        driver,
        layout,
        slots=slots,
        limit=max(1, kv_bytes // layout.chunk_bytes),
        reserve=settings.kv_reserve // layout.chunk_bytes,
    )
    kv = arena_view(layout, manager.arena, slots=slots, dtype=dtype, device=driver.dlpack_device)
    capacity = manager.capacity
    engine = Engine(
        runner=Runner(model, kv),
        memory=Memory(
            Mapper(manager, keep_unused=settings.keep_unused),
            capacity=capacity,
            first_rows=settings.step_tokens,
            ahead=settings.ahead,
        ),
        scheduler=Scheduler(
            max_running=settings.max_running,
            step_tokens=settings.step_tokens,
            share_from=layout.chunk_tokens,
        ),
        end_ids=spec.end_ids,
        vocab_size=spec.vocab_size,
        wake=wake,
    )
    return engine, EngineLimits(max_tokens=capacity, max_running=settings.max_running, priorities=settings.priorities)
