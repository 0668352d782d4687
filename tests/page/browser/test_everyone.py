"""For everyone: by keyboard alone, read aloud, narrow and wide, dark and light, in any script, however long."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from tests.integration.serving import wait_until
from tests.page.browser.tab import Tab, Tabs
from tests.page.memory_pictures import picture
from tests.page.scripted_page import Script, ScriptedPage

RICH = """## A heading

A paragraph with `code`, *stress* and [a link](https://example.org).

1. One
2. Two

```python
def one(very_long_name_of_an_argument: int, another_one_that_is_longer: str) -> dict[str, int]:
    return {"one": 1}  # a comment that makes this line longer than any narrow screen is wide
```

| Left | Right |
|:-----|------:|
| a    |     1 |

> A quotation.

averyveryveryveryveryveryveryveryveryveryveryveryveryveryveryveryveryveryveryverylongword"""

VIEWS: dict[str, Callable[[Tab], None]] = {
    "welcome": lambda tab: tab.page.evaluate("location.hash = '#/'"),
    "chat": lambda tab: tab.complete(),
    "why": lambda tab: tab.page.locator("button.measured").last.click(),
    "edit": lambda tab: tab.button("Edit").last.click(),
    "memory": lambda tab: open_memory(tab),
    "list": lambda tab: open_list(tab),
    "menu": lambda tab: tab.button("More for this conversation").click(),
    "settings": lambda tab: tab.button("Settings").click(),
    "shortcuts": lambda tab: tab.press("Control+/"),
    "error": lambda tab: fail(tab),
    "writing": lambda tab: tab.ask("Write"),
    "deleted": lambda tab: delete(tab),
}


def open_memory(tab: Tab) -> None:
    if not tab.page.locator("#memory").is_visible():
        tab.button("Memory").click()
    expect(tab.page.locator(".piece").first).to_be_visible()


def open_list(tab: Tab) -> None:
    if not tab.page.locator("#side").is_visible():
        tab.button("Open the list of conversations").click()
    expect(tab.rows.first).to_be_visible()


def fail(tab: Tab) -> None:
    tab.ask("Fail")
    expect(tab.page.get_by_role("alert")).to_be_visible()


def delete(tab: Tab) -> None:
    tab.button("More for this conversation").click()
    tab.page.get_by_role("menuitem", name="Delete").click()
    expect(tab.toast).to_be_visible()


def answers(asked: str) -> Script:
    if asked == "Fail":
        return Script(["Half"], fails={"message": "The engine stopped while it answered.", "code": "engine_died"})
    return Script([RICH], hold=threading.Event() if asked == "Write" else None)


@pytest.fixture
def furnished(script: ScriptedPage) -> ScriptedPage:
    """Talks, one of them open with everything in it, a memory with them in it."""
    talks = [script.talk_of(title, ("Hello", RICH)) for title in ("How heat pumps work", "مضخة الحرارة", "热泵")]
    talks[0].turns.append(script.turn("And then?", "<think>Hm.</think>It *depends*.", talks[0].leaf))
    talks[0].turns.append(script.turn("And then?", "<think>Hm, again.</think>It does **not**.", talks[0].leaf))
    talks[0].leaf = talks[0].turns[-1]["id"]
    script.memory = picture(24, [(talk.id, str(talk.title)) for talk in talks])
    script.answers = answers
    return script


def address(script: ScriptedPage) -> str:
    return f"{script.url}/#/c/{next(iter(script.talks))}"


@pytest.mark.parametrize(("width", "scheme"), [(320, "light"), (1440, "dark")])
def test_axe_finds_nothing_in_any_view(
    tabs: Tabs, furnished: ScriptedPage, artefacts: Path, scheme: str, width: int
) -> None:
    """In any view, at both widths, in both schemes: no violation at all, and nothing is wider than the page."""
    tab = tabs.open(address(furnished), width=width, color_scheme=scheme, reduced_motion="reduce")
    for name, show in VIEWS.items():
        tab.page.goto("about:blank")
        tab.page.goto(address(furnished))
        expect(tab.turns.nth(1)).to_be_visible()
        show(tab)
        tab.page.screenshot(path=artefacts / f"{name}-{width}-{scheme}.png")
        found = Axe().run(tab.page, options={"resultTypes": ["violations"]}).response["violations"]
        assert [(each["id"], each["impact"], each["nodes"][0]["html"][:200]) for each in found] == [], name
        assert tab.sideways() <= 0, name


@pytest.mark.parametrize("width", [320, 768, 2200])
def test_nothing_is_wider_than_the_page(tabs: Tabs, furnished: ScriptedPage, artefacts: Path, width: int) -> None:
    tab = tabs.open(address(furnished), width=width)
    tab.complete()
    tab.page.screenshot(path=artefacts / f"wide-{width}.png")
    assert tab.sideways() <= 0
    measure = tab.answer.evaluate(
        "(each) => each.getBoundingClientRect().width / parseFloat(getComputedStyle(each).fontSize)"
    )
    assert measure < 50, "a line has about 70 characters at most"


def test_a_whole_visit_by_keyboard_alone(tabs: Tabs, furnished: ScriptedPage) -> None:
    tab = tabs.open(furnished.url)
    expect(tab.field).to_be_focused()
    tab.page.keyboard.type("Hello")
    tab.press("Enter")
    tab.complete()
    tab.press("ArrowUp")  # in an empty field: the last message again
    expect(tab.page.get_by_role("textbox", name="Edit the message")).to_be_focused()
    tab.page.keyboard.type(" again")
    tab.press("Enter")
    expect(tab.last.get_by_role("group", name="Version 2 of 2")).to_be_visible()
    tab.complete()
    tab.press("Control+i")
    expect(tab.field).to_be_focused()
    tab.press("Alt+ArrowUp")
    expect(tab.last).to_be_focused()
    tab.press("Control+k")
    expect(tab.page.get_by_role("searchbox")).to_be_focused()
    tab.press("ArrowDown")
    tab.press("ArrowDown")
    tab.press("Tab")  # its menu
    tab.press("Enter")
    expect(tab.page.get_by_role("menuitem", name="Rename")).to_be_focused()
    tab.press("ArrowUp")
    expect(tab.page.get_by_role("menuitem", name="Delete")).to_be_focused()
    tab.press("Escape")
    expect(tab.page.get_by_role("menu")).to_have_count(0)
    tab.press("Control+,")
    expect(tab.dialog).to_be_visible()
    tab.press("Escape")
    tab.press("Control+j")
    expect(tab.page.locator("#memory")).to_be_hidden()
    tab.press("Control+Shift+o")
    expect(tab.page.get_by_role("heading", name="What shall we talk about?")).to_be_visible()
    expect(tab.field).to_be_focused()


def test_where_the_focus_is_can_always_be_seen(tabs: Tabs, furnished: ScriptedPage) -> None:
    tab = tabs.open(address(furnished))
    tab.complete()
    tab.page.locator(".skip").focus()
    seen = set()
    for _ in range(60):
        tab.press("Tab")
        name, drawn = tab.page.evaluate(
            """() => {
                const at = document.activeElement, shown = at.closest(".field") ?? at;
                const style = getComputedStyle(shown);
                return [at.outerHTML.slice(0, 90), style.outlineStyle !== "none" || style.boxShadow !== "none"];
            }"""
        )
        if name.startswith("<body"):
            break
        assert drawn, name
        seen.add(name)
    assert len(seen) > 20


def listen(tab: Tab) -> None:
    """Note what is said aloud from here on."""
    tab.page.evaluate(
        """() => {
            window.told = [];
            const note = (changes) => window.told.push(...changes.map(({ target }) => target.textContent));
            const watch = new MutationObserver(note);
            for (const live of document.querySelectorAll("[role=status], [aria-live]")) {
                watch.observe(live, { childList: true, characterData: true });
            }
        }"""
    )


def heard(tab: Tab) -> list[str]:
    return [words for words in tab.page.evaluate("window.told") if words]


def test_a_reader_is_told_the_beginning_and_the_end_but_not_every_word(tabs: Tabs, script: ScriptedPage) -> None:
    script.answers = lambda _: Script(["word "] * 20, pace=0.02)
    tab = tabs.open(script.url)
    listen(tab)
    tab.ask("Count")
    tab.complete()
    expect(tab.page.locator("#status")).to_have_text("The answer is complete: 20 words.")
    assert heard(tab) == ["Answering.", "The answer is complete: 20 words."]
    assert tab.page.locator("#chat [aria-live], #chat [role=log]").count() == 0


def test_a_reader_is_told_the_beginning_once_though_a_stale_word_comes_between(
    tabs: Tabs, script: ScriptedPage
) -> None:
    hold = threading.Event()
    script.answers = lambda _: Script(["Start ", "and end."], hold=hold)
    tab = tabs.open(script.url)
    listen(tab)
    tab.ask("Hello")
    expect(tab.last).to_contain_text("Waiting")
    wait_until(lambda: any(talk.running and talk.listeners for talk in script.talks.values()))
    [talk] = script.talks.values()
    assert talk.running is not None
    for said in (None, talk.running["id"]):
        talk.tell({"type": "state", "running": said, "elsewhere": False})
    hold.set()
    tab.complete()
    expect(tab.page.locator("#status")).to_have_text("The answer is complete: 3 words.")
    assert heard(tab) == ["Answering.", "The answer is complete: 3 words."]


def test_right_to_left_and_chinese_read_as_they_are_written(tabs: Tabs, script: ScriptedPage, artefacts: Path) -> None:
    arabic = "تنقل الحرارة:\n\n- المبخر\n\n```js\nlet x;\n```"
    talk = script.talk_of("مضخة الحرارة", ("كيف تعمل؟", arabic), ("热泵?", "热泵是一种**装置**。"))
    tab = tabs.open(f"{script.url}/#/c/{talk.id}")
    tab.complete()
    direction = "(each) => getComputedStyle(each).direction"
    first, second = tab.turns.all()
    assert first.locator(".message .as-typed").evaluate(direction) == "rtl"
    assert first.locator(".answer .block").first.evaluate(direction) == "rtl"
    assert first.locator(".answer pre").evaluate(direction) == "ltr"
    assert second.locator(".answer .block").evaluate(direction) == "ltr"
    assert tab.sideways() <= 0
    tab.page.screenshot(path=artefacts / "rtl.png")


def test_words_that_are_still_composed_are_not_sent(tabs: Tabs, script: ScriptedPage) -> None:
    tab = tabs.open(script.url)
    tab.field.fill("nihao")
    tab.field.evaluate(
        """(each) => {
            const composing = { key: "Enter", isComposing: true, bubbles: true, cancelable: true };
            each.dispatchEvent(new KeyboardEvent("keydown", composing));
        }"""
    )
    expect(tab.turns).to_have_count(0)
    assert script.asked == []


def test_with_reduced_motion_nothing_moves(tabs: Tabs, furnished: ScriptedPage) -> None:
    tab = tabs.open(address(furnished), reduced_motion="reduce")
    tab.ask("Write")
    expect(tab.last).to_contain_text("Waiting")
    expect(tab.page.locator(".piece").first).to_be_visible()
    assert tab.page.evaluate("document.getAnimations().length") == 0


def test_ten_thousand_words_come_without_a_stutter(tabs: Tabs, script: ScriptedPage) -> None:
    """The browser's own measure: a reader feels tasks that take long. A piece costs what is new, not what is there."""
    paragraph = "Lorem ipsum dolor sit amet consectetur adipiscing elit sed do. " * 10 + "\n\n"
    script.answers = lambda _: Script([paragraph] * 100, pace=0.02)
    tab = tabs.open(script.url)
    tab.page.evaluate(
        """() => {
            window.long = [];
            const note = (list) => window.long.push(...list.getEntries().map((each) => each.duration));
            new PerformanceObserver(note).observe({ entryTypes: ["longtask"] });
        }"""
    )
    tab.ask("Write a book")
    tab.complete()
    assert len((tab.answer.text_content() or "").split()) == 10_000
    long = sorted(tab.page.evaluate("window.long"))
    assert sum(long) < 3_000, f"{len(long)} tasks of more than 50 ms: {long[-5:]}"
    expect(tab.answer.locator("p").last).to_be_in_viewport()
