"""A conversation with the real model, through the official client: nothing of its past is computed twice."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

from chatserve.text.messages import Message
from chatserve.text.prompt import ChatPrompt
from chatserve.text.tokenizer import Tokenizer
from tests.integration.serving import Answer, Serving

pytestmark = pytest.mark.model

NEAR = 1e-3
TOKENS = 12
QUESTIONS = [
    "What is the moon made of?",
    "And the sun?",
    "Which of the two is larger, and by how much?",
    "Thank you.",
    "What is 2+2?",
    "Why is the sky blue? Explain it to a child.",
    "Say it again in one sentence.",
    "Count from one to five.",
]


def ask(server: Serving, messages: list[Any], **extra: Any) -> Answer:
    """Greedily, streamed."""
    stream = server.openai().chat.completions.create(
        model="smollm2-135m-instruct",
        messages=messages,
        max_tokens=TOKENS,
        temperature=0,
        stream=True,
        stream_options={"include_usage": True},
        extra_body=extra,
    )
    text, finish, usage = "", None, None
    for chunk in stream:
        usage = chunk.usage or usage
        for choice in chunk.choices:
            text += choice.delta.content or ""
            finish = choice.finish_reason or finish
    assert usage is not None
    assert usage.prompt_tokens_details is not None
    cached = usage.prompt_tokens_details.cached_tokens
    assert cached is not None
    assert finish is not None
    return Answer(text, finish, usage.prompt_tokens, cached, usage.completion_tokens)


def converse(server: Serving, **extra: Any) -> list[Answer]:
    """All turns, each of which must reuse all that went before, less two tokens."""
    messages: list[Any] = []
    answers: list[Answer] = []
    for question in QUESTIONS:
        new = {"role": "user", "content": question}
        messages.append(new)
        answer = ask(server, [new] if "session_id" in extra else messages, **extra)
        if answers:
            assert answer.cached >= answers[-1].known - 2
        answers.append(answer)
        messages.append({"role": "assistant", "content": answer.text})
    return answers


@pytest.fixture(scope="module")
def by_text(chatting: Serving) -> list[Answer]:
    """The conversation whose history is sent again as text each time."""
    return converse(chatting, cache_salt="by text")


def test_every_turn_by_text_reuses_all_earlier_tokens(by_text: list[Answer]) -> None:
    """A01, A12, A46: none cached at first; answers end in their length or by an end token that is not in the text."""
    assert by_text[0].cached == 0
    assert {answer.finish for answer in by_text} <= {"stop", "length"}
    assert not any("<|" in answer.text for answer in by_text)


def test_a_session_reuses_as_much_and_says_the_same(chatting: Serving, by_text: list[Answer]) -> None:
    by_session = converse(chatting, cache_salt="by session", session_id="eight-turns")
    assert [answer.text for answer in by_session] == [answer.text for answer in by_text]
    assert [answer.prompt for answer in by_session] == [answer.prompt for answer in by_text]


def test_every_answer_is_the_one_given_without_reuse_or_differs_first_at_a_near_tie(
    chatting: Serving, by_text: list[Answer], demo_folder: Path
) -> None:
    messages: list[Any] = []
    differences = 0
    for question, answer in zip(QUESTIONS, by_text, strict=True):
        messages.append({"role": "user", "content": question})
        alone = ask(chatting, messages, cache_salt="by text", reuse_prefix=False)
        assert (alone.cached, alone.prompt) == (0, answer.prompt)
        if alone.text != answer.text:
            differences += 1
            assert gap(demo_folder, messages, common(alone.text, answer.text)) < NEAR
        messages.append({"role": "assistant", "content": answer.text})
    print(f"answers that differ from the ones without reuse: {differences} of {len(by_text)}")


def common(one: str, other: str) -> str:
    length = next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    return one[:length]


def gap(folder: Path, messages: list[Any], said: str) -> float:
    """Between the two best logits of what follows, by transformers alone."""
    tokenizer = Tokenizer.load(str(folder))
    prompt = ChatPrompt(tokenizer).whole([Message(each["role"], each["content"]) for each in messages])
    with torch.inference_mode():
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
        best = model(torch.tensor([[*prompt, *tokenizer.encode(said)]])).logits[0, -1].topk(2).values
    return float(best[0] - best[1])


def test_a_known_question_has_its_known_answer(chatting: Serving) -> None:
    """A44"""
    assert "Paris" in chatting.ask("What is the capital of France?", max_tokens=TOKENS).text


def test_a_seed_gives_the_same_answer_alone_in_company_and_from_the_cache(chatting: Serving) -> None:
    """A17"""
    asked = {"temperature": 0.9, "seed": 7, "max_tokens": TOKENS}
    alone = chatting.ask("Invent a name for a boat.", reuse_prefix=False, **asked)
    again = chatting.ask("Invent a name for a boat.", **asked)
    cached = chatting.ask("Invent a name for a boat.", **asked)
    assert cached.cached == cached.prompt - 1
    assert alone.text == again.text == cached.text


def test_the_terminal_client_shows_on_its_second_turn_what_was_reused(reciting: Serving) -> None:
    talk = subprocess.run(
        [sys.executable, "-m", "chatserve", "chat", "--url", reciting.url],
        input=b"Say one word.\nAnd another word.\n/quit\n",
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert talk.returncode == 0, talk.stderr.decode()
    first, second = (line.split() for line in talk.stdout.decode().splitlines() if "tokens reused" in line)
    assert first[0] == second[0] == "↺"
    assert int(first[1]) < int(first[3]) < int(second[1]) < int(second[3])
