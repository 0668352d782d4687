"""What a client asks, as frozen values; made from JSON, every wrong value refused by name.

Fields nobody here knows are ignored, as OpenAI's clients add new ones; known ones that this server does not do
(`_REFUSED`) are refused, never ignored.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from chatserve.engine.messages import Ready
from chatserve.model.sampling import SamplingParams
from chatserve.model.spec import ModelSpec
from chatserve.server.errors import BadRequest, shown
from chatserve.server.fields import Fields
from chatserve.server.visit import KEY_MARK, Visit

STOPS = 16
STOP_LENGTH = 1024
STOP_IDS = 128
SALT_LENGTH = 256
UNLIMITED = 2**63 - 1

# Each with the values that ask for nothing.
_REFUSED: Mapping[str, tuple[object, ...]] = {
    "n": (1,),
    "best_of": (1,),
    "tools": ([],),
    "tool_choice": ("none", "auto"),
    "functions": ([],),
    "function_call": ("none", "auto"),
    "response_format": ({"type": "text"},),
    "modalities": (["text"],),
    "audio": (),
    "prediction": (),
    "web_search_options": (),
    "logit_bias": ({},),
    "top_logprobs": (),
    "prompt_logprobs": (),
    "use_beam_search": (False,),
    "min_tokens": (0,),
    "bad_words": ([],),
    "allowed_token_ids": (),
    "truncate_prompt_tokens": (),
    "guided_json": (),
    "guided_regex": (),
    "guided_choice": (),
    "guided_grammar": (),
    "structured_outputs": (),
    "add_generation_prompt": (True,),
    "continue_final_message": (False,),
    "echo": (False,),
    "suffix": ("",),
}


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What both endpoints take.

    params: max_tokens is what was asked, or UNLIMITED; it is cut to the room there is beside the prompt.
    tenant: of conversations, by the caller and cache_salt.  prefixes: the tenant inside which prefixes are shared.
    visit: the request that asks.
    """

    params: SamplingParams
    stops: tuple[str, ...]
    include_stop: bool
    stream: bool
    include_usage: bool
    tenant: str
    prefixes: str
    visit: Visit
    priority: int
    reuse: bool


@dataclass(frozen=True, slots=True)
class Bounds:
    """What of the engine's figures a request is checked against."""

    spec: ModelSpec
    priorities: tuple[int, int]
    max_tokens: int

    @classmethod
    def of(cls, ready: Ready) -> Bounds:
        return cls(ready.spec, ready.limits.priorities, min(ready.limits.max_tokens, ready.spec.max_len))


def read_options(fields: Fields, bounds: Bounds, visit: Visit) -> Options:
    """Raises BadRequest."""
    for name, neutral in _REFUSED.items():
        fields.refuse(name, *neutral)
    salt = read_salt(fields)
    low, high = bounds.priorities
    return Options(
        params=_params(fields, bounds.spec),
        stops=_stops(fields),
        include_stop=fields.flag("include_stop_str_in_output") or False,
        stream=fields.flag("stream") or False,
        include_usage=fields.nested("stream_options").flag("include_usage") or False,
        tenant=visit.caller.conversations(salt),
        prefixes=visit.caller.prefixes(salt),
        visit=visit,
        priority=fields.integer("priority", low=low, high=high) or 0,
        reuse=fields.flag("reuse_prefix") is not False,
    )


def read_salt(fields: Fields) -> str:
    """What divides one caller's conversations and prefixes further. Raises BadRequest."""
    salt = fields.text("cache_salt", longest=SALT_LENGTH) or ""
    if KEY_MARK in salt:
        raise BadRequest("cache_salt must not hold the control character U+001F.", param="cache_salt")
    return salt


