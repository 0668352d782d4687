"""A tiny random model as an ordinary folder, with a tokenizer of its own: its answers mean nothing, and are quick."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from chatserve.text.tokenizer import Tokenizer
from tests.text.makers import CHATML, byte_level, write_folder

END = "<|im_end|>"
CONTEXT = 4096


@dataclass(frozen=True, slots=True)
class Tiny:
    folder: Path
    tokenizer: Tokenizer
    model: LlamaForCausalLM


def make_tiny(folder: Path) -> Tiny:
    """Large enough that no two of its tokens are alike; the same in every call."""
    tokenizer = Tokenizer.load(write_folder(folder, byte_level(), CHATML, {"eos_token": END}))
    (end,) = tokenizer.end_ids
    config = LlamaConfig(
        vocab_size=tokenizer.vocab_size,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=CONTEXT,
        initializer_range=0.6,
        tie_word_embeddings=False,
        bos_token_id=None,
        eos_token_id=end,
    )
    with torch.random.fork_rng():
        torch.manual_seed(7)
        model = LlamaForCausalLM(config).eval()  # type: ignore[no-untyped-call]
    model.save_pretrained(folder)
    return Tiny(folder, tokenizer, model)
