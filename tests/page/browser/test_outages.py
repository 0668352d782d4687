"""The server goes away and comes back: nothing that was written is lost, and nobody has to load the page again."""

from __future__ import annotations

import threading

from playwright.sync_api import expect

from tests.page.browser.tab import Tabs
from tests.page.scripted_page import Script, ScriptedPage

LOST = "failed while the page was not connected"


def test_a_question_that_a_killed_server_had_taken_is_still_there_after_a_reload(
    tabs: Tabs, script: ScriptedPage
) -> None:
    talk = script.talk_of("Old", ("Hello", "Hello."))
    script.answers = lambda _: Script(["Never ", "said."], hold=threading.Event())
    tab = tabs.open(f"{script.url}/#/c/{talk.id}")
    tab.complete()
    tab.ask("What about this?")
    expect(tab.last).to_contain_text("Waiting")
    script.kill(talk)
    expect(tab.last.get_by_role("alert")).to_contain_text(LOST)
    tab.page.reload()
    expect(tab.turns).to_have_count(2)
    expect(tab.last).to_contain_text("What about this?")
    expect(tab.last.get_by_role("alert")).to_contain_text(LOST)
    script.answers = lambda _: Script(["Said now."])
    tab.last.get_by_role("button", name="Try again").click()
    expect(tab.answer).to_have_text("Said now.")
    tab.complete()
    expect(tab.last.get_by_text("1/1")).to_have_count(0)
    tab.page.reload()
    expect(tab.answer).to_have_text("Said now.")
    expect(tab.page.get_by_role("alert")).to_have_count(0)
    assert script.asked[-1][2]["parent"] == talk.turns[0]["id"]


def test_what_failed_stays_while_another_question_is_refused_and_when_it_is_answered(
    tabs: Tabs, script: ScriptedPage
) -> None:
    talk = script.talk_of("Old", ("Hello", "Hello."))
    script.answers = lambda _: Script(["Half "], fails={"message": "Broken.", "code": None})
    tab = tabs.open(f"{script.url}/#/c/{talk.id}")
    tab.complete()
    tab.ask("First")
    expect(tab.last.get_by_role("alert")).to_contain_text("Broken.")
    script.refuse_next.append((503, {"message": "Still loading.", "code": "not_ready"}))
    tab.ask("Second")
    expect(tab.page.get_by_role("alert").filter(has_text="Still loading.")).to_be_visible()
    expect(tab.last).to_contain_text("First")
    expect(tab.answer).to_have_text("Half")
    script.answers = lambda _: Script(["Whole."])
    tab.press("Enter")
    expect(tab.answer).to_have_text("Whole.")
    tab.complete()
    assert script.asked[-1][2]["parent"] == talk.turns[0]["id"], "the server knows nothing of what failed"
    tab.last.get_by_role("button", name="Previous version").click()
    expect(tab.answer).to_have_text("Half")


def test_a_stop_that_nobody_heard_can_be_tried_again_and_is_forgotten_when_they_are_back(
    tabs: Tabs, script: ScriptedPage
) -> None:
    script.answers = lambda _: Script(["Go", "ing on."], hold=threading.Event())
    tab = tabs.open(script.url)
    tab.ask("Hello")
    expect(tab.last).to_contain_text("Waiting")
    [talk] = script.talks.values()
    script.away = True
    tab.button("Stop").click()
    refusal = tab.page.locator(".after").get_by_role("alert")
    expect(refusal).to_contain_text("There is nobody.")
    script.cut(talk)
    script.away = False
    expect(tab.page.locator("#link")).to_be_hidden()
    expect(refusal).to_have_count(0)
    assert [kind for kind, *_ in script.asked] == ["turn"], "nothing was asked a second time"
    tab.button("Stop").click()
    tab.complete()


def test_what_was_opened_while_nobody_was_there_is_shown_once_they_are(tabs: Tabs, script: ScriptedPage) -> None:
    talk = script.talk_of("Old", ("Hello", "Hello."))
    tab = tabs.open(script.url)
    expect(tab.rows).to_have_count(1)
    script.away = True
    tab.rows.get_by_role("link").click()
    expect(tab.page.locator("#chat").get_by_role("alert")).to_contain_text("There is nobody.")
    script.away = False
    expect(tab.answer).to_have_text("Hello.")
    assert tab.page.url.endswith(talk.id)
