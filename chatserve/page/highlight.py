"""Code in colours: spans with classes, for languages that people ask about."""

from __future__ import annotations

import html
from collections.abc import Iterator
from itertools import groupby
from typing import Any, Final

from pygments.lexers import get_lexer_by_name  # type: ignore[import-untyped]
from pygments.token import STANDARD_TYPES  # type: ignore[import-untyped]

PREFIX: Final = "language-"
"""Begins the class that names a code block's language."""
LONGEST: Final = 20_000
"""Characters of code that are coloured; longer code stays plain, since it would hold up everybody else's."""
_COMPILED: Final = (
    "c",
    "cpp",
    "csharp",
    "dart",
    "fortran",
    "go",
    "java",
    "kotlin",
    "objective-c",
    "rust",
    "swift",
    "zig",
)
_SCRIPTS: Final = ("bash", "javascript", "lua", "perl", "php", "python", "r", "ruby", "typescript", "vim")
_FUNCTIONAL: Final = ("clojure", "elixir", "erlang", "haskell", "julia", "matlab", "ocaml", "scala")
_WRITTEN: Final = (
    "css",
    "diff",
    "graphql",
    "html",
    "ini",
    "json",
    "latex",
    "markdown",
    "protobuf",
    "sql",
    "toml",
    "xml",
)
_OTHERS: Final = ("cmake", "dockerfile", "groovy", "makefile", "nginx", "powershell", "scss", "toml", "yaml", "zig")
LANGUAGES: Final = frozenset((*_COMPILED, *_SCRIPTS, *_FUNCTIONAL, *_WRITTEN, *_OTHERS))
"""Not all that Pygments knows: among its five hundred lexers some take for ever over a text made for it."""
CLASSES: Final = frozenset(f"hl-{name}" for name in STANDARD_TYPES.values() if name)
"""Pygments' short names behind `hl-`, so that no other class of a page means one of them."""

_OTHER_NAMES: Final = {
    "c#": "csharp",
    "c++": "cpp",
    "cs": "csharp",
    "docker": "dockerfile",
    "golang": "go",
    "js": "javascript",
    "jsonc": "json",
    "jsx": "javascript",
    "kt": "kotlin",
    "make": "makefile",
    "md": "markdown",
    "objc": "objective-c",
    "patch": "diff",
    "proto": "protobuf",
    "ps1": "powershell",
    "py": "python",
    "python3": "python",
    "rb": "ruby",
    "rs": "rust",
    "sh": "bash",
    "shell": "bash",
    "tex": "latex",
    "ts": "typescript",
    "tsx": "typescript",
    "yml": "yaml",
    "zsh": "bash",
}


def language_of(info: str) -> str | None:
    """The language that a fence's first word means; None: none that is known here."""
    word = info.lower()
    name = _OTHER_NAMES.get(word, word)
    return name if name in LANGUAGES else None


def highlighted(code: str, language: str) -> str:
    """One of LANGUAGES as HTML, every character of it there."""
    if len(code) > LONGEST:
        return html.escape(code)
    lexer = get_lexer_by_name(language, stripnl=False, ensurenl=False)
    return "".join(_spans(lexer.get_tokens(code)))


def _spans(tokens: Iterator[tuple[Any, str]]) -> Iterator[str]:
    """Neighbours of one class share a span."""
    for name, run in groupby(tokens, key=lambda token: _class(token[0])):
        text = html.escape("".join(value for _, value in run))
        yield f'<span class="hl-{name}">{text}</span>' if name else text


def _class(kind: Any) -> str:
    """The nearest class above a token's kind; the root has none."""
    while kind not in STANDARD_TYPES:
        kind = kind.parent
    name: str = STANDARD_TYPES[kind]
    return name
