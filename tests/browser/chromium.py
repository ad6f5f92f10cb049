"""The test browser."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, sync_playwright

# Without the middle three Chromium asks hosts of its own at every start.
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]

UNOPTIMIZED = "--js-flags=--no-maglev --no-turbofan"
"""One more, for tests: their pages do not live long enough to gain by optimized code what it costs to make."""


@contextmanager
def chromium(*more_flags: str) -> Iterator[Browser]:
    """Chromium on PATH, else the one Playwright brought."""
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=[*FLAGS, *more_flags])
        try:
            yield browser
        finally:
            browser.close()
