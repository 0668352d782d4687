"""A model's Markdown as HTML that may be shown: rendered, then sanitized, one top-level block at a time.

HTML in the text is text. Links lead to http, https and mailto only. No image is loaded, since its address could carry a
conversation's words to somebody else: an image is a link to it.
"""

from __future__ import annotations

import html
from collections.abc import Iterator, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.rules_core import StateCore
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict

from chatserve.page.highlight import PREFIX, highlighted, language_of
from chatserve.page.sanitize import ALIGNED, SCHEMES, sanitized
from chatserve.page.thinking import split_thinking

LONGEST: Final = 100_000
"""Characters that are read as Markdown; a longer text is shown as it is."""
MOST_LINES: Final = 5_000
"""Lines that are; each is looked at once for every quote that it may be in."""
LONGEST_RUN: Final = 10_000
"""Characters of one paragraph that are; some work of its parser grows with the square of it."""
NESTING: Final = 24
"""How deep lists and quotes go; a list takes two."""

References = dict[str, Any]
"""The link definitions of a text, in the parser's own form."""


@dataclass(frozen=True, slots=True)
class Rendered:
    """An answer as HTML. thinking: of the part in which it thinks; None where there is none."""

    thinking: str | None
    blocks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Block:
    """A top-level block. start: the line on which it begins."""

    start: int
    html: str


def render(answer: str) -> Rendered:
    """An answer, whole."""
    thought, said = split_thinking(answer)
    thinking = None if thought is None else render_text(thought)
    return Rendered(thinking or None, tuple(block.html for block in blocks_of(said, {})))


def render_text(text: str) -> str:
    """Anything else that is to be read as Markdown, as one piece of HTML."""
    return "".join(block.html for block in blocks_of(text, {}))


def blocks_of(text: str, references: References) -> list[Block]:
    """references: the definitions from before the text; those that it makes are added."""
    if len(text) > LONGEST or text.count("\n") > MOST_LINES:
        return [Block(0, sanitized(f"<pre>{html.escape(text)}</pre>"))]
    env: MutableMapping[str, Any] = {"references": references}
    blocks = []
    for tokens in _top_level(_PARSER.parse(text, env)):
        assert tokens[0].map is not None, "a block knows its lines"
        blocks.append(Block(tokens[0].map[0], sanitized(_PARSER.renderer.render(tokens, _PARSER.options, env))))
    return blocks


def _top_level(tokens: Sequence[Token]) -> Iterator[Sequence[Token]]:
    first = 0
    for place, token in enumerate(tokens, 1):
        if token.level == 0 and token.nesting <= 0:
            yield tokens[first:place]
            first = place


class _Parser(MarkdownIt):
    def validateLink(self, url: str) -> bool:
        """What is refused stays text. url: with its entities decoded."""
        scheme, colon, _ = url.strip().partition(":")
        return bool(colon) and scheme.lower() in SCHEMES


class _Renderer(RendererHTML):
    """What a page needs otherwise than the parser's own renderer has it."""

    def fence(self, tokens: Sequence[Token], idx: int, _options: OptionsDict, _env: EnvType) -> str:
        code, language = tokens[idx].content, language_of(tokens[idx].info.strip().partition(" ")[0])
        if language is None:
            return f"<pre><code>{html.escape(code)}</code></pre>"
        return f'<pre><code class="{PREFIX}{language}">{highlighted(code, language)}</code></pre>'

    def td_open(self, tokens: Sequence[Token], idx: int, _options: OptionsDict, _env: EnvType) -> str:
        side = str(tokens[idx].attrGet("style") or "").removeprefix("text-align:")
        return f'<{tokens[idx].tag} class="{ALIGNED[side]}">' if side in ALIGNED else f"<{tokens[idx].tag}>"

    th_open = td_open


def _link_images(state: StateCore) -> None:
    """An image becomes a link to it, or, inside a link, its words."""
    for block in state.tokens:
        if block.children is not None:
            block.children = list(_without_images(block.children))


def _without_images(tokens: Sequence[Token]) -> Iterator[Token]:
    inside = 0
    for token in tokens:
        inside += token.nesting if token.type in ("link_open", "link_close") else 0
        if token.type != "image":
            yield token
            continue
        words = Token("text", "", 0, content=token.content or str(token.attrs["src"]))
        if inside:
            yield words
        else:
            yield Token("link_open", "a", 1, attrs={"href": token.attrs["src"]})
            yield words
            yield Token("link_close", "a", -1)


def _bound_runs(state: StateCore) -> None:
    """Before anything looks for emphasis or links in it, what is too long for that becomes text."""
    for token in state.tokens:
        if token.type == "inline" and len(token.content) > LONGEST_RUN:
            token.type = "long"


def _show_runs(state: StateCore) -> None:
    for token in state.tokens:
        if token.type == "long":
            token.type, token.children = "inline", [Token("text", "", 0, content=token.content)]


def _parser() -> _Parser:
    parser = _Parser("commonmark", {"html": False, "breaks": True, "maxNesting": NESTING}, renderer_cls=_Renderer)
    parser.enable(["table", "strikethrough"])
    parser.core.ruler.after("block", "bound_runs", _bound_runs)
    parser.core.ruler.push("show_runs", _show_runs)
    parser.core.ruler.push("link_images", _link_images)
    return parser


_PARSER: Final = _parser()
