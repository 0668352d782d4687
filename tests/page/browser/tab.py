"""A tab of the page as its user has it, and everything it complains about."""

from __future__ import annotations

import re
import shutil
from typing import Any

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Dialog, Locator, Page, expect

WATCH = """
window.complaints = [];
document.addEventListener("securitypolicyviolation", ({ violatedDirective, blockedURI }) => {
    window.complaints.push(`policy: ${violatedDirective} ${blockedURI}`);
});
"""
expect.set_options(timeout=30_000)


def chromium_path() -> str:
    path = shutil.which("chromium")
    assert path is not None, "these tests need Chromium: apt install chromium"
    return path


class Tabs:
    """Tabs of one profile: they share what the browser keeps."""

    def __init__(self, browser: Browser) -> None:
        self.browser = browser
        self.contexts: list[BrowserContext] = []
        self.opened: list[Tab] = []

    def open(self, url: str, *, width: int = 1440, height: int = 900, **more: Any) -> Tab:
        if not self.contexts or more:
            self.profile(width=width, height=height, **more)
        tab = Tab(self.contexts[-1].new_page())
        tab.page.set_viewport_size({"width": width, "height": height})
        self.opened.append(tab)
        tab.page.goto(url)
        return tab

    def profile(self, *, width: int = 1440, height: int = 900, **more: Any) -> BrowserContext:
        """A new one, for the tabs that are opened from here on."""
        context = self.browser.new_context(viewport={"width": width, "height": height}, **more)
        context.add_init_script(WATCH)
        context.set_default_timeout(30_000)
        context.grant_permissions(["clipboard-read", "clipboard-write"])
        self.contexts.append(context)
        return context

    def close(self) -> None:
        said = [complaint for tab in self.opened for complaint in tab.heard()]
        for context in self.contexts:
            context.close()
        assert said == [], said


class Tab:
    def __init__(self, page: Page) -> None:
        self.page = page
        self.said: list[str] = []
        self.expected = re.compile(r"Failed to load resource|net::ERR_")  # an answer that a test asked for
        page.on("pageerror", lambda error: self.said.append(f"error: {error}"))
        page.on("console", self._console)
        page.on("dialog", self._dialog)

    def _console(self, line: ConsoleMessage) -> None:
        if line.type in ("error", "warning"):
            self.said.append(line.text)

    def _dialog(self, dialog: Dialog) -> None:
        self.said.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def heard(self) -> list[str]:
        policy = [] if self.page.is_closed() else self.page.evaluate("window.complaints ?? []")
        return [line for line in (*self.said, *policy) if not self.expected.search(line)]

    # -- what its user sees

    @property
    def field(self) -> Locator:
        return self.page.get_by_role("textbox", name="Message", exact=True)

    @property
    def turns(self) -> Locator:
        return self.page.locator(".turn")

    @property
    def last(self) -> Locator:
        return self.turns.last

    @property
    def answer(self) -> Locator:
        """The last one."""
        return self.last.locator(".answer")

    @property
    def rows(self) -> Locator:
        return self.page.locator("#list li")

    @property
    def toast(self) -> Locator:
        return self.page.locator(".toast")

    @property
    def dialog(self) -> Locator:
        return self.page.get_by_role("dialog")

    def button(self, name: str | re.Pattern[str]) -> Locator:
        return self.page.get_by_role("button", name=name, exact=isinstance(name, str))

    # -- what its user does

    def ask(self, words: str) -> None:
        self.field.fill(words)
        self.field.press("Enter")

    def complete(self) -> None:
        """Until the last answer is there, and saved."""
        expect(self.last).to_have_attribute("aria-busy", "false")
        expect(self.last.locator(".measured:visible").last).to_contain_text("reused")

    def front(self) -> None:
        """Chromium lets tabs behind another one wait."""
        self.page.bring_to_front()

    def press(self, keys: str) -> None:
        self.page.keyboard.press(keys)

    def sideways(self) -> Any:
        """How far anything that holds text can be scrolled sideways, in pixels."""
        return self.page.evaluate(
            "Math.max(document.documentElement.scrollWidth - innerWidth, ...['#scroller', '#side', '#memory', '#list']"
            ".map((name) => document.querySelector(name)).map((each) => each.scrollWidth - each.clientWidth))"
        )
