"""The oldest JupyterLab and Notebook we support: the same tests, in an environment of their own."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.browser.conftest import VIEWPORT
from tests.browser.lab import Lab
from tests.browser.server import LabServer, lab_server
from tests.browser.test_bridge import (
    test_a_cell_is_run_without_leaving_the_cell_the_person_is_in,
    test_a_cell_the_person_changed_is_not_overwritten,
    test_after_a_reload_the_view_of_a_running_cell_is_shown_again_and_takes_clicks,
    test_an_approval_that_waits_survives_a_reload_and_the_whole_run_is_kept,
    test_each_edit_of_the_agent_is_one_step_of_undo,
    test_someone_who_types_is_not_disturbed_by_edits_elsewhere,
    test_stop_in_the_output_interrupts_the_kernel_when_it_listens_to_nothing_else,
)
from tests.browser.test_bridge_conformance import (
    test_jupyterlab_answers_as_the_cases_say,
    test_notebook_7_answers_as_the_cases_say,
)
from tests.kernel.matrix import OLDEST_LAB, oldest_lab

# Run here once more, with the fixtures of this module.
__all__ = [
    "test_a_cell_is_run_without_leaving_the_cell_the_person_is_in",
    "test_a_cell_the_person_changed_is_not_overwritten",
    "test_after_a_reload_the_view_of_a_running_cell_is_shown_again_and_takes_clicks",
    "test_an_approval_that_waits_survives_a_reload_and_the_whole_run_is_kept",
    "test_each_edit_of_the_agent_is_one_step_of_undo",
    "test_jupyterlab_answers_as_the_cases_say",
    "test_notebook_7_answers_as_the_cases_say",
    "test_someone_who_types_is_not_disturbed_by_edits_elsewhere",
    "test_stop_in_the_output_interrupts_the_kernel_when_it_listens_to_nothing_else",
]

ITS_OWN = (
    "Failed to execute 'removeChild' on 'Node'",  # its layout takes a cell away from where the cell is not
    "Cannot read properties of undefined (reading 'type')",  # then its table of contents has headings of no cell
    "(setting 'isRunning')",
    "(reading 'isRunning')",
)
"""What JupyterLab 4.4 complains of, in functions of its own, when cells that are out of sight leave a notebook (its
layout's `detachWidget`, its table of contents); the cells themselves are right afterwards."""

pytestmark = [pytest.mark.browser, pytest.mark.matrix]


@pytest.fixture(scope="module")
def oldest_server(own_home: object, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabServer]:
    """JupyterLab of the environment that `make test-matrix` sets up."""
    with lab_server(tmp_path_factory.mktemp("oldest"), python=str(oldest_lab())) as running:
        yield running


@pytest.fixture
def lab(browser: Browser, oldest_server: LabServer) -> Iterator[Lab]:
    """A page of it. Errors in its console fail the test."""
    context = browser.new_context(viewport=VIEWPORT)
    lab = Lab(context.new_page(), oldest_server)
    yield lab
    context.close()
    oldest_server.end_kernels()
    assert [one for one in lab.complaints if not any(own in one for own in ITS_OWN)] == []


def test_it_is_the_oldest_one(lab: Lab) -> None:
    lab.open("1 + 1")
    assert lab.page.evaluate("() => window.jupyterapp.version") == OLDEST_LAB
