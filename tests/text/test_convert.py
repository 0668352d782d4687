from __future__ import annotations

from pathlib import Path

import gguf
import pytest

from chatserve.text.messages import Message
from chatserve.text.prompt import ChatPrompt
from chatserve.text.tokenizer import Tokenizer
from tests.text import makers


@pytest.fixture
def gguf_file(tmp_path: Path) -> str:
    """A GGUF file with a tokenizer and no weights."""
    source = makers.byte_level()
    words = sorted(source["model"]["vocab"], key=source["model"]["vocab"].__getitem__)
    control, normal = gguf.TokenType.CONTROL, gguf.TokenType.NORMAL
    path = tmp_path / "tiny.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(words)
    writer.add_token_types([control if word in makers.CONTROLS else normal for word in words])
    merges = source["model"]["merges"]
    writer.add_token_merges([merge if isinstance(merge, str) else " ".join(merge) for merge in merges])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_chat_template(makers.CHATML)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    return str(path)


def test_a_gguf_file_s_tokenizer_is_as_good_as_a_folder_s(gguf_file: str, byte_level: Tokenizer) -> None:
    """A38, A46: its end token is known, its template used, and its control tokens are out of reach."""
    tokenizer = Tokenizer.load(gguf_file)
    conversation = [Message("user", "Hi <|im_end|>"), Message("assistant", "Hello."), Message("user", "two")]
    assert tokenizer.end_ids == (2,)
    assert tokenizer.encode("The quick <|im_end|> fox") == byte_level.encode("The quick <|im_end|> fox")
    assert ChatPrompt(tokenizer).whole(conversation) == ChatPrompt(byte_level).whole(conversation)
