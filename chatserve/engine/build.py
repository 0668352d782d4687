"""An engine from its parts: model, memory, scheduler, for one device."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import torch

from chatserve.engine.engine import Engine
from chatserve.engine.memory import Memory
from chatserve.engine.messages import EngineLimits
from chatserve.engine.scheduler import Scheduler
from chatserve.engine.settings import EngineSettings
from chatserve.model.loaded import LoadedModel
from chatserve.model.runner import model_thread
from chatserve.model.runners import cuda_runner, host_runner
from chatserve.model.tensor_sources import no_progress
from vtensor.driver.registry import open_driver
from vtensor.layout import KVLayout
from vtensor.manager import Manager
from vtensor.mapper import Mapper
from vtensor.operations import SCRATCH
from vtensor.view import arena_view

SLOTS_PER_RUNNING = 4
"""Warm slots beside the running ones: each is a conversation whose next turn costs no mapping."""


@dataclass(frozen=True, slots=True)
class DeviceDefaults:
    """What suits a kind of device unless the operator says otherwise.

    kv_share: of the memory that is free once the model is loaded, what KV may take.
    depth: steps launched at once.
    """

    driver: str
    max_running: int
    step_tokens: int
    kv_share: float
    depth: int


DEFAULTS = {
    "cpu": DeviceDefaults("host", max_running=16, step_tokens=512, kv_share=0.5, depth=1),
    "cuda": DeviceDefaults("cuda", max_running=256, step_tokens=1024, kv_share=0.9, depth=2),
}


def build_engine(
    model: LoadedModel,
    settings: EngineSettings,
    wake: Callable[[], None],
    worker: ThreadPoolExecutor | None = None,
    progress: Callable[[int, int], None] = no_progress,
) -> tuple[Engine, EngineLimits]:
    """An engine around a loaded model.

    worker: the thread that loaded it, if one did, to compute in.
    progress: told how far the captures of steps are, where the device captures them.
    Raises DriverError when the device's memory calls cannot be used.
    """
    spec, device = model.spec, model.device
    defaults = DEFAULTS[device.type]
    max_running = settings.max_running or defaults.max_running
    depth = settings.depth or defaults.depth
    step_tokens = max(settings.step_tokens or defaults.step_tokens, max_running)
    manager, kv = open_arena(model, settings, defaults, slots=max_running * SLOTS_PER_RUNNING)
    chunk_tokens, capacity = manager.layout.chunk_tokens, manager.capacity
    worker = worker or model_thread()
    if device.type == "cuda":
        runner = cuda_runner(
            model,
            kv,
            worker,
            chunk_tokens=chunk_tokens,
            most_sequences=max_running,
            most_rows=step_tokens,
            scratch=SCRATCH,
            progress=progress,
        )
    else:
        runner = host_runner(model, kv, worker)
    engine = Engine(
        runner=runner,
        memory=Memory(
            Mapper(manager, keep_unused=settings.keep_unused),
            capacity=capacity,
            first_rows=step_tokens * depth,
            ahead=settings.ahead,
            share_from=chunk_tokens,
        ),
        scheduler=Scheduler(
            max_running=max_running,
            step_tokens=step_tokens,
            share_from=chunk_tokens,
        ),
        end_ids=spec.end_ids,
        vocab_size=spec.vocab_size,
        depth=depth,
        wake=wake,
    )
    return engine, EngineLimits(max_tokens=capacity, max_running=max_running, priorities=settings.priorities)


def open_arena(
    model: LoadedModel, settings: EngineSettings, defaults: DeviceDefaults, *, slots: int
) -> tuple[Manager, torch.Tensor]:
    """The memory of a model's KV, and the arena [slots, rows, layers, 2, kv_heads, head_dim] as the model sees it.

    Raises DriverError.
    """
    spec = model.spec
    driver = open_driver(defaults.driver, **driver_arguments(model.device))
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
    kv_bytes = settings.kv_bytes or int(driver.free_bytes() * defaults.kv_share)
    manager = Manager(
        driver,
        layout,
        slots=slots,
        limit=max(1, kv_bytes // layout.chunk_bytes),
        reserve=settings.kv_reserve // layout.chunk_bytes,
    )
    return manager, arena_view(layout, manager.arena, slots=manager.slots, dtype=dtype, device=driver.dlpack_device)


def driver_arguments(device: torch.device) -> dict[str, int]:
    """What the device's driver must know: which one, and on which stream the model computes."""
    if device.type != "cuda":
        return {}
    return {"device": device.index or 0, "stream": torch.cuda.current_stream(device).cuda_stream}
