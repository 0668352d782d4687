from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tokenizers import Tokenizer as Backend

from chatserve.text.prompt import ChatPrompt
from chatserve.text.tokenizer import Tokenizer
from tests.text import makers

CHAT = {"eos_token": "<|im_end|>", "bos_token": "<|im_start|>"}
LLAMA = {"eos_token": "</s>", "bos_token": "<s>", "unk_token": "<unk>", "add_bos_token": True}


@pytest.fixture(scope="session")
def byte_level(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    folder = tmp_path_factory.mktemp("byte-level")
    return Tokenizer.load(makers.write_folder(folder, makers.byte_level(), makers.CHATML, CHAT))


@pytest.fixture(scope="session")
def byte_fallback(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    folder = tmp_path_factory.mktemp("byte-fallback")
    return Tokenizer.load(makers.write_folder(folder, makers.byte_fallback(), makers.ALTERNATES, LLAMA))


@pytest.fixture(scope="session")
def unigram(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    folder = tmp_path_factory.mktemp("unigram")
    return Tokenizer.load(makers.write_folder(folder, makers.unigram(), "", {"eos_token": "</s>"}))


@pytest.fixture(scope="session", params=["byte_level", "byte_fallback"])
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    """Each of the two kinds that can say every text."""
    found: Tokenizer = request.getfixturevalue(request.param)
    return found


@pytest.fixture(scope="session")
def prompt_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], ChatPrompt]:
    """A chat prompt of the byte-level tokenizer with another template."""

    def make(template: str) -> ChatPrompt:
        folder = tmp_path_factory.mktemp("templated")
        return ChatPrompt(Tokenizer.load(makers.write_folder(folder, makers.byte_level(), template, CHAT)))

    return make


@pytest.fixture(scope="session")
def demo(demo_folder: Path) -> Tokenizer:
    return Tokenizer.load(str(demo_folder))


@pytest.fixture(scope="session")
def demo_backend(demo_folder: Path) -> Backend:
    """The same tokenizer as its library has it."""
    return Backend.from_file(str(demo_folder / "tokenizer.json"))
