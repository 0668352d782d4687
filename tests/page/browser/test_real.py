"""The page as it is delivered: the real server with the demo model, by hand, against the clock, and in a picture."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import expect

from chatserve.page.static import WEB
from tests.integration.serving import Serving, wait_until
from tests.page.browser.tab import Tab, Tabs
from tests.page.browser.test_conversations import menu

pytestmark = pytest.mark.model

RULES = "You are a helpful assistant. " + 12 * (
    "Answer every question in one short, friendly and correct sentence. Do not make lists. Do not repeat the question. "
)
"""Longer than a chunk, so that conversations that begin with it have something to share."""
LARGEST = 150_000
"""Bytes of the whole page, as they travel."""


def brief(tab: Tab, tokens: int = 16) -> None:
    """Short answers: it is about the page, not about the model."""
    tab.button("Settings").click()
    tab.page.get_by_label("Longest answer").fill(str(tokens))
    tab.page.get_by_label("Temperature").fill("0")
    tab.button("Done").click()


def test_a_visit(tabs: Tabs, real: Serving, tmp_path: Path) -> None:
    """All of a conversation's life, as one user has it."""
    tab = tabs.open(real.url)
    expect(tab.page.locator("#subtitle")).to_contain_text("smollm2")
    brief(tab)
    tab.ask("What is the tallest mountain on Earth?")
    tab.complete()
    line = tab.last.locator("button.measured")
    expect(line).to_contain_text(re.compile(r"to the first token · .* tokens/s · 0 of \d+ tokens reused"))
    tab.field.press_sequentially("And how high is it?")  # warms it up
    tab.press("Enter")
    expect(tab.turns).to_have_count(2)
    tab.complete()
    said = re.search(r"(\d+) of (\d+) tokens reused", line.inner_text())
    assert said is not None
    assert int(said[1]) > 30
    line.hover()
    expect(tab.page.get_by_role("tooltip")).to_contain_text("Everything that was remembered was reused")
    expect(tab.page.get_by_role("tooltip")).to_contain_text("taken over")
    address = tab.page.url

    tab.last.get_by_role("button", name="Answer again").click()
    expect(tab.last.get_by_role("group", name="Version 2 of 2")).to_be_visible()
    tab.complete()
    tab.last.get_by_role("button", name="Edit").click()
    tab.page.get_by_role("textbox", name="Edit the message").fill("Where is it?")
    tab.button("Send as a branch").click()
    expect(tab.last.get_by_role("group", name="Version 3 of 3")).to_be_visible()
    tab.complete()
    tab.turns.first.get_by_role("button", name="Answer again").click()
    expect(tab.turns).to_have_count(1)
    tab.complete()
    tab.button("Previous version").click()
    expect(tab.turns).to_have_count(2)
    expect(tab.last).to_contain_text("Where is it?")

    tab.page.goto(address)
    tab.page.reload()
    expect(tab.turns).to_have_count(1)  # the server goes on where the last turn ended
    menu(tab, "What is the tallest mountain on Earth?", "Rename")
    tab.page.keyboard.type("Mountains")
    tab.press("Enter")
    expect(tab.page.locator("#title")).to_have_text("Mountains")
    tab.page.get_by_role("searchbox").fill("where is it")
    expect(tab.rows).to_have_count(1)
    tab.page.get_by_role("searchbox").fill("")

    for entry, name in (("Export as JSON", "talk.json"), ("Export as Markdown", "talk.md")):
        with tab.page.expect_download() as download:
            menu(tab, "Mountains", entry)
        download.value.save_as(tmp_path / name)
    assert "tallest mountain" in (tmp_path / "talk.md").read_text()
    tab.page.locator("#import-file").set_input_files(tmp_path / "talk.json")
    expect(tab.toast).to_contain_text("was imported")
    expect(tab.rows).to_have_count(2)
    expect(tab.turns.first).to_contain_text("What is the tallest mountain on Earth?")
    expect(tab.last.get_by_role("group", name="Version 2 of 2")).to_be_visible()
    expect(tab.page.locator(".piece.opens").first).to_be_visible()
    tab.button("More for this conversation").click()
    tab.page.get_by_role("menuitem", name="Delete").click()
    expect(tab.rows).to_have_count(1)
    tab.toast.get_by_role("button", name="Undo").click()
    expect(tab.rows).to_have_count(2)


def test_stop_and_two_tabs_and_a_reload_in_the_middle(tabs: Tabs, real: Serving) -> None:
    tab = tabs.open(real.url)
    tab.button("Settings").click()
    tab.page.get_by_label("Longest answer").fill("2000")
    tab.button("Done").click()
    tab.ask("Write a very long story about a ship.")
    expect(tab.answer.locator(".block").first).to_be_visible()
    two = tabs.open(tab.page.url)
    expect(two.answer.locator(".block").first).to_be_visible()
    two.page.reload()
    expect(two.answer.locator(".block").first).to_be_visible()
    two.button("Stop").click()
    for each in (two, tab):
        each.front()
        expect(each.last).to_contain_text("Stopped here.")
        each.complete()
    wait_until(real.idle)


