"""The real engine's process for a benchmark, its books audited at its end.

    python -m loadtest.engine_process ENDPOINT --model FOLDER
    python -m loadtest.engine_process ENDPOINT --null VOCABULARY --steps 64 --tokens 12 345 6

With --null a model that computes nothing: everything else is the engine's own. It serves until its standard input is
closed, then prints what `audit` says (an empty text is clean) and its counters, as JSON.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from functools import partial

import msgspec
import torch
import zmq

from chatserve.engine.build import DEFAULTS, SLOTS_PER_RUNNING, build_engine, open_arena
from chatserve.engine.engine import Engine
from chatserve.engine.memory import Memory
from chatserve.engine.messages import EngineLimits, Ready
from chatserve.engine.process import SWITCH_INTERVAL, Wake, Wire, serve
from chatserve.engine.scheduler import Scheduler
from chatserve.engine.settings import EngineSettings
from chatserve.model.loaded import LoadedModel
from chatserve.model.loader import load_model
from chatserve.model.runner import model_thread
from chatserve.model.spec import ModelSpec
from chatserve.model.step import Network
from loadtest.null_runner import NullRunner, null_spec
from vtensor.mapper import Mapper

NULL_KV_BYTES = 1 << 30


class NoWeights:
    """There are none to run: `NullRunner` does without."""

    def over(self, kv: torch.Tensor) -> Network:
        raise AssertionError(f"nothing is computed over {tuple(kv.shape)}")


def null_engine(
    spec: ModelSpec, tokens: list[int], steps: float, settings: EngineSettings, wake: Callable[[], None]
) -> tuple[Engine, EngineLimits]:
    """The engine around a model that computes nothing, on host memory."""
    running = settings.max_running or DEFAULTS["cpu"].max_running
    step_tokens = max(settings.step_tokens or DEFAULTS["cuda"].step_tokens, running)
    model = LoadedModel(NoWeights(), spec, torch.device("cpu"))
    manager, _ = open_arena(model, settings, DEFAULTS["cpu"], slots=running * SLOTS_PER_RUNNING)
    mapper, capacity = Mapper(manager, keep_unused=settings.keep_unused), manager.capacity
    engine = Engine(
        runner=NullRunner(tokens, steps),
        memory=Memory(
            mapper,
            capacity=capacity,
            first_rows=step_tokens,
            ahead=settings.ahead,
            share_from=manager.layout.chunk_tokens,
        ),
        scheduler=Scheduler(max_running=running, step_tokens=step_tokens, share_from=manager.layout.chunk_tokens),
        end_ids=spec.end_ids,
        vocab_size=spec.vocab_size,
        depth=1,
        wake=wake,
    )
    return engine, EngineLimits(max_tokens=capacity, max_running=running)


def real_engine(settings: EngineSettings, wake: Callable[[], None]) -> tuple[ModelSpec, Engine, EngineLimits]:
    """The engine that a server on a CPU has."""
    worker = model_thread()
    load = partial(load_model, dtype=None, device="cpu", max_len=settings.max_len, random_weights=False)
    model = worker.submit(load, settings.model).result()
    return model.spec, *build_engine(model, settings, wake, worker)


def audited(engine: Engine) -> str:
    """What is wrong with the engine's books; empty: nothing."""
    try:
        engine.audit()
    except AssertionError as error:
        return f"{error}" or "an assertion without words"
    return ""


def main() -> None:
    """Serve, then prove that the books balance."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("endpoint")
    parser.add_argument("--model", default="null")
    parser.add_argument("--null", type=int, metavar="VOCABULARY")
    parser.add_argument("--tokens", type=int, nargs="+", default=[1])
    parser.add_argument("--steps", type=float, default=64.0, help="a second, of a model that computes nothing")
    parser.add_argument("--running", type=int, help="requests in one step")
    parser.add_argument("--kv-bytes", type=int, help="the most KV memory")
    options = parser.parse_args()
    sys.setswitchinterval(SWITCH_INTERVAL)
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    wire, wake = Wire.listen(context, options.endpoint), Wake()
    if options.null:
        settings = EngineSettings(model="null", max_running=options.running, kv_bytes=options.kv_bytes or NULL_KV_BYTES)
        spec = null_spec(options.null)
        engine, limits = null_engine(spec, options.tokens, options.steps, settings, wake.ring)
    else:
        settings = EngineSettings(model=options.model, max_running=options.running, kv_bytes=options.kv_bytes)
        spec, engine, limits = real_engine(settings, wake.ring)
    try:
        serve(engine, wire, wake, Ready(spec=spec, limits=limits), parent=sys.stdin.fileno())
        stats = msgspec.to_builtins(engine.stats())
        print(json.dumps({"audit": audited(engine), "stats": stats}), flush=True)
    finally:
        wire.socket.close(linger=500)
        engine.close()
        context.term()


if __name__ == "__main__":
    main()
