"""What no other page shows: what an answer did not have to compute, why, and the memory that it comes from."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.page.browser.tab import Tab, Tabs
from tests.page.memory_pictures import picture
from tests.page.scripted_page import ScriptedPage

REASONS = {
    None: "the last token is always computed",
    "record_ends": "Everything that was remembered was reused",
    "differs": "After 96 tokens what is remembered goes on with “cat”, but this conversation with “dog”",
    "evicted": "others needed the memory",
    "flushed": "the operator had the memory emptied",
    "distrusted": "numbers that made no sense",
    "below_unit": "Less than one chunk more",
    "template_rewrote_history": "from token 96 on",
    "nothing_recorded": "belongs to another key, which is never told",
    "reuse_off": "Reuse was turned off",
}
"""The reasons of the README's table, and words of what is said for each."""


def stopped(why: str | None) -> dict[str, Any] | None:
    token = {"found": {"id": 1, "text": "cat"}, "asked": {"id": 2, "text": "dog"}}
    return None if why is None else {"at": 96, "why": why} | token


def test_a_quiet_line_says_what_was_measured_and_on_hover_why(tabs: Tabs, script: ScriptedPage) -> None:
    talk = script.talk_of("Reasons", *(("Why?", f"Because {why}.") for why in REASONS))
    for told, why in zip(talk.turns, REASONS, strict=True):
        told["usage"] = copy.deepcopy(told["usage"])
        told["usage"]["input_tokens_details"]["chatserve"]["stopped"] = stopped(why)
    tab = tabs.open(f"{script.url}/#/c/{talk.id}", width=1000)
    bubble = tab.page.get_by_role("tooltip")
    for turn, words in zip(tab.turns.all(), REASONS.values(), strict=True):
        line = turn.locator("button.measured")
        line.scroll_into_view_if_needed()
        expect(line).to_have_text("112 ms to the first token · 28 tokens/s · 96 of 120 tokens reused")
        tab.page.mouse.move(5, 5)
        expect(bubble).to_be_hidden()
        line.hover()
        expect(bubble).to_contain_text(words)
    expect(bubble).to_contain_text("64 taken over")
    expect(bubble).to_contain_text("24 computed")
    tab.page.mouse.move(5, 5)
    expect(bubble).to_be_hidden()


def test_the_words_behind_the_line_come_by_keyboard_too(tabs: Tabs, script: ScriptedPage) -> None:
    talk = script.talk_of("Keys", ("Hello", "Hello."))
    tab = tabs.open(f"{script.url}/#/c/{talk.id}")
    tab.complete()
    tab.button("Edit").focus()
    for _ in range(2):
        tab.press("Tab")
    expect(tab.page.locator("button.measured")).to_be_focused()
    expect(tab.page.get_by_role("tooltip")).to_contain_text("Why not more?")
    tab.press("Escape")
    expect(tab.page.get_by_role("tooltip")).to_be_hidden()
    expect(tab.page.locator("button.measured")).to_be_focused()


def test_typing_has_the_past_brought_back_once(tabs: Tabs, script: ScriptedPage) -> None:
    talk = script.talk_of("Warm", ("Hello", "Hello."))
    tab = tabs.open(f"{script.url}/#/c/{talk.id}")
    tab.complete()
    tab.field.press_sequentially("And then what")
    tab.ask("And then what?")
    tab.complete()
    assert [kind for kind, *_ in script.asked] == ["warm", "turn"]
    assert script.asked[0][1] == talk.id


@pytest.fixture
def shown(tabs: Tabs, script: ScriptedPage) -> Tab:
    """A tab with the memory's panel."""
    talk = script.talk_of("Heat pumps", ("Hello", "Hello."))
    other = script.talk_of("The sea", ("Hello", "Ahoy."))
    script.memory = picture(24, [(talk.id, "Heat pumps"), (other.id, "The sea")])
    tab = tabs.open(f"{script.url}/#/c/{talk.id}")
    expect(tab.page.locator(".piece")).to_have_count(24)
    return tab


def test_the_panel_says_how_much_there_is_of_what(shown: Tab) -> None:
    panel = shown.page.get_by_role("complementary", name="Memory of the conversations")
    words = ["520 MB of 1 GB in use", "412 MB", "a chunk of 256 tokens", "Other keys hold 20 MB"]
    for said in words:
        expect(panel).to_contain_text(said)


def test_the_picture_tells_pieces_apart_and_leads_to_conversations(shown: Tab) -> None:
    for kind in ("shared", "private", "used", "next", "here", "warm"):
        assert shown.page.locator(f".piece.{kind}").count() > 0, kind
    sea = shown.page.locator(".piece", has_text="The sea").first
    sea.hover()
    detail = shown.page.locator(".detail")
    expect(detail).to_contain_text("The sea")
    expect(detail).to_contain_text("given up")
    expect(detail).to_contain_text("on the device")
    sea.click()
    expect(shown.answer).to_have_text("Ahoy.")


def test_the_picture_is_walked_by_keyboard(shown: Tab) -> None:
    shown.page.locator(".rtree").focus()
    detail = shown.page.locator(".detail")
    expect(detail).to_contain_text("Tokens 0 to 600")
    shown.press("ArrowDown")
    expect(detail).to_contain_text("Tokens 600 to")
    shown.press("End")
    shown.press("Enter")
    assert "#/c/conv_" in shown.page.url


def test_the_picture_follows_what_happens(shown: Tab, script: ScriptedPage) -> None:
    shown.page.evaluate("window.first = document.querySelector('[data-piece=\"0\"]')")
    later = copy.deepcopy(script.memory)
    assert later is not None
    later["nodes"] = later["nodes"][:10]
    later["device"]["given_back_bytes"] = 500 << 20
    script.memory = later
    expect(shown.page.locator(".piece")).to_have_count(10)
    expect(shown.page.locator(".figures")).to_contain_text("500 MB")
    assert shown.page.evaluate("window.first === document.querySelector('[data-piece=\"0\"]')"), "kept, not made again"


def test_five_hundred_pieces_take_less_than_a_frame_or_two(tabs: Tabs, script: ScriptedPage) -> None:
    """Long tasks are what one feels; each update may take 50 ms of this machine at most, the first more."""
    script.memory = picture(500, [("conv_1", "One"), ("conv_2", "Two")])
    tab = tabs.open(script.url)
    expect(tab.page.locator(".piece")).to_have_count(500)
    took = tab.page.evaluate(
        """async (pieces) => {
            const { MemoryPicture } = await import("/web/memory_picture.js");
            const frame = document.createElement("div");
            document.querySelector("#chat").append(frame);
            const picture = new MemoryPicture(frame, { look() {}, open() {} });
            const times = [];
            for (let n = 0; n < 8; n++) {
                for (const piece of pieces) piece.warm = (piece.id + n) % 3 === 0;
                const start = performance.now();
                picture.show(pieces, 256, "conv_1");
                frame.getBoundingClientRect();
                times.push(performance.now() - start);
            }
            return times.slice(1).sort((a, b) => a - b);
        }""",
        script.memory["nodes"],
    )
    assert took[0] < 50, took
