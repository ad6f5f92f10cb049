"""Closes the browser after the last of its tests, since the end of the session is too late.

Playwright leaves its event loop running in the thread it was started in: no asyncio test could run after it.
"""

from collections.abc import Callable, Generator

import pytest


def is_in_browser(item: pytest.Item | None) -> bool:
    """Whether a test is marked as one."""
    return item is not None and item.get_closest_marker("browser") is not None


class BrowserEnd:
    """A plugin of pytest: conftest's own hooks do not hear of fixtures of the session."""

    def __init__(self) -> None:
        self._close: Callable[[], None] = lambda: None

    @pytest.hookimpl(tryfirst=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[object], request: pytest.FixtureRequest) -> None:
        """Remember how the fixture is ended, with all that stand on it."""
        if fixturedef.argname == "browser":
            self._close = lambda: fixturedef.finish(request)  # type: ignore[arg-type]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self, nextitem: pytest.Item | None) -> Generator[None, None, None]:
        """A later test that wants the browser gets a new one."""
        try:
            yield
        finally:
            if not is_in_browser(nextitem):
                self._close()
