from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as Backend

from chatserve.text.errors import InvalidText, TokenizerNotFound, UnsupportedTokenizer
from chatserve.text.tokenizer import Tokenizer
from tests.text import makers

ROOT = Path(__file__).parents[2]


@settings(deadline=None)
@given(text=st.text())
def test_text_comes_back_unchanged(tokenizer: Tokenizer, text: str) -> None:
    # Byte fallback cannot know a space mark that a user typed from its own.
    text = text.replace("▁", "_")
    assert tokenizer.decode(tokenizer.encode(text)) == text


@settings(deadline=None)
@given(text=st.text(alphabet="<|>/imstartendhk_ \n0ofx"))
def test_no_text_whatever_becomes_a_control_token(byte_level: Tokenizer, text: str) -> None:
    """A38."""
    assert set(byte_level.encoder.controls.values()).isdisjoint(byte_level.encode(text))


@pytest.mark.parametrize("kind", ["byte_level", "byte_fallback", "unigram"])
def test_a_control_tokens_literal_is_plain_text(kind: str, request: pytest.FixtureRequest) -> None:
    """A38: whether flagged special or not, and even where the vocabulary holds the literal as a piece."""
    tokenizer: Tokenizer = request.getfixturevalue(kind)
    controls = dict(tokenizer.encoder.controls)
    unknown = controls.pop("<unk>", None)
    assert controls
    for literal in controls:
        ids = set(tokenizer.encode(f"{literal}hello {literal} hello{literal}"))
        assert ids.isdisjoint(set(controls.values()) - {unknown})


def test_a_control_token_that_merges_could_make_stays_out_of_reach(tmp_path: Path) -> None:
    """A38: some vocabularies have merges that end in a control token's literal."""
    source = makers.byte_level()
    vocab: dict[str, int] = source["model"]["vocab"]
    reference = Backend.from_str(json.dumps(source))
    literal = next(
        word
        for word, number in vocab.items()
        if word.isalpha() and len(word) > 2 and reference.encode(word).ids == [number]
    )
    source["added_tokens"].append({**source["added_tokens"][0], "id": vocab[literal], "content": literal})
    tokenizer = Tokenizer.load(makers.write_folder(tmp_path, source))
    assert vocab[literal] not in tokenizer.encode(literal)
    assert tokenizer.decode(tokenizer.encode(literal)) == literal


def test_encoding_plain_text_gives_what_the_model_was_trained_on(tokenizer: Tokenizer) -> None:
    source = makers.byte_level() if tokenizer.vocabulary.lead == 0 else makers.byte_fallback()
    reference = Backend.from_str(json.dumps(source))
    for line in [*makers.LINES, "  two  spaces ", "\n\ttab", "x" * 100]:
        assert tokenizer.encode(line) == reference.encode(line, add_special_tokens=False).ids


def test_added_white_space_tokens_stay_usable_under_their_own_ids(tmp_path: Path) -> None:
    """Some vocabularies have added tokens for runs of spaces: ordinary text, whatever is renamed beside them."""
    source = makers.byte_level()
    space = source["added_tokens"][-1]["id"] + 1
    source["added_tokens"].append({**source["added_tokens"][-1], "id": space, "content": "        "})
    tokenizer = Tokenizer.load(makers.write_folder(tmp_path, source))
    assert space in tokenizer.encode("a        b")
    assert tokenizer.decode(tokenizer.encode("a        b")) == "a        b"


def test_half_a_surrogate_pair_is_a_typed_error(tokenizer: Tokenizer) -> None:
    """A39."""
    with pytest.raises(InvalidText):
        tokenizer.encode("a\ud800b")


def test_64_threads_encode_texts_of_different_lengths_at_once(tokenizer: Tokenizer) -> None:
    """A47 (a): nothing is set per call, so nobody finds the tokenizer "already borrowed"."""
    texts = ["The quick brown fox. " * (1 + 7 * i) for i in range(64)]
    expected = [tokenizer.encode(text) for text in texts]
    start = threading.Barrier(64)

    def work(text: str) -> list[list[int]]:
        start.wait()
        return [tokenizer.encode(text) for _ in range(5)]

    with ThreadPoolExecutor(64) as pool:
        for found, wanted in zip(pool.map(work, texts), expected, strict=True):
            assert found == [wanted] * 5


def test_a_long_text_leaves_other_threads_running(byte_level: Tokenizer) -> None:
    """One user's huge prompt, encoded in a worker thread, must not stop everybody's stream."""
    text = "The quick brown fox. " * 40_000
    with ThreadPoolExecutor(1) as pool:
        encoding = pool.submit(byte_level.encode, text)
        ticks = 0
        while not encoding.done():
            time.sleep(0.001)
            ticks += 1
    assert ticks > 20


