"""Talking: answers as they come, stopped, made again, edited; what goes wrong; what is never lost."""

from __future__ import annotations

import threading

from playwright.sync_api import expect

from tests.page.browser.tab import Tab, Tabs
from tests.page.scripted_page import Script, ScriptedPage

CODE = "Here:\n\n```python\nprint(1)\n```\n\nDone."


def test_a_first_message_becomes_a_conversation_with_an_address_of_its_own(tabs: Tabs, script: ScriptedPage) -> None:
    tab = tabs.open(script.url)
    expect(tab.page.get_by_role("heading", name="What shall we talk about?")).to_be_visible()
    tab.ask("Good morning, what is new?")
    tab.complete()
    expect(tab.answer.locator("strong")).to_have_text("there")
    expect(tab.page.locator("#title")).to_have_text("Good morning, what is new?")
    [talk] = script.talks.values()
    assert tab.page.url == f"{script.url}/#/c/{talk.id}"
    assert talk.title == "Good morning, what is new?"
    expect(tab.rows).to_have_count(1)
    tab.page.reload()
    tab.complete()
    expect(tab.turns).to_have_count(1)


def test_an_answer_is_patched_in_place_while_it_grows(tabs: Tabs, script: ScriptedPage) -> None:
    """What is marked stays marked: elements that have not changed are the same ones."""
    hold = threading.Event()
    tab = tabs.open(script.url)
    script.answers = lambda _: Script(["First paragraph.\n\nSecond", " goes on", " and ends."], pace=0.2, hold=hold)
    tab.ask("Go")
    expect(tab.last).to_contain_text("Waiting for the first word")
    hold.set()
    expect(tab.answer).to_contain_text("Second")
    tab.page.evaluate("window.kept = [...document.querySelectorAll('.answer p')]")
    tab.complete()
    expect(tab.answer).to_contain_text("Second goes on and ends.")
    assert tab.page.evaluate(
        """() => {
            const now = document.querySelectorAll(".answer p");
            return window.kept.length > 0 && window.kept.every((each, n) => each === now[n]);
        }"""
    )


def test_code_says_its_language_and_is_copied(tabs: Tabs, script: ScriptedPage) -> None:
    script.answers = lambda _: Script([CODE])
    tab = tabs.open(script.url)
    tab.ask("Code")
    tab.complete()
    expect(tab.answer.locator("figcaption")).to_contain_text("python")
    tab.button("Copy the code").click()
    expect(tab.answer.locator("figcaption")).to_contain_text("Copied")
    assert tab.page.evaluate("navigator.clipboard.readText()") == "print(1)\n"
    tab.button("Copy the answer").click()
    assert tab.page.evaluate("navigator.clipboard.readText()") == CODE


def test_stop_ends_the_answer_at_the_server(tabs: Tabs, script: ScriptedPage) -> None:
    script.answers = lambda _: Script(["word "] * 1000, pace=0.02)
    tab = tabs.open(script.url)
    tab.ask("Count")
    expect(tab.answer).to_contain_text("word word")
    tab.button("Stop").click()
    expect(tab.last).to_contain_text("Stopped here.")
    [talk] = script.talks.values()
    assert talk.running is None
    assert talk.turns[-1]["status"] == "cancelled"
    expect(tab.button("Send")).to_be_visible()
    tab.ask("Again")
    expect(tab.answer).to_contain_text("word word")
    tab.press("Escape")
    expect(tab.turns.nth(1)).to_contain_text("Stopped here.")


def test_another_try_and_an_edit_are_branches_that_can_be_switched(tabs: Tabs, script: ScriptedPage) -> None:
    said = iter(["One.", "Two.", "Three.", "Next."])
    script.answers = lambda _: Script([next(said)])
    tab = tabs.open(script.url)
    tab.ask("Say a number")
    tab.complete()
    tab.button("Answer again").click()
    expect(tab.answer).to_have_text("Two.")
    tab.complete()
    expect(tab.last.get_by_role("group", name="Version 2 of 2")).to_be_visible()
    tab.button("Edit").click()
    editor = tab.page.get_by_role("textbox", name="Edit the message")
    expect(editor).to_have_value("Say a number")
    editor.fill("Say another")
    tab.button("Send as a branch").click()
    expect(tab.answer).to_have_text("Three.")
    tab.complete()
    expect(tab.last.locator(".message")).to_contain_text("Say another")
    expect(tab.last.get_by_role("group", name="Version 3 of 3")).to_be_visible()
    assert [(body["input"], body["parent"]) for kind, _, body in script.asked if kind == "turn"] == [
        ("Say a number", None),
        ("Say a number", None),
        ("Say another", None),
    ]
    tab.button("Previous version").press("Enter")
    expect(tab.page.locator("#status")).to_have_text("Version 2 of 3 is shown.")
    tab.button("Previous version").press("Enter")
    expect(tab.answer).to_have_text("One.")
    expect(tab.button("Next version")).to_be_focused()
    [talk] = script.talks.values()
    assert tab.page.url.endswith(f"#/c/{talk.id}/{talk.turns[0]['id']}")
    tab.ask("Go on")
    expect(tab.answer).to_have_text("Next.")
    assert script.asked[-1][2]["parent"] == talk.turns[0]["id"]
    expect(tab.turns).to_have_count(2)


