"""An engine in this process, for benchmarks without sockets."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Self

import numpy as np

from chatserve.engine.build import build_engine
from chatserve.engine.messages import Generate
from chatserve.engine.settings import EngineSettings
from chatserve.model.demo import fetch_demo
from chatserve.model.demo_folder import demo_path
from chatserve.model.loader import load_model
from chatserve.model.runner import model_thread
from chatserve.model.sampling import SamplingParams


def demo() -> Path:
    """The demo model's folder, fetched where it is missing."""
    return fetch_demo(demo_path(Path(".models")), print)


def has_weights(folder: Path) -> bool:
    """Whether there is more than a config and a tokenizer."""
    return any(folder.glob("*.safetensors")) or any(folder.glob("*.gguf"))


class Bench:
    """Asks, runs to the end, and knows when each token came; closed by `with`.

    random_weights: drawn, for a folder without any.
    step_tokens: of one step.  kv_bytes: of KV, at most.  None for either: what suits the device.
    """

    def __init__(
        self,
        folder: Path,
        *,
        device: str = "cpu",
        max_running: int = 8,
        max_len: int | None = None,
        step_tokens: int | None = None,
        kv_bytes: int | None = None,
        random_weights: bool = False,
    ) -> None:
        settings = EngineSettings(
            model=str(folder), device=device, max_running=max_running, step_tokens=step_tokens, kv_bytes=kv_bytes
        )
        self.woken = threading.Event()
        self.worker = model_thread()
        load = partial(load_model, dtype=None, device=device, max_len=max_len, random_weights=random_weights)
        model = self.worker.submit(load, str(folder)).result()
        self.model = model
        self.engine, _ = build_engine(model, settings, self.woken.set, self.worker)
        gc.freeze()  # as the engine's own process does
        self._ids = iter(range(1 << 40))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """End the engine's threads: without that a script that fails would never end."""
        self.engine.close()

    def answers(
        self, prompts: Sequence[Sequence[int]], new_tokens: int, *, reuse: bool = True
    ) -> tuple[list[list[int]], list[list[float]]]:
        """Greedy answers to all prompts together: their tokens, and the time of each token."""
        names = {str(next(self._ids)): number for number in range(len(prompts))}
        tokens: list[list[int]] = [[] for _ in prompts]
        times: list[list[float]] = [[] for _ in prompts]
        params = SamplingParams(max_tokens=new_tokens, temperature=0.0, ignore_eos=True)
        for name, number in names.items():
            prompt = np.array(prompts[number], dtype="<i4").tobytes()
            self.engine.add(Generate(id=name, prompt=prompt, params=params, reuse=reuse))
        while self.engine.busy:
            self.woken.clear()
            for delta in self.engine.advance():
                assert delta.error is None, delta.error
                tokens[names[delta.id]] += delta.tokens
                times[names[delta.id]] += [time.perf_counter()] * len(delta.tokens)
            if self.engine.busy:
                self.woken.wait(60)
        return tokens, times
