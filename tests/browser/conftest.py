"""A headless Chromium of the distribution, driven by Playwright; it may reach nothing."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from railgauge.report import page
from railgauge.verdict.decision.verdict import Verdict

#: Debian's, and what others call it.
_PROGRAMS = ("chromium-headless-shell", "chromium", "chromium-browser")

#: What comes in a moment may take longer next to labs, on a host that stands still now and then.
_PATIENCE_MS = 120_000
expect.set_options(timeout=_PATIENCE_MS)

PHONE = (360, 740)
WIDE = (1600, 1000)


@dataclasses.dataclass
class Opened:
    """The page in a browser, with all that it asked for and complained of."""

    page: Page
    path: Path
    requests: list[str]
    complaints: list[str]

    @property
    def is_too_wide(self) -> bool:
        """Whether the page scrolls to the side."""
        sizes = "[document.documentElement.scrollWidth, document.documentElement.clientWidth]"
        needed, there_is = self.page.evaluate(sizes)
        return bool(needed > there_is)


Open = Callable[..., Opened]


# Not of the session: as long as Playwright runs, this process has a loop that runs, and no other
# test may begin one.
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    program = next(filter(None, map(shutil.which, _PROGRAMS)), None)
    if program is None:
        pytest.skip("no Chromium on this machine; next: bin/bootstrap browser")
    with sync_playwright() as playwright:
        # As root it has no sandbox; it opens our own file only.
        started = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture
def opened(browser: Browser, tmp_path: Path) -> Iterator[Open]:
    """Writes a page, or that of a verdict, and opens it; every request is kept."""
    contexts = []

    def open_page(of: Verdict | str, size: tuple[int, int] = WIDE, dark: bool = False) -> Opened:
        path = tmp_path / page.FILE
        path.write_text(of if isinstance(of, str) else page.html(of), encoding="utf-8")
        context = browser.new_context(
            viewport={"width": size[0], "height": size[1]},
            color_scheme="dark" if dark else "light",
            permissions=["clipboard-read", "clipboard-write"],
        )
        context.set_default_timeout(_PATIENCE_MS)
        contexts.append(context)
        made = Opened(context.new_page(), path, [], [])
        made.page.on("request", lambda request: made.requests.append(request.url))
        made.page.on("console", lambda message: made.complaints.append(message.text))
        made.page.on("pageerror", lambda error: made.complaints.append(str(error)))
        made.page.goto(path.as_uri())
        made.page.wait_for_selector("html[data-drawn]")
        return made

    yield open_page
    for context in contexts:
        context.close()
