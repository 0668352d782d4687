"""The list: found, renamed, deleted and not deleted, taken along and brought in, the same in two tabs."""

from __future__ import annotations

import json
import threading
from pathlib import Path

from playwright.sync_api import expect

from tests.page.browser.tab import Tab, Tabs
from tests.page.scripted_page import Script, ScriptedPage


def menu(tab: Tab, title: str, entry: str) -> None:
    tab.front()
    tab.rows.filter(has_text=title).hover()
    tab.button(f"More for “{title}”").click()
    tab.page.get_by_role("menuitem", name=entry).click()


def test_it_is_searched_by_titles_and_by_what_was_said(tabs: Tabs, script: ScriptedPage) -> None:
    for n in range(60):
        script.talk_of(f"Talk {n}", ("Hello", f"Number {n * 7}."))
    tab = tabs.open(script.url)
    expect(tab.rows).to_have_count(40)
    tab.button("Show more").click()
    expect(tab.rows).to_have_count(60)
    tab.press("Control+k")
    tab.page.keyboard.type("number 413")
    expect(tab.rows).to_have_count(1)
    expect(tab.rows).to_contain_text("Number 413.")
    tab.press("Enter")  # to the first hit
    tab.press("Enter")
    expect(tab.answer).to_have_text("Number 413.")
    search = tab.page.get_by_role("searchbox")
    search.fill("elephants")
    expect(tab.page.get_by_text("Nothing was found for “elephants”.")).to_be_visible()
    search.press("Escape")
    expect(tab.rows.first).to_be_visible()


def test_a_new_title_is_seen_in_the_list_and_above_the_messages(tabs: Tabs, script: ScriptedPage) -> None:
    talk = script.talk_of("Old", ("Hello", "Hello."))
    tab = tabs.open(f"{script.url}/#/c/{talk.id}")
    menu(tab, "Old", "Rename")
    expect(tab.page.get_by_label("Title")).to_be_focused()
    tab.page.keyboard.type("New words")
    tab.press("Enter")
    expect(tab.page.locator("#title")).to_have_text("New words")
    expect(tab.rows).to_have_text("New words")
    assert talk.title == "New words"


def test_deleting_can_be_undone_until_the_server_is_asked(tabs: Tabs, script: ScriptedPage) -> None:
    talk, other = script.talk_of("First", ("A", "a")), script.talk_of("Second", ("B", "b"))
    tab = tabs.open(f"{script.url}/#/c/{talk.id}")
    tab.complete()
    menu(tab, "First", "Delete")
    expect(tab.rows).to_have_count(1)
    expect(tab.page.get_by_role("heading", name="What shall we talk about?")).to_be_visible()
    tab.toast.get_by_role("button", name="Undo").click()
    expect(tab.rows).to_have_count(2)
    expect(tab.answer).to_have_text("a")
    assert set(script.talks) == {talk.id, other.id}


def test_deleting_by_keyboard_leads_to_its_undoing_and_that_back(tabs: Tabs, script: ScriptedPage) -> None:
    script.talk_of("First", ("A", "a")), script.talk_of("Second", ("B", "b"))
    tab = tabs.open(script.url)
    expect(tab.rows).to_have_count(2)
    tab.rows.filter(has_text="First").get_by_role("button").focus()
    for key in ("Enter", "End", "Enter"):
        tab.press(key)
    expect(tab.toast.get_by_role("button", name="Undo")).to_be_focused()
    tab.press("Enter")
    expect(tab.rows).to_have_count(2)
    expect(tab.rows.get_by_role("link", name="First")).to_be_focused()


def test_leaving_the_page_does_not_keep_what_was_deleted(tabs: Tabs, script: ScriptedPage) -> None:
    script.talk_of("First", ("A", "a"))
    tab = tabs.open(script.url)
    menu(tab, "First", "Delete")
    expect(tab.toast).to_be_visible()
    tab.page.reload()
    expect(tab.page.get_by_text("No conversations yet")).to_be_visible()
    assert script.talks == {}


