"""A tokenizer whose tokens are the bytes, with ChatML's control tokens: every count in a test can be made by hand."""

from __future__ import annotations

import json

from tokenizers import AddedToken, decoders, models, pre_tokenizers
from tokenizers import Tokenizer as Backend

from chatserve.text.source import TokenizerSource
from chatserve.text.tokenizer import Tokenizer

START, END = "<|im_start|>", "<|im_end|>"
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def bytes_tokenizer(template: str = TEMPLATE) -> Tokenizer:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    backend = Backend(models.BPE({letter: number for number, letter in enumerate(alphabet)}, []))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens([AddedToken(START, special=True), AddedToken(END, special=True)])
    return Tokenizer(
        TokenizerSource(
            tokenizer=json.loads(backend.to_str()),
            named={"eos_token": END},
            end_ids=(),
            add_bos=None,
            template=template,
        )
    )
