"""When what many tests share ends: the browser after the last of its tests, everything after a test that failed."""

from collections.abc import Callable, Generator

import pytest

RENEWED = frozenset({"page"})
"""What lives longer than a module and is still made again after a failure."""


def is_in_browser(item: pytest.Item | None) -> bool:
    """Whether a test is marked as one."""
    return item is not None and item.get_closest_marker("browser") is not None


class SharedFixtures:
    """A plugin of pytest: conftest's own hooks do not hear of fixtures of the session."""

    def __init__(self) -> None:
        self._close_browser: Callable[[], None] = lambda: None
        self._renew: list[Callable[[], None]] = []
        """Ends of the fixtures that a failure may have left in a state nobody expects."""
        self._has_failed = False

    @pytest.hookimpl(tryfirst=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[object], request: pytest.FixtureRequest) -> None:
        """Remember how the fixture is ended, with all that stand on it."""

        def finish() -> None:
            fixturedef.finish(request)  # type: ignore[arg-type]

        if fixturedef.argname == "browser":
            self._close_browser = finish
        elif fixturedef.scope == "module" or fixturedef.argname in RENEWED:
            self._renew.append(finish)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        self._has_failed |= report.failed
        return report

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self) -> None:
        """A kernel that hangs or a page that lost its connection fails one test, not all that come after it."""
        if self._has_failed:
            self._has_failed = False
            while self._renew:
                self._renew.pop()()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self, nextitem: pytest.Item | None) -> Generator[None, None, None]:
        """Playwright leaves its event loop running in its thread: no asyncio test could run after those in it.

        A later test that wants the browser gets a new one.
        """
        try:
            yield
        finally:
            if not is_in_browser(nextitem):
                self._close_browser()
