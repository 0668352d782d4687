"""A model's tokenizer as the server needs it: exact both ways, safe against control tokens in text, free of torch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from chatserve.text.encoder import Encoder
from chatserve.text.source import TokenizerSource, read_source
from chatserve.text.vocabulary import Vocabulary


class Tokenizer:
    """Text to ids and back. Never changed after loading; any thread may use it.

    encoder, vocabulary: the two directions.
    end_ids: ids that end an answer: the tokenizer's end token, and those of config and generation settings beside it.
    begin_ids: what comes before a plain prompt (a completion's); chat templates write their own beginning.
    named: literals of the named special tokens, as templates know them.
    specials: literals of the control tokens that are flagged special.
    template: the chat template's source, "" without one.
    """

    def __init__(self, source: TokenizerSource) -> None:
        """Raises UnsupportedTokenizer."""
        self.encoder = Encoder(source.tokenizer)
        self.vocabulary = Vocabulary(source.tokenizer)
        self.named: Mapping[str, str] = source.named
        self.template = source.template
        self.specials = frozenset(
            token["content"] for token in source.tokenizer.get("added_tokens") or () if token["special"]
        )
        own = self._named_id("eos_token")
        self.end_ids = tuple(dict.fromkeys((*own, *source.end_ids)))
        begin = self.encoder.begin_ids
        if source.add_bos is not None:
            begin = self._named_id("bos_token") if source.add_bos else ()
        self.begin_ids = begin

    @classmethod
    def load(cls, source: str) -> Tokenizer:
        """source: a local folder, a .gguf file or a hub id. Raises TokenizerNotFound, UnsupportedTokenizer."""
        return cls(read_source(source))

    @property
    def vocab_size(self) -> int:
        """One more than the largest token id (a model's output may have more rows; they say nothing)."""
        return self.vocabulary.size

    def encode(self, text: str) -> list[int]:
        """Ids of plain text; never a control token's, whatever the text says. Raises InvalidText."""
        return self.encoder.encode(text)

    def encode_prompt(self, text: str) -> list[int]:
        """Ids of a whole plain prompt: `begin_ids`, then the text's. Raises InvalidText."""
        return [*self.begin_ids, *self.encoder.encode(text)]

    def decode(self, tokens: Iterable[int]) -> str:
        """The text of tokens taken as a whole; control tokens say nothing."""
        return self.vocabulary.decode(tokens)

    def _named_id(self, name: str) -> tuple[int, ...]:
        number = self.encoder.controls.get(self.named.get(name, ""))
        return () if number is None else (number,)