def test_what_a_user_wrote_is_shown_as_it_was_written(tabs: Tabs, script: ScriptedPage) -> None:
    code = "def __init__(self, a):\n    return a * b * c\n# a comment, <b>not</b> a heading"
    tab = tabs.open(script.url)
    tab.ask(code)
    tab.complete()
    written = tab.last.locator(".message .as-typed")
    assert written.evaluate("(each) => each.innerText") == code
    assert written.locator("*").count() == 0


def test_whoever_pressed_what_has_gone_can_go_on_writing(tabs: Tabs, script: ScriptedPage) -> None:
    talk = script.talk_of("Old", ("Hello", "Hello."))
    tab = tabs.open(f"{script.url}/#/c/{talk.id}")
    tab.complete()
    tab.button("Answer again").click()
    tab.complete()
    expect(tab.field).to_be_focused()
    tab.button("Edit").click()
    tab.press("Enter")
    tab.complete()
    expect(tab.field).to_be_focused()


def test_a_link_to_a_branch_shows_that_branch(tabs: Tabs, script: ScriptedPage) -> None:
    talk = script.talk_of("An old talk", ("Hello", "Newer."))
    talk.turns.append(script.turn("Hello", "Other.", None))
    tab = tabs.open(f"{script.url}/#/c/{talk.id}/{talk.turns[1]['id']}")
    expect(tab.answer).to_have_text("Other.")


def test_the_system_prompt_and_the_sampling_travel_with_every_turn(tabs: Tabs, script: ScriptedPage) -> None:
    tab = tabs.open(script.url)
    tab.button("Settings").click()
    expect(tab.dialog).to_contain_text("scripted/model")
    tab.page.get_by_label("System prompt").fill("Speak like a pirate.")
    tab.page.get_by_label("Temperature").fill("0.3")
    tab.page.get_by_label("Seed").fill("7")
    tab.button("Done").click()
    tab.ask("Hello")
    tab.complete()
    tab.page.reload()
    tab.complete()
    tab.ask("More")
    tab.complete()
    for _, _, body in script.asked:
        if "input" in body:
            assert (body["instructions"], body["settings"]) == ("Speak like a pirate.", {"temperature": 0.3, "seed": 7})


def test_a_setting_that_cannot_be_is_not_dropped_in_silence(tabs: Tabs, script: ScriptedPage) -> None:
    tab = tabs.open(script.url)
    opener = tab.page.locator("#settings-open")
    opener.focus()
    tab.press("Enter")
    temperature = tab.dialog.get_by_label("Temperature")
    temperature.fill("99")
    tab.press("Escape")
    expect(tab.dialog).to_be_visible()
    expect(temperature).to_be_focused()
    temperature.fill("0.5")
    tab.press("Escape")
    expect(tab.dialog).to_have_count(0)
    expect(opener).to_be_focused()


def test_what_a_model_thinks_is_folded(tabs: Tabs, script: ScriptedPage) -> None:
    hold = threading.Event()
    script.answers = lambda _: Script(["<think>Let me **see**. ", "Aha.</think>", "It is 4."], hold=hold)
    tab = tabs.open(script.url)
    tab.ask("2 + 2?")
    hold.set()
    tab.complete()
    expect(tab.answer).to_have_text("It is 4.")
    thought = tab.last.locator(".thinking .prose")
    expect(thought).to_be_hidden()
    tab.page.get_by_text("What it thought").click()
    expect(thought).to_have_text("Let me see. Aha.")


