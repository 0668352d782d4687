"""One Chromium, a fresh profile for every test, and two servers: one that does what a test says, and the real one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.integration.serving import Serving, serving
from tests.page.browser.tab import Tabs, chromium_path
from tests.page.scripted_page import Script, ScriptedPage, serving_script

ARTEFACTS = Path(__file__).parents[3] / ".artefacts"


@pytest.fixture(scope="package")
def chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium_path(), args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def artefacts() -> Path:
    """Where screenshots go; whoever runs the tests may look at them."""
    ARTEFACTS.mkdir(exist_ok=True)
    return ARTEFACTS


@pytest.fixture
def tabs(chromium: Browser) -> Iterator[Tabs]:
    """Opens tabs of one profile. Afterwards nobody may have complained: no script, and not the content policy."""
    tabs = Tabs(chromium)
    yield tabs
    tabs.close()


@pytest.fixture
def script() -> Iterator[ScriptedPage]:
    """Answers "Hello **there**." to everything, until a test says otherwise."""
    with serving_script(ScriptedPage(lambda _asked: Script(["Hello ", "**there**."]))) as page:
        yield page


@pytest.fixture(scope="package")
def real(demo_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """The product with the demo model."""
    with serving(str(demo_folder), "--device", "cpu", folder=tmp_path_factory.mktemp("page")) as server:
        yield server
