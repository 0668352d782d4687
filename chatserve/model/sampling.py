"""What one request asks of the sampler: plain values, free of torch, shared by server, engine and model."""

from __future__ import annotations

import msgspec


class SamplingParams(msgspec.Struct, frozen=True, kw_only=True):
    """How the next token of one request is chosen. Ranges are checked where a request enters the server.

    temperature: 0 is greedy (argmax); above it logits are divided by it.
    top_p: in (0, 1]; 1 is off.  top_k: 0 is off.  min_p: in [0, 1]; 0 is off.
    repetition_penalty: above 0; 1 is off; sees prompt and output.
    presence_penalty, frequency_penalty: in [-2, 2]; see the output only.
    seed: the stream of random numbers; the n-th token of a seed draws the same number in any batch or slot.
    max_tokens: at least 1.  stop_token_ids: ids that end the answer and are not part of it.
    ignore_eos: the model's own end tokens do not end the answer.
    """

    max_tokens: int
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    seed: int = 0
    stop_token_ids: tuple[int, ...] = ()
    ignore_eos: bool = False


class SamplingDefaults(msgspec.Struct, frozen=True, kw_only=True):
    """What a model's own generation settings say for requests that do not."""

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