def test_an_error_is_told_where_it_happened_and_tried_again_there(tabs: Tabs, script: ScriptedPage) -> None:
    broken = {"message": "The engine stopped while it answered.", "code": "engine_died"}
    script.answers = lambda _: Script(["Half an "], fails=broken)
    tab = tabs.open(script.url)
    tab.ask("Hello")
    error = tab.last.get_by_role("alert")
    expect(error).to_contain_text("The engine stopped while it answered.")
    expect(error).to_contain_text("try again in a moment")
    expect(tab.answer).to_have_text("Half an")
    script.answers = lambda _: Script(["Whole."])
    error.get_by_role("button", name="Try again").click()
    expect(tab.answer).to_have_text("Whole.")
    tab.complete()
    expect(tab.page.get_by_role("alert")).to_have_count(0)


def test_a_message_that_was_not_taken_is_still_in_the_field(tabs: Tabs, script: ScriptedPage) -> None:
    talk = script.talk_of("An old talk", ("Hello", "Hello."))
    tab = tabs.open(f"{script.url}/#/c/{talk.id}")
    tab.complete()
    script.refuse_next = [(429, {"message": "64 turns wait already.", "code": None})]
    tab.ask("My long question")
    expect(tab.page.get_by_role("alert")).to_contain_text("64 turns wait already.")
    expect(tab.page.get_by_role("alert")).to_contain_text("Wait a moment, then try again")
    expect(tab.field).to_have_value("My long question")
    tab.button("Try again").click()
    tab.complete()
    expect(tab.turns).to_have_count(2)
    expect(tab.field).to_have_value("")


def test_an_edit_that_was_not_taken_is_not_lost(tabs: Tabs, script: ScriptedPage) -> None:
    talk = script.talk_of("An old talk", ("Hello", "Hello."))
    tab = tabs.open(f"{script.url}/#/c/{talk.id}")
    tab.button("Edit").click()
    script.refuse_next = [(503, {"message": "The server is leaving.", "code": "draining"})]
    tab.page.get_by_role("textbox", name="Edit the message").fill("Hello, again")
    tab.button("Send as a branch").click()
    expect(tab.page.get_by_role("alert")).to_contain_text("Try again when it is back.")
    expect(tab.page.get_by_role("textbox", name="Edit the message")).to_have_value("Hello, again")
    tab.button("Try again").click()
    expect(tab.last).to_contain_text("Hello, again")
    tab.complete()


def test_while_another_answers_one_is_told_and_can_stop_it(tabs: Tabs, script: ScriptedPage) -> None:
    talk = script.talk_of("An old talk", ("Hello", "Hello."))
    script.refuse_next = [(409, {"message": "A turn runs.", "code": "turn_running", "running": "resp_1"})]
    tab = tabs.open(f"{script.url}/#/c/{talk.id}")
    tab.complete()
    tab.ask("Mine")
    expect(tab.page.get_by_role("alert")).to_contain_text("Another answer is being written in this conversation")
    expect(tab.button("Stop that answer")).to_be_visible()


def test_a_draft_is_kept_for_each_conversation(tabs: Tabs, script: ScriptedPage) -> None:
    one, two = script.talk_of("An old talk", ("One", "1")), script.talk_of("An old talk", ("Two", "2"))
    tab = tabs.open(f"{script.url}/#/c/{one.id}")
    tab.complete()
    tab.field.fill("not yet")
    tab.page.goto(f"{script.url}/#/c/{two.id}")
    expect(tab.answer).to_have_text("2")
    expect(tab.field).to_have_value("")
    tab.field.fill("other words")
    tab.page.reload()
    expect(tab.field).to_have_value("other words")
    tab.page.goto(f"{script.url}/#/c/{one.id}")
    expect(tab.field).to_have_value("not yet")


def test_it_scrolls_along_only_while_one_is_at_the_end(tabs: Tabs, script: ScriptedPage) -> None:
    script.answers = lambda _: Script(["A paragraph of an answer.\n\n"] * 60, pace=0.02)
    tab = tabs.open(script.url, height=500)
    tab.ask("Tell me")
    expect(tab.answer.locator("p").nth(20)).to_be_attached()
    expect(tab.answer.locator("p").last).to_be_in_viewport()
    tab.page.locator("#scroller").hover()
    tab.page.mouse.wheel(0, -400)
    tab.page.wait_for_timeout(150)
    at = tab.page.evaluate("document.getElementById('scroller').scrollTop")
    tab.complete()
    assert tab.page.evaluate("document.getElementById('scroller').scrollTop") == at
    tab.button("To the newest").click()
    expect(tab.answer.locator("p").last).to_be_in_viewport()
    expect(tab.button("To the newest")).to_be_hidden()


