"""Real kernels, with a page in Python that answers the bridge."""

from collections.abc import Callable, Iterator

import pytest

from tests.app.conftest import Session
from tests.kernel.conftest import kernels, target_of
from tests.kernel.matrix import Target
from tests.kernel.wire import Wire, running_kernel
from tests.notebook.page import Page
from tests.notebook.test_agent import ClickedPage

DRIVER = "from tests.notebook.driver import *"


@pytest.fixture(scope="module", params=kernels())
def target(request: pytest.FixtureRequest) -> Target:
    return target_of(request.param)


@pytest.fixture(scope="module")
def shared_kernel(target: Target, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wire]:
    with running_kernel(target, tmp_path_factory.mktemp("kernel")) as wire:
        wire.run(DRIVER)
        yield wire


@pytest.fixture
def open_page(shared_kernel: Wire) -> Callable[..., Page]:
    """Opens a notebook with these cells."""
    return lambda *sources: Page(shared_kernel, *sources)


@pytest.fixture
def page(shared_session: Session) -> ClickedPage:
    """Of the session that a module shares; the conversation is new."""
    shared_session.wire.run("%vibe reset")
    shared_session.model.requests.clear()
    return ClickedPage(shared_session.wire)
