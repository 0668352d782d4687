"""A real engine over a tiny random model, in this process, driven step by step and audited after each."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from chatserve.engine.build import build_engine
from chatserve.engine.messages import Delta, EngineStats, Generate
from chatserve.engine.settings import EngineSettings
from chatserve.model.decoder_shape import DecoderShape, decoder_shape
from chatserve.model.loaded import Known, LoadedModel
from chatserve.model.loader import fused_model
from chatserve.model.sampling import SamplingDefaults, SamplingParams
from chatserve.model.tensor_sources import StateDict
from chatserve.model.transformers_model import wrap_known

CHUNK = 64
CHUNK_BYTES = {"cpu": CHUNK * 2 * 2 * 2 * 8 * 4, "cuda": 2 << 20}
"""What one chunk takes: whole pages on the one, one granule on the other."""
VOCABULARY = 199
NEAR = 1e-3
"""Where the oracle's two best logits are nearer than this, a different token is no fault."""


def ids(length: int, seed: int = 0) -> list[int]:
    """Tokens that look like nothing; the same for the same seed."""
    return random.Random(seed).choices(range(VOCABULARY), k=length)


def tiny_model() -> LlamaForCausalLM:
    """Random weights, large enough that no two tokens are alike; the same in every call."""
    torch.manual_seed(7)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=2048,
        initializer_range=0.6,
        tie_word_embeddings=False,
    )
    return LlamaForCausalLM(config).eval()


def fuse_tiny(module: LlamaForCausalLM, known: Known) -> LoadedModel:
    """The same weights under the fused decoder, in float32."""
    shape = decoder_shape(module.config, known.max_len)
    assert isinstance(shape, DecoderShape)
    tensors = StateDict("tiny", module.state_dict())
    return fused_model(module.config, shape, tensors, known, dtype=torch.float32, device=module.device)


class Oracle:
    """The same weights under transformers' own attention, alone, with no cache of any kind between requests.

    model: None is the lab's own.
    """

    def __init__(self, model: LlamaForCausalLM | None = None) -> None:
        self._model = tiny_model() if model is None else model
        self.near_ties = 0

    def logits(self, tokens: Sequence[int]) -> torch.Tensor:
        """[vocabulary] for what follows the tokens."""
        with torch.inference_mode():
            return self._model(torch.tensor([list(tokens)])).logits[0, -1]

    def agrees(self, prompt: Sequence[int], output: Sequence[int]) -> bool:
        """Whether greedy decoding gives this output, up to a first difference at a near tie."""
        with torch.inference_mode():
            every = self._model(torch.tensor([[*prompt, *output]])).logits[0]
        for token, logits in zip(output, every[len(prompt) - 1 :], strict=False):  # the last says what comes after
            best = logits.topk(2)
            if token != int(best.indices[0]):
                near = float(best.values[0] - best.values[1]) < NEAR and token == int(best.indices[1])
                self.near_ties += near
                return near
        return True


@dataclass
class Answer:
    """What one request brought, in the order in which it was told."""

    deltas: list[Delta] = field(default_factory=list)

    @property
    def tokens(self) -> list[int]:
        return [token for delta in self.deltas for token in delta.tokens]

    @property
    def finish(self) -> str | None:
        return self.deltas[-1].finish if self.deltas else None

    @property
    def error(self) -> str | None:
        return self.deltas[-1].error

    @property
    def cached(self) -> int | None:
        return next((delta.reuse.tokens for delta in self.deltas if delta.reuse is not None), None)


class Lab:
    """kv_chunks: chunks of memory there are.  fused: by the fused decoder, on a GPU in captured steps."""

    def __init__(
        self,
        *,
        kv_chunks: int = 64,
        max_running: int = 8,
        step_tokens: int = 256,
        end_ids: Sequence[int] = (),
        device: str = "cpu",
        depth: int = 2,
        fused: bool = False,
    ) -> None:
        module = tiny_model().to(device)
        known = Known(name="tiny", end_ids=tuple(end_ids), defaults=SamplingDefaults(), max_len=2048)
        model = fuse_tiny(module, known) if fused else wrap_known(module, known)
        self.model = model
        self._woken = threading.Event()
        settings = EngineSettings(
            model="tiny",
            device=device,
            max_running=max_running,
            step_tokens=step_tokens,
            kv_bytes=kv_chunks * CHUNK_BYTES[device],
            chunk_tokens=CHUNK,
            depth=depth,
        )
        self.engine, self.limits = build_engine(model, settings, self._woken.set)
        self.answers: dict[str, Answer] = {}

    def ask(self, request_id: str, prompt: Sequence[int], *, max_tokens: int = 8, **fields: object) -> None:
        sampling = {name: value for name, value in fields.items() if name in SamplingParams.__struct_fields__}
        rest = {name: value for name, value in fields.items() if name not in sampling}
        params = SamplingParams(max_tokens=max_tokens, **({"temperature": 0.0} | sampling))
        self.answers[request_id] = Answer()
        self.engine.add(Generate(id=request_id, prompt=np.array(prompt, dtype="<i4").tobytes(), params=params, **rest))

    def step(self, *, audit: bool = True) -> None:
        """Whatever can be done now, and the books checked after it."""
        for delta in self.engine.advance():
            self.answers[delta.id].deltas.append(delta)
        if audit:
            self.engine.audit()

    def run(self, until: Callable[[], bool] = lambda: False) -> None:
        """Until all is told that there is to tell, or `until` holds."""
        while self.engine.busy and not until():
            self.turn()

    def turn(self) -> None:
        """A step, and the wait for what comes of it."""
        self._woken.clear()
        self.step()
        if self.engine.busy:
            assert self._woken.wait(30), "nothing happens any more"

    def answer(self, request_id: str, prompt: Sequence[int], **fields: object) -> Answer:
        """Ask and run to the end."""
        self.ask(request_id, prompt, **fields)
        self.run()
        return self.answers[request_id]

    def stats(self) -> EngineStats:
        return self.engine.stats()

    def close(self) -> None:
        self.engine.close()
