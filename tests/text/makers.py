"""Small tokenizers and templates, made on the spot: the kinds that real models come with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

LINES = [
    "The quick brown fox jumps over the lazy dog, and the dog does not mind.",
    "Count with me: one two three four five six seven eight nine ten.",
    "def add(a, b):\n    return a + b\n",
    "Příliš žluťoučký kůň úpěl ďábelské ódy. สวัสดีชาวโลก 你好，世界 👩‍👩‍👧‍👦 🇨🇿",
]
CONTROLS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
MARKS = ["<think>", "</think>"]

CHATML = """\
{%- for message in messages %}
{%- if loop.first and message.role != 'system' %}
{{- '<|im_start|>system\\nBe good.<|im_end|>\\n' }}
{%- endif %}
{{- '<|im_start|>' + message.role + (' ' + message.name if message.name else '') + '\\n' + message.content \
+ '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"""

FORGETS_THINKING = CHATML.replace(
    "+ message.content ",
    "+ (message.content.split('</think>')[-1].lstrip('\\n') if message.role == 'assistant' else message.content) ",
)
TRIMS = CHATML.replace("message.content ", "message.content | trim ")

ALTERNATES = """\
{{- bos_token }}
{%- for message in messages %}
{%- if message.role not in ['user', 'assistant'] or (message.role == 'user') != (loop.index0 % 2 == 0) %}
{{- raise_exception('Conversation roles must alternate user/assistant, not ' + message.content) }}
{%- endif %}
{{- ' [INST] ' + message.content + ' [/INST]' if message.role == 'user' else ' ' + message.content + eos_token }}
{%- endfor %}"""

SYSTEM_LAST = """\
{%- for message in messages if message.role != 'system' %}
{%- if loop.last and messages[0].role == 'system' %}{{ '<|im_start|>' + messages[0].content + '<|im_end|>' }}{% endif %}
{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' }}
{%- endfor %}
{{- '<|im_start|>assistant\\n' }}"""


def byte_level() -> dict[str, Any]:
    """A byte-level BPE with three control tokens in its vocabulary and two added marks that are not flagged special."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=420, special_tokens=CONTROLS, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(LINES, trainer)
    tokenizer.add_tokens([AddedToken(mark, special=False, normalized=False) for mark in MARKS])
    return _as_json(tokenizer)


def byte_fallback() -> dict[str, Any]:
    """A sentencepiece-like BPE as Llama 2 has it: a mark for spaces, bytes for unknown characters, a leading space."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    controls = ["<unk>", "<s>", "</s>"]
    known = controls + [f"<0x{byte:02X}>" for byte in range(256)]
    trainer = trainers.BpeTrainer(vocab_size=420, special_tokens=known, show_progress=False)
    tokenizer.train_from_iterator(LINES[:2], trainer)
    made = _as_json(tokenizer)
    made["added_tokens"] = made["added_tokens"][: len(controls)]
    return made


def unigram() -> dict[str, Any]:
    """A unigram model whose vocabulary holds its control tokens as pieces like any other, at the best score."""
    pieces = [("<unk>", 0.0), ("<s>", 0.0), ("</s>", 0.0), ("▁", -2.0)]
    pieces += [(character, -5.0) for character in "</>sabcdehlo"] + [("▁hello", -1.0)]
    tokenizer = Tokenizer(models.Unigram(pieces, 0, False))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="first")
    tokenizer.add_special_tokens(["<s>", "</s>"])
    return _as_json(tokenizer)


def write_folder(
    folder: Path, tokenizer: dict[str, Any], template: str = "", config: dict[str, Any] | None = None
) -> str:
    """A model's folder with these files; returns its path."""
    folder.mkdir(parents=True, exist_ok=True)
    folder.joinpath("tokenizer.json").write_text(json.dumps(tokenizer), encoding="utf-8")
    folder.joinpath("tokenizer_config.json").write_text(json.dumps(config or {}), encoding="utf-8")
    if template:
        folder.joinpath("chat_template.jinja").write_text(template, encoding="utf-8")
    return str(folder)


def _as_json(tokenizer: Tokenizer) -> dict[str, Any]:
    made: dict[str, Any] = json.loads(tokenizer.to_str())
    return made
