"""One server, one browser and one page for all tests here, a notebook and a kernel for each."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, ViewportSize

from tests.browser.lab import Lab
from tests.browser.server import LabServer, lab_server
from tests.browser.stage import Stage

VIEWPORT = ViewportSize(width=1280, height=1000)


@pytest.fixture(scope="session")
def server(own_home: object, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabServer]:
    """JupyterLab as a user has it who installed the package."""
    with lab_server(tmp_path_factory.mktemp("lab")) as running:
        yield running


@pytest.fixture(scope="session")
def server_without_widget(own_home: object, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabServer]:
    """JupyterLab whose pages do not have the widget's code, as when it runs in an environment of its own."""
    with lab_server(tmp_path_factory.mktemp("bare"), disabled=("anywidget",)) as running:
        yield running


@pytest.fixture(scope="session")
def page(browser: Browser) -> Iterator[Page]:
    """A page that stays, since loading JupyterLab takes longer than most tests."""
    context = browser.new_context(viewport=VIEWPORT)
    yield context.new_page()
    context.close()


@pytest.fixture(scope="session")
def loaded_lab(page: Page, server: LabServer) -> Lab:
    """JupyterLab in the page that stays."""
    return Lab(page, server)


@pytest.fixture
def lab(loaded_lab: Lab) -> Iterator[Lab]:
    """JupyterLab, whose notebook stays open if it came by `Lab.open_again`. Errors in its console fail the test."""
    loaded_lab.complaints.clear()
    yield loaded_lab
    if not loaded_lab.has_kept_open:
        loaded_lab.close()
    assert loaded_lab.complaints == []


@pytest.fixture
def stage(lab: Lab) -> Stage:
    """A view with nothing in it."""
    return Stage(lab)


@pytest.fixture
def lab_without_widget(browser: Browser, server_without_widget: LabServer) -> Iterator[Lab]:
    """A page that cannot draw the live view, and complains of it."""
    context = browser.new_context(viewport=VIEWPORT)
    lab = Lab(context.new_page(), server_without_widget)
    yield lab
    lab.close()
    context.close()
    assert [one for one in lab.complaints if "module anywidget" not in one] == []