def test_end_ids_are_the_union_of_tokenizer_config_and_generation_settings(tmp_path: Path) -> None:
    """A46: an int, a list, and the tokenizer's own, all different."""
    folder = makers.write_folder(tmp_path, makers.byte_level(), "", {"eos_token": {"content": "<|endoftext|>"}})
    tmp_path.joinpath("config.json").write_text('{"eos_token_id": 2}')
    tmp_path.joinpath("generation_config.json").write_text('{"eos_token_id": [2, 1]}')
    assert Tokenizer.load(folder).end_ids == (0, 2, 1)


def test_end_ids_may_be_absent_everywhere(tmp_path: Path) -> None:
    """A46."""
    tmp_path.joinpath("generation_config.json").write_text('{"eos_token_id": null}')
    assert Tokenizer.load(makers.write_folder(tmp_path, makers.byte_level())).end_ids == ()


def test_a_plain_prompt_begins_as_the_tokenizer_begins_a_text(
    byte_level: Tokenizer, byte_fallback: Tokenizer, tmp_path: Path
) -> None:
    begin = byte_fallback.encoder.controls["<s>"]
    assert byte_fallback.encode_prompt("hello") == [begin, *byte_fallback.encode("hello")]
    assert byte_level.encode_prompt("hello") == byte_level.encode("hello")
    source = makers.byte_level()
    source["post_processor"] = {
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "<|im_start|>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {"<|im_start|>": {"id": "<|im_start|>", "ids": [1], "tokens": ["<|im_start|>"]}},
    }
    assert Tokenizer.load(makers.write_folder(tmp_path, source)).encode_prompt("a")[0] == 1


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({"tokenizer_config.json": '{"chat_template": "plain"}'}, "plain"),
        ({"chat_template.json": '{"chat_template": "older"}', "tokenizer_config.json": "{}"}, "older"),
        ({"chat_template.jinja": "own", "tokenizer_config.json": '{"chat_template": "plain"}'}, "own"),
        (
            {
                "tokenizer_config.json": '{"chat_template": [{"name": "rag", "template": "r"}, '
                '{"name": "default", "template": "d"}]}'
            },
            "d",
        ),
        ({}, ""),
    ],
)
def test_the_chat_template_is_found_wherever_models_keep_it(tmp_path: Path, files: dict[str, str], found: str) -> None:
    folder = makers.write_folder(tmp_path, makers.byte_level())
    for name, text in files.items():
        tmp_path.joinpath(name).write_text(text)
    assert Tokenizer.load(folder).template == found


def test_a_decoder_that_cannot_be_followed_is_refused_by_name(tmp_path: Path) -> None:
    source = makers.byte_level() | {"decoder": {"type": "CTC", "pad_token": "x", "word_delimiter_token": "|"}}
    source["decoder"]["cleanup"] = True
    with pytest.raises(UnsupportedTokenizer, match="CTC"):
        Tokenizer.load(makers.write_folder(tmp_path, source))


def test_a_server_can_load_a_folder_without_torch(tmp_path: Path) -> None:
    folder = makers.write_folder(tmp_path, makers.byte_level(), makers.CHATML)
    program = (
        "import sys\n"
        "from chatserve.text.tokenizer import Tokenizer\n"
        "from chatserve.text.prompt import ChatPrompt\n"
        "from chatserve.text.answer import AnswerText\n"
        f"ChatPrompt(Tokenizer.load({folder!r}))\n"
        "assert not {'torch', 'transformers'} & set(sys.modules), 'a heavy module was imported'\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT, timeout=60)


def test_a_folder_without_a_tokenizer_is_a_typed_error_that_names_the_way_out(tmp_path: Path) -> None:
    with pytest.raises(TokenizerNotFound, match=r"tokenizer\.json"):
        Tokenizer.load(str(tmp_path))


@pytest.mark.model
@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_demo_decoding_equals_the_tokenizer_librarys(
    demo: Tokenizer, demo_backend: Backend, data: st.DataObject
) -> None:
    """Random ids of the whole vocabulary: invalid bytes and control tokens among them."""
    ids = data.draw(st.lists(st.integers(0, demo.vocab_size - 1), max_size=30))
    assert demo.decode(ids) == demo_backend.decode(ids, skip_special_tokens=True)


@pytest.mark.model
@settings(deadline=None)
@given(text=st.text())
def test_demo_encoding_equals_the_tokenizer_librarys(demo: Tokenizer, demo_backend: Backend, text: str) -> None:
    assert demo.encode(text) == demo_backend.encode(text, add_special_tokens=False).ids
