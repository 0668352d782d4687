"""Messages to token ids by the model's chat template.

Text of people never becomes a control token (see `guard`), and a conversation's later turns cost only what is new.
"""

from __future__ import annotations

from collections.abc import Sequence

from chatserve.text.errors import NoChatTemplate, NoMessages, TemplateRefused
from chatserve.text.guard import Controls, Guard
from chatserve.text.messages import Message, role_of
from chatserve.text.probes import appends_only
from chatserve.text.template import ChatTemplate
from chatserve.text.tokenizer import Tokenizer

OPENING = Message("user", "Hello")


class ChatPrompt:
    """Prompts of one model. Unchanging; any thread may use it.

    append_only: a conversation goes on with `following` alone. False when the template rewrites what went before; then
        only `whole` is right, and what its ids share with the stored ones from the start on is what can be reused.
        False too without a template.
    end_ids: the control token that the template ends an assistant's turn with, which a model's settings may fail to
        list among its end tokens; empty when there is none.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        """A tokenizer without a template is accepted; asking for a prompt then fails. Raises BrokenTemplate."""
        self._encoder = tokenizer.encoder
        self._template = ChatTemplate(tokenizer.template, tokenizer.named) if tokenizer.template else None
        self._controls = Controls(tokenizer.encoder, tokenizer.specials, tokenizer.template)
        self.append_only = self._template is not None and appends_only(self._show_whole, self._show_following)
        self.end_ids = self._find_end() if self._template is not None else ()

    def whole(self, messages: Sequence[Message]) -> list[int]:
        """Ids of a whole conversation, up to where the assistant begins to speak.

        Raises NoMessages, NoChatTemplate, InvalidRole, InvalidText, TemplateRefused.
        """
        guard = self._guard(messages)
        return self._encoder.encode(guard.sealed(self._whole(guard, messages)))

    def following(self, messages: Sequence[Message]) -> list[int]:
        """Ids of what comes after an answer that lacks its end token: the end of that turn, then the new messages, up
        to where the assistant begins to speak. Costs what the new messages cost. Only where `append_only`.

        Raises NoMessages, NoChatTemplate, InvalidRole, InvalidText, TemplateRefused.
        """
        guard = self._guard(messages)
        assert self.append_only, "the template rewrites history: render the whole conversation"
        return self._encoder.encode_inside(guard.sealed(self._following(guard, messages)))

    def _guard(self, messages: Sequence[Message]) -> Guard:
        if not messages:
            raise NoMessages("There are no messages. Send at least one.")
        for message in messages:
            role_of(message.role)
        return Guard(self._controls, messages)

    def _whole(self, guard: Guard, messages: Sequence[Message]) -> str:
        return self._render(guard, [guard.fields(message) for message in messages])

    def _following(self, guard: Guard, messages: Sequence[Message]) -> str:
        answer = {"role": "assistant", "content": guard.mark}
        fields = [guard.fields(OPENING), answer, *(guard.fields(message) for message in messages)]
        _, mark, tail = self._render(guard, fields).partition(guard.mark)
        if not mark or guard.mark in tail:
            raise TemplateRefused("The model's chat template does not show an earlier answer once.")
        return tail

    def _render(self, guard: Guard, fields: Sequence[dict[str, str]]) -> str:
        if self._template is None:
            raise NoChatTemplate("This model has no chat template. Use /v1/completions, or add a chat_template.jinja.")
        return self._template.render(fields, guard.shown)

    def _show_whole(self, messages: Sequence[Message]) -> str:
        guard = self._guard(messages)
        return guard.shown(self._whole(guard, messages))

    def _show_following(self, messages: Sequence[Message]) -> str:
        guard = self._guard(messages)
        return guard.shown(self._following(guard, messages))

    def _find_end(self) -> tuple[int, ...]:
        """The first id after an answer, if it is a control token."""
        guard = Guard(self._controls, [OPENING])
        try:
            ids = self._encoder.encode_inside(guard.sealed(self._following(guard, [OPENING])))
        except TemplateRefused:
            return ()
        return tuple(ids[:1]) if set(ids[:1]) <= set(self._encoder.controls.values()) else ()