def test_a_model_that_repeats_an_attack_is_harmless(tabs: Tabs, real: Serving) -> None:
    """A37, through the real renderer, store, search and exports."""
    attack = "<img src=x onerror=alert(1)> [a](javascript:alert(1)) <script>alert(1)</script>"
    said = [{"role": role, "content": attack} for role in ("user", "assistant")]
    made = real.post("/page/import", {"title": attack, "messages": said})
    assert made.status_code in (200, 201), made.text
    tab = tabs.open(f"{real.url}/#/c/{made.json()['id']}")
    expect(tab.answer).to_contain_text("<script>alert(1)</script>")
    expect(tab.page.locator("#title")).to_have_text(attack)
    tab.page.get_by_role("searchbox").fill("onerror=alert")
    expect(tab.rows.locator("small").first).to_contain_text("onerror=alert")
    assert tab.page.locator("#chat img, #chat script, #list img, #chat a[href^=javascript]").count() == 0
    for form in ("json", "markdown"):
        headers = real.get(f"/page/conversations/{made.json()['id']}/export?format={form}").headers
        assert headers["content-disposition"].startswith("attachment")
        assert headers["x-content-type-options"] == "nosniff"


# -- budgets

PAINTED = """
new MutationObserver((_, watch) => {
    if (document.querySelectorAll(".turn").length < 100) return;
    watch.disconnect();
    requestAnimationFrame(() => requestAnimationFrame(() => (window.painted = performance.now())));
}).observe(document, { childList: true, subtree: true });
"""


def hundred_turns() -> list[dict[str, str]]:
    words = "Water boils at 100 °C, and at **71 °C** on Everest.\n\n- one\n- two\n\n```python\nprint(1)\n```\n\n"
    return [{"role": role, "content": words * 2} for _ in range(100) for role in ("user", "assistant")]


def test_a_hundred_turns_are_painted_within_a_second(tabs: Tabs, real: Serving) -> None:
    """From the address to the pixels; the best of a few, since other work shares the machine."""
    made = real.post("/page/import", {"title": "Long", "messages": hundred_turns()}).json()
    tabs.profile().add_init_script(PAINTED)
    took = []
    for _ in range(4):
        tab = tabs.open(f"{real.url}/#/c/{made['id']}")
        expect(tab.turns).to_have_count(100)
        tab.page.wait_for_timeout(200)
        took.append(tab.page.evaluate("window.painted"))
        expect(tab.last).to_be_in_viewport()
        tab.page.close()  # each has streams of its own, and a browser opens six connections to one server
    assert min(took) < 1000, took


def test_the_whole_page_is_small_and_comes_from_here(tabs: Tabs, real: Serving) -> None:
    tab = tabs.open(real.url)
    expect(tab.page.locator("#subtitle")).to_contain_text("smollm2")
    loaded: list[dict[str, Any]] = tab.page.evaluate(
        "[...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')]"
        ".map(({ name, encodedBodySize }) => ({ name, size: encodedBodySize }))"
    )
    assert all(each["name"].startswith(real.url) for each in loaded)
    weight = sum(each["size"] for each in loaded if "/page/" not in each["name"])
    assert 20_000 < weight < LARGEST, weight


def test_every_module_is_asked_for_at_once() -> None:
    """One after another, as they name each other, would take as many trips as they are deep."""
    frame = (WEB / "index.html").read_text()
    preloaded = set(re.findall(r'rel="modulepreload" href="/web/(\w+\.js)"', frame))
    assert preloaded == {path.name for path in WEB.glob("*.js")} - {"main.js", "types.js"}


# -- the picture


def test_the_picture_for_the_readme(tabs: Tabs, real: Serving, artefacts: Path) -> None:
    """Three conversations that begin alike, one of them with a branch: what is shared can be seen."""
    for row in real.get("/page/conversations?limit=100").json()["data"]:
        httpx.delete(f"{real.url}/page/conversations/{row['id']}")
    real.post("/admin/flush", {})
    for asked in ("What do bees make?", "How does a rainbow come about?"):
        talk = real.post("/page/conversations", {"title": asked}).json()["id"]
        body = {
            "input": asked,
            "parent": None,
            "instructions": RULES,
            "settings": {"temperature": 0, "max_output_tokens": 16},
        }
        assert real.post(f"/page/conversations/{talk}/turns", body).status_code == 202
        wait_until(real.idle, 60)
    tab = tabs.open(real.url, width=1240, height=740)
    brief(tab, 40)
    tab.button("Settings").click()
    tab.page.get_by_label("System prompt").fill(RULES)
    tab.button("Done").click()
    tab.ask("What is the capital of France?")
    tab.complete()
    tab.ask("Which river flows through it?")
    expect(tab.turns).to_have_count(2)
    tab.complete()
    tab.last.get_by_role("button", name="Answer again").click()
    expect(tab.last.get_by_role("group", name="Version 2 of 2")).to_be_visible()
    tab.complete()
    expect(tab.page.locator(".piece.shared").first).to_be_visible()
    tab.turns.first.locator("button.measured").scroll_into_view_if_needed()
    tab.last.locator("button.measured").hover()
    expect(tab.page.get_by_role("tooltip")).to_be_visible()
    tab.page.wait_for_timeout(600)  # until the picture has moved into place
    picture = artefacts / "page.png"
    tab.page.screenshot(path=picture)
    assert picture.stat().st_size < 150_000
