"""Text to ids, in such a way that no text whatever becomes a control token.

The tokenizer is rebuilt with every control token under a secret name, drawn when it is loaded. A user who types
"<|im_end|>" types plain characters, because that is no token's name any more; only this process, which knows the secret
names, can ask for a control id, by writing the secret name into a text. Everything else of the tokenizer (normalizing,
the treatment of a text's start, of spaces around control tokens) stays what its author made it, in one call.

The object is never changed after loading and nothing is set per call, so threads share it freely.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from typing import Any

from tokenizers import Tokenizer as Backend

from chatserve.text.errors import InvalidText, UnsupportedTokenizer, echo


class Encoder:
    """Plain text to ids; control ids by their secret names.

    controls: every control token's literal and id: all added tokens, flagged special or not ("<think>"), but for
        those of white space only, which are ordinary text.
    begin_ids: what the tokenizer puts before any text (usually its beginning token, or nothing).
    """

    def __init__(self, tokenizer: dict[str, Any]) -> None:
        """tokenizer: tokenizer.json, parsed; not changed. Raises UnsupportedTokenizer."""
        added = [token for token in tokenizer.get("added_tokens") or () if not _is_space(token["content"])]
        self.controls: Mapping[str, int] = {token["content"]: token["id"] for token in added}
        nonce = secrets.token_hex(16)
        names = {literal: f"\U0010fffc{nonce}{number:x};" for literal, number in self.controls.items()}
        self._names = {number: names[literal] for literal, number in self.controls.items()}
        self._anchor = f"\U0010fffc{nonce}anchor;"
        self._backend = Backend.from_str(json.dumps(_renamed(tokenizer, names, self._anchor)))
        self._real = self._real_ids(tokenizer)
        self.begin_ids = self._find_begin()
        self._probe(tokenizer)

    def name(self, control: int) -> str:
        """The secret name of a control id, to be written into a text for `encode`. Never shown to anyone."""
        return self._names[control]

    def encode(self, text: str) -> list[int]:
        """Ids of a text. Raises InvalidText when it holds half a surrogate pair."""
        real = self._real
        return [real.get(token, token) for token in self._encode(text, with_begin=False)]

    def encode_inside(self, text: str) -> list[int]:
        """Ids of a text that continues another, so that no mark of a text's start is put before it."""
        return self.encode(self._anchor + text)[1:] if text else []

    def _encode(self, text: str, *, with_begin: bool) -> list[int]:
        try:
            # A batch of one: unlike `encode`, it lets other threads run meanwhile, and it works out no offsets.
            return self._backend.encode_batch_fast([text], add_special_tokens=with_begin)[0].ids
        except TypeError:
            raise InvalidText("The text holds half a surrogate pair, which no encoding can carry.") from None

    def _real_ids(self, tokenizer: dict[str, Any]) -> dict[int, int]:
        """Added tokens may be numbered anew by the rebuilt tokenizer: their ids there -> their ids in the model."""
        wanted = {token["content"]: token["id"] for token in tokenizer.get("added_tokens") or ()}
        wanted |= {name: control for control, name in self._names.items()}
        found = {number: token.content for number, token in self._backend.get_added_tokens_decoder().items()}
        return {number: wanted[word] for number, word in found.items() if wanted.get(word, number) != number}

    def _find_begin(self) -> tuple[int, ...]:
        plain, whole = self._encode("a", with_begin=False), self._encode("a", with_begin=True)
        for start in range(len(whole) - len(plain) + 1):
            if whole[start : start + len(plain)] == plain:
                return tuple(whole[:start])
        return ()

    def _probe(self, tokenizer: dict[str, Any]) -> None:
        """Hold the promise against every control literal once, rather than trust it."""
        unknown = {self.controls.get(tokenizer["model"].get("unk_token") or "")}
        forbidden = set(self.controls.values()) - unknown
        for literal in self.controls:
            if not forbidden.isdisjoint((*self.encode(literal), *self.encode(f"a {literal} b"))):
                raise UnsupportedTokenizer(
                    f"Plain text {echo(literal)} would become a control token of this tokenizer."
                )


def _is_space(content: str) -> bool:
    return not content.replace("\u2581", " ").strip()


def _renamed(tokenizer: dict[str, Any], names: dict[str, str], anchor: str) -> dict[str, Any]:
    """tokenizer.json with its control tokens under other names, no merge that makes one, and an anchor token added."""
    tokens = [
        {**token, "content": names[token["content"]], "normalized": False} if token["content"] in names else token
        for token in tokenizer.get("added_tokens") or ()
    ]
    plain = {"special": True, "normalized": False, "lstrip": False, "rstrip": False, "single_word": False}
    last = max((token["id"] for token in tokens), default=0)
    tokens.append({**plain, "id": last + 1, "content": anchor})
    model = _renamed_model(tokenizer["model"], names)
    return {**tokenizer, "added_tokens": tokens, "model": model, "truncation": None, "padding": None}


def _renamed_model(model: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    vocab = model["vocab"]
    renamed = dict(model)
    if isinstance(vocab, list):
        renamed["vocab"] = [[names.get(piece, piece), score] for piece, score in vocab]
        return renamed
    renamed["vocab"] = {names.get(word, word): number for word, number in vocab.items()}
    if unknown := model.get("unk_token"):
        renamed["unk_token"] = names.get(unknown, unknown)
    if merges := model.get("merges"):
        renamed["merges"] = [merge for merge in merges if not _touches(merge, names)]
    return renamed


def _touches(merge: str | list[str], names: dict[str, str]) -> bool:
    left, right = merge.split(" ") if isinstance(merge, str) else merge
    return left in names or right in names or left + right in names
