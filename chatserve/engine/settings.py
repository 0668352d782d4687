"""What an operator chooses, as the engine's process is started with it. Free of torch: the server makes it."""

from __future__ import annotations

import msgspec


class EngineSettings(msgspec.Struct, frozen=True, kw_only=True):
    """model: a folder, a GGUF file or a hub id.
    device: "auto" takes a GPU where there is one; "cpu", "cuda", "cuda:1".

    dtype: None lets the device choose.  max_len: tokens of context; None takes the model's own.
    max_running: requests in one step.  step_tokens: tokens in one step.  None for either: what suits the device.
    kv_bytes: the most KV memory; None takes a share of what is free.  kv_reserve: bytes kept when idle.
    ahead: rows mapped before they are needed.  keep_unused: seconds a prefix is kept without use; None: for ever.
    chunk_tokens: tokens of one chunk; None chooses by the model's shape.
    random_weights: draw the weights instead of reading them, for a folder that holds a config only.
    depth: steps launched at once; None: what suits the device.
    """

    model: str
    device: str = "auto"
    dtype: str | None = None
    max_len: int | None = None
    max_running: int | None = None
    step_tokens: int | None = None
    kv_bytes: int | None = None
    kv_reserve: int = 0
    ahead: int = 16
    keep_unused: float | None = None
    chunk_tokens: int | None = None
    depth: int | None = None
    priorities: tuple[int, int] = (-100, 100)
    random_weights: bool = False


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """The one line that an engine's process reads before anything else.

    endpoint: where it is to listen for its clients.  log_level: as logging numbers them.
    """

    settings: EngineSettings
    endpoint: str
    log_level: int
