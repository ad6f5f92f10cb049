"""One server and one browser for all tests here, one page a test."""

import contextlib
import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.browser.lab import Lab
from tests.browser.server import LabServer, lab_server

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]


@pytest.fixture(scope="session")
def browser(own_home: object) -> Iterator[Browser]:
    """Chromium on PATH, else the one Playwright brought."""
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield chromium
        chromium.close()


@pytest.fixture(scope="session")
def server(own_home: object, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabServer]:
    """JupyterLab as a person has it who installed the package."""
    with lab_server(tmp_path_factory.mktemp("lab")) as running:
        yield running


@pytest.fixture(scope="session")
def server_without_widget(own_home: object, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabServer]:
    """JupyterLab whose pages do not have the widget's code, as when it runs in an environment of its own."""
    with lab_server(tmp_path_factory.mktemp("bare"), disabled=("anywidget",)) as running:
        yield running


@pytest.fixture
def lab(browser: Browser, server: LabServer) -> Iterator[Lab]:
    """A fresh page. Errors in its console fail the test."""
    with _opened(browser, server) as lab:
        yield lab
    assert lab.complaints == []


@pytest.fixture
def lab_without_widget(browser: Browser, server_without_widget: LabServer) -> Iterator[Lab]:
    """A fresh page that cannot draw the live view, and complains of it."""
    with _opened(browser, server_without_widget) as lab:
        yield lab
    assert [one for one in lab.complaints if "module anywidget" not in one] == []


@contextlib.contextmanager
def _opened(browser: Browser, server: LabServer) -> Iterator[Lab]:
    context = browser.new_context(viewport={"width": 1280, "height": 1000})
    try:
        yield Lab(context.new_page(), server)
    finally:
        context.close()
        server.end_kernels()