def _params(fields: Fields, spec: ModelSpec) -> SamplingParams:
    defaults = spec.defaults
    seed = fields.integer("seed", low=-(2**63), high=2**63 - 1)
    return SamplingParams(
        max_tokens=_max_tokens(fields),
        temperature=_or(fields.number("temperature", low=0.0, high=2.0), defaults.temperature),
        top_p=_or(fields.number("top_p", low=0.0, high=1.0, above=True), defaults.top_p),
        top_k=_top_k(fields, spec),
        min_p=_or(fields.number("min_p", low=0.0, high=1.0), defaults.min_p),
        repetition_penalty=_or(fields.number("repetition_penalty", low=0.01, high=10.0), defaults.repetition_penalty),
        presence_penalty=_or(fields.number("presence_penalty", low=-2.0, high=2.0), 0.0),
        frequency_penalty=_or(fields.number("frequency_penalty", low=-2.0, high=2.0), 0.0),
        seed=secrets.randbits(63) if seed is None else seed,
        stop_token_ids=_token_ids(fields.values.get("stop_token_ids"), "stop_token_ids", spec, STOP_IDS),
        ignore_eos=fields.flag("ignore_eos") or False,
    )


def _or(value: float | None, default: float) -> float:
    return default if value is None else value


def _max_tokens(fields: Fields) -> int:
    older = fields.integer("max_tokens", low=1)
    newer = fields.integer("max_completion_tokens", low=1)
    asked = older if newer is None else newer
    return UNLIMITED if asked is None else min(asked, UNLIMITED)


def _top_k(fields: Fields, spec: ModelSpec) -> int:
    """0, -1 and null are off, and so is what spans the vocabulary; absent is the model's default."""
    value = fields.integer("top_k", low=-1)
    if value is None:
        return 0 if "top_k" in fields.values else spec.defaults.top_k
    return value if 0 < value < spec.vocab_size else 0


def _stops(fields: Fields) -> tuple[str, ...]:
    value = fields.values.get("stop")
    if value is None:
        return ()
    stops = [value] if isinstance(value, str) else value
    if not isinstance(stops, list) or len(stops) > STOPS:
        raise BadRequest(
            f"stop must be a string or a list of at most {STOPS} strings, not {shown(value)}.", param="stop"
        )
    for stop in stops:
        if not isinstance(stop, str) or not 1 <= len(stop) <= STOP_LENGTH:
            raise BadRequest(
                f"stop must hold strings of 1 to {STOP_LENGTH} characters, not {shown(stop)}.", param="stop"
            )
    return tuple(stops)


def _token_ids(value: object, name: str, spec: ModelSpec, most: int) -> tuple[int, ...]:
    if value is None:
        return ()
    if not isinstance(value, list) or len(value) > most:
        raise BadRequest(f"{name} must be a list of at most {most} token ids, not {shown(value)}.", param=name)
    for token in value:
        if isinstance(token, bool) or not isinstance(token, int) or not 0 <= token < spec.vocab_size:
            raise BadRequest(
                f"{name} must hold token ids from 0 to {spec.vocab_size - 1}, not {shown(token)}.", param=name
            )
    return tuple(value)


class CompletionAsk(msgspec.Struct, frozen=True, kw_only=True):
    """One raw completion: the prompt as text, or as the ids to be used exactly."""

    options: Options
    prompt: str | tuple[int, ...]


def read_completion(fields: Fields, bounds: Bounds, visit: Visit) -> CompletionAsk:
    """Raises BadRequest."""
    fields.refuse("logprobs")
    options = read_options(fields, bounds, visit)
    return CompletionAsk(options=options, prompt=_prompt(fields.values.get("prompt"), bounds))


def _prompt(value: object, bounds: Bounds) -> str | tuple[int, ...]:
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], str | list):
        value = value[0]
    if isinstance(value, str) and value:
        return value
    if isinstance(value, list) and value and not isinstance(value[0], str | list):
        if len(value) >= bounds.max_tokens:
            raise context_exceeded(len(value), bounds.max_tokens, "prompt")
        return _token_ids(value, "prompt", bounds.spec, bounds.max_tokens)
    if value in ("", []):
        raise BadRequest("prompt is empty; there is nothing to continue.", param="prompt", code="empty_prompt")
    raise BadRequest(
        f"prompt must be one string or one list of token ids, not {shown(value)}.", param="prompt", code="invalid_type"
    )


def context_exceeded(length: int, limit: int, param: str) -> BadRequest:
    """The prompt leaves no room for a single token of answer."""
    return BadRequest(
        f"The prompt is {length} tokens; prompt and answer together can be {limit} at most. Shorten it.",
        param=param,
        code="context_length_exceeded",
    )