def test_a_dropped_stream_loses_nothing(tabs: Tabs, script: ScriptedPage) -> None:
    script.answers = lambda _: Script([f"{n} " for n in range(60)], pace=0.03)
    tab = tabs.open(script.url)
    tab.ask("Count")
    expect(tab.answer).to_contain_text("3")
    [talk] = script.talks.values()
    script.away = True
    script.cut(talk)
    expect(tab.page.get_by_role("status").filter(has_text="The connection was lost")).to_be_visible()
    script.away = False
    tab.complete()
    assert (tab.answer.text_content() or "").split() == [str(n) for n in range(60)]
    expect(tab.page.locator("#link")).to_be_hidden()


def end_unheard(tab: Tab, script: ScriptedPage, hold: threading.Event) -> None:
    """The page is cut off; the answer ends meanwhile; then the server can be reached again."""
    [talk] = script.talks.values()
    script.away = True
    script.cut(talk)
    expect(tab.page.locator("#link")).to_be_visible()
    hold.set()
    while talk.running:
        tab.page.wait_for_timeout(10)
    script.away = False


def test_an_answer_that_failed_while_nobody_listened_is_not_forgotten(tabs: Tabs, script: ScriptedPage) -> None:
    hold = threading.Event()
    script.answers = lambda _: Script(["Start "], hold=hold, fails={"message": "Broken.", "code": None})
    tab = tabs.open(script.url)
    tab.ask("Hello")
    expect(tab.last).to_contain_text("Waiting")
    end_unheard(tab, script, hold)
    expect(tab.last.get_by_role("alert")).to_contain_text("failed while the page was not connected")
    expect(tab.last).to_contain_text("Hello")


def test_an_answer_that_ended_while_nobody_listened_is_there_afterwards(tabs: Tabs, script: ScriptedPage) -> None:
    hold = threading.Event()
    script.answers = lambda _: Script(["Start ", "and end."], hold=hold)
    tab = tabs.open(script.url)
    tab.ask("Hello")
    expect(tab.last).to_contain_text("Waiting")
    end_unheard(tab, script, hold)
    expect(tab.answer).to_have_text("Start and end.")
    tab.complete()


def test_a_tree_that_was_read_before_the_end_and_comes_after_it_forgets_nothing(
    tabs: Tabs, script: ScriptedPage
) -> None:
    hold, late = threading.Event(), threading.Event()
    script.answers = lambda _: Script(["Start ", "and end."], hold=hold)
    tab = tabs.open(script.url)
    tab.ask("Hello")
    expect(tab.last).to_contain_text("Waiting")
    [talk] = script.talks.values()
    script.late_tree = late
    script.cut(talk)
    while script.late_tree is not None:
        tab.page.wait_for_timeout(10)
    hold.set()
    expect(tab.answer).to_have_text("Start and end.", timeout=10_000)  # what hangs holds up nothing that is asked later
    with tab.page.expect_response(lambda response: response.url.endswith(talk.id)):
        late.set()
    tab.page.wait_for_timeout(200)
    assert tab.turns.count() == 1, "what was seen to end is gone"
    tab.complete()
    expect(tab.answer).to_have_text("Start and end.")
    expect(tab.button("Stop")).to_be_hidden()


def test_a_conversation_that_is_not_there_says_so(tabs: Tabs, script: ScriptedPage) -> None:
    tab = tabs.open(f"{script.url}/#/c/conv_unknown")
    expect(tab.page.get_by_role("alert")).to_contain_text("There is no such conversation")
    tab.button("Start a new one").click()
    expect(tab.page.get_by_role("heading", name="What shall we talk about?")).to_be_visible()


def test_a_message_that_is_too_long_is_told_before_it_is_sent(tabs: Tabs, script: ScriptedPage) -> None:
    tab = tabs.open(script.url)
    expect(tab.page.locator("#subtitle")).to_contain_text("scripted/model")
    tab.field.fill("x" * 20_001)
    expect(tab.page.get_by_text("20,001 characters are more than the 20,000")).to_be_visible()
    expect(tab.button("Send")).to_be_disabled()
