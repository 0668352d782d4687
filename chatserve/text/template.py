"""A model's chat template, run in a sandbox set up as transformers sets it up, so that it renders the same text."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NoReturn

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from chatserve.text.errors import BrokenTemplate, TemplateRefused

Fields = Mapping[str, str]

# What a template's own expressions can raise on messages it was not written for.
FAILURES: Final = (jinja2.TemplateError, TypeError, ValueError, LookupError, AttributeError, ArithmeticError)


class ChatTemplate:
    """A compiled template. Unchanging; any thread may render."""

    def __init__(self, source: str, named: Mapping[str, str]) -> None:
        """named: the literals of named special tokens ("bos_token"). Raises BrokenTemplate."""
        self.source = source
        self._named = dict(named)
        try:
            self._template = _environment().from_string(source)
        except jinja2.TemplateSyntaxError as error:
            raise BrokenTemplate(f"The chat template is not valid, line {error.lineno}: {error.message}") from error

    def render(self, messages: Sequence[Fields], readable: Callable[[str], str] = str) -> str:
        """The text of a conversation up to where the assistant begins to speak.

        readable: how a sentence that the template complains with is made fit to show.
        Raises TemplateRefused.
        """
        try:
            return self._template.render(
                messages=[dict(fields) for fields in messages],
                tools=None,
                documents=None,
                add_generation_prompt=True,
                **self._named,
            )
        except _Refusal as error:
            raise TemplateRefused(readable(str(error))) from None
        except FAILURES as error:
            reason = readable(f"{type(error).__name__}: {error}")
            raise TemplateRefused(f"The model's chat template cannot render these messages ({reason}).") from error


class _Refusal(jinja2.TemplateError):
    """The template itself said no, by raise_exception."""


class _Generation(Extension):
    """{% generation %} marks what an assistant said, for training; here it says nothing."""

    tags = {"generation"}  # noqa: RUF012 - jinja's own declaration

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _environment() -> ImmutableSandboxedEnvironment:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols]
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _raise_exception
    environment.globals["strftime_now"] = _strftime_now
    return environment


def _raise_exception(message: object) -> NoReturn:
    raise _Refusal(str(message))


def _strftime_now(form: str) -> str:
    return datetime.now().strftime(form)


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)
