"""A model whose every word is known beforehand, under the demo model's real tokenizer and chat template."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import GPT2Config, GPT2LMHeadModel

from chatserve.text.messages import Message
from chatserve.text.prompt import ChatPrompt
from chatserve.text.tokenizer import Tokenizer

CONTEXT = 16384
WIDTH = 128
VOCABULARY = 49152
END_ID = 2
SURE = 100.0
"""The weight of the one right next token; every other logit is about zero or less."""

PIECES = (
    *("Hel", "lo", " wor", "ld", ",", " a", "b", "c", "d", " 1", "2", "\n", "    ", "in", "dent", ".", "\n", "\n", " "),
    *("👩‍👩‍👧‍👦", " ", "🇨🇿", " Příliš žluťoučký kůň", " สวัสดีชาวโลก", " 你好，世界", " And", " ag", "ain", ":", " "),
)
"""Encoded one by one: together their text has a shorter encoding, and most of its characters are several tokens."""


@dataclass(frozen=True, slots=True)
class Recital:
    """The token that follows n others is ids[n], round and round; the last of them ends an answer."""

    folder: Path
    tokenizer: Tokenizer
    prompt: ChatPrompt
    ids: tuple[int, ...]

    def says(self, prompt_tokens: int, count: int) -> list[int]:
        """The ids of an answer of `count` tokens that ignores the end token."""
        return [self.ids[(prompt_tokens + step) % len(self.ids)] for step in range(count)]

    def text(self, prompt_tokens: int, count: int) -> str:
        """What its reader must have seen at the end, an unfinished character as U+FFFD."""
        return self.tokenizer.decode(self.says(prompt_tokens, count))

    def seen(self, prompt_tokens: int, count: int) -> str:
        """What the reader of an answer that was cut has seen when so many tokens were kept: whole characters.

        A token that ends one character and begins another is kept as the first of them, spelled in as many tokens.
        """
        return self.text(prompt_tokens, count).removesuffix("\ufffd")

    def asked(self, content: str) -> int:
        """Tokens of a first question's prompt."""
        return len(self.prompt.whole([Message("user", content)]))

    def added(self, content: str) -> int:
        """Tokens that a further question adds to what is known."""
        return len(self.prompt.following([Message("user", content)]))


def make_recital(folder: Path, demo_folder: Path) -> Recital:
    """Write it as an ordinary transformers folder."""
    tokenizer = Tokenizer.load(str(demo_folder))
    ids = (*(token for piece in PIECES for token in tokenizer.encode(piece)), END_ID)
    reciting_model(ids).save_pretrained(folder)
    copy_tokenizer(demo_folder, folder)
    return Recital(folder, tokenizer, ChatPrompt(tokenizer), ids)


def reciting_model(ids: Sequence[int]) -> GPT2LMHeadModel:
    """Layers that compute but add nothing, positions that say where in the text they are, and what follows there."""
    assert len(ids) <= WIDTH, "every place in the text needs a dimension of its own"
    config = GPT2Config(
        vocab_size=VOCABULARY,
        n_positions=CONTEXT,
        n_embd=WIDTH,
        n_layer=2,
        n_head=4,
        bos_token_id=1,
        eos_token_id=END_ID,
        tie_word_embeddings=False,
    )
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(3)
        model = GPT2LMHeadModel(config).eval()
        for block in model.transformer.h:
            for last in (block.attn.c_proj, block.mlp.c_proj):
                last.weight.zero_()
                last.bias.zero_()
        place = torch.arange(CONTEXT) % len(ids)
        model.transformer.wte.weight.zero_()
        model.transformer.wpe.weight.copy_(torch.nn.functional.one_hot(place, WIDTH))
        model.lm_head.weight.zero_()
        for index in range(len(ids)):
            model.lm_head.weight[ids[(index + 1) % len(ids)], index] = SURE
    return model


def copy_tokenizer(source: Path, folder: Path) -> None:
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        shutil.copy(source / name, folder / name)