def test_it_is_taken_along_and_brought_in_again(tabs: Tabs, script: ScriptedPage, tmp_path: Path) -> None:
    script.talk_of("Travels", ("Hello", "**Hi**."))
    tab = tabs.open(script.url)
    with tab.page.expect_download() as download:
        menu(tab, "Travels", "Export as JSON")
    file = tmp_path / "talk.json"
    download.value.save_as(file)
    assert json.loads(file.read_text())["title"] == "Travels"
    tab.page.locator("#import-file").set_input_files(file)
    expect(tab.toast).to_contain_text("“Travels” was imported.")
    expect(tab.answer.locator("strong")).to_have_text("Hi")
    expect(tab.rows).to_have_count(2)
    file.write_text("no JSON")
    tab.page.locator("#import-file").set_input_files(file)
    expect(tab.toast.last).to_contain_text("This file is not JSON.")
    file.write_text("[1]")
    tab.page.locator("#import-file").set_input_files(file)
    expect(tab.toast.last).to_contain_text("title is missing.")


def test_two_tabs_show_the_same_turn_as_it_is_written(tabs: Tabs, script: ScriptedPage) -> None:
    talk = script.talk_of("Both", ("Hello", "Hello."))
    hold = threading.Event()
    script.answers = lambda _: Script(["One ", "two ", "three."], hold=hold)
    one, two = tabs.open(f"{script.url}/#/c/{talk.id}"), tabs.open(f"{script.url}/#/c/{talk.id}")
    expect(two.turns).to_have_count(1)
    one.front()
    one.ask("Count")
    expect(two.last).to_contain_text("Count")
    expect(two.last).to_contain_text("Waiting for the first word")
    expect(two.button("Stop")).to_be_visible()
    hold.set()
    for tab in (one, two):
        expect(tab.answer).to_have_text("One two three.")
        tab.complete()
    menu(one, "Both", "Rename")
    one.page.keyboard.type("Renamed")
    one.press("Enter")
    expect(two.page.locator("#title")).to_have_text("Renamed")
    expect(two.rows).to_have_text("Renamed")


def test_the_tab_that_began_a_conversation_follows_another_and_goes_on_behind_it(
    tabs: Tabs, script: ScriptedPage
) -> None:
    hold = threading.Event()
    script.answers = lambda _: Script(["One."], hold=hold)
    first = tabs.open(script.url)
    first.ask("Begin")
    expect(first.last).to_contain_text("Waiting")
    [talk] = script.talks.values()
    script.cut(talk)  # the tree is read while the turn that will be its leaf runs
    expect(first.page.locator("#link")).to_be_hidden()
    hold.set()
    first.complete()
    second = tabs.open(f"{script.url}/#/c/{talk.id}")
    second.complete()
    second.ask("Go on")
    second.complete()
    expect(first.turns).to_have_count(2)
    first.front()
    first.ask("And on")
    first.complete()
    expect(second.turns).to_have_count(3)
    assert [turn["parent"] for turn in talk.turns] == [None, talk.turns[0]["id"], talk.turns[1]["id"]]


def test_a_tab_that_comes_later_follows_from_where_it_is(tabs: Tabs, script: ScriptedPage) -> None:
    hold = threading.Event()
    script.answers = lambda _: Script(["One ", "two."], hold=hold)
    one = tabs.open(script.url)
    one.ask("Count")
    expect(one.last).to_be_visible()
    two = tabs.open(one.page.url)
    expect(two.last).to_contain_text("Count")
    hold.set()
    expect(two.answer).to_have_text("One two.")
    two.complete()


def test_deleted_in_one_tab_is_gone_in_the_other(tabs: Tabs, script: ScriptedPage) -> None:
    talk = script.talk_of("Both", ("Hello", "Hello."))
    one, two = tabs.open(script.url), tabs.open(f"{script.url}/#/c/{talk.id}")
    two.complete()
    menu(one, "Both", "Delete")
    one.page.reload()
    expect(two.page.get_by_role("alert")).to_contain_text("There is no such conversation")
