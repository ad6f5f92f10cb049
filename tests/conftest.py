"""What every test stands on: a home folder that is not the user's, and requirement ids that exist."""

import atexit
import gc
import os
import signal
import sys
import tomllib
from collections.abc import Generator, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests import failure_text, left_out
from tests.attacks import collection
from tests.kernel.fork_server import kernels_on_path, share_servers
from tests.requirement_doors import NO_DOOR, unproven
from tests.reruns import RerunJudge
from tests.shared_fixtures import SharedFixtures, is_in_browser
from tests.tiers import choose_tier

if TYPE_CHECKING:
    from playwright.sync_api import Browser

REQUIREMENTS = Path(__file__).with_name("requirements.toml")

PURE = frozenset({"agent", "bridge", "config", "session"})
"""Folders whose tests talk to no kernels, pages, programs or servers of other projects."""
ON_ONE_WORKER = frozenset({"gateway", "headless", "llm", "mcp", "mcp_server"})
"""Folders whose tests share what each worker would start anew: gateways, kernels, SDKs, processes that fork."""
LONGEST = frozenset({"app", "browser", "browser 2", "headless", "kernel-installed", "mcp"})
"""Groups of tests on one worker that take longest: they begin first."""
GROUPS_BEGIN = 0.8
"""In which part of the tests without a group the other groups begin: most of them wait for programs, while what is
alone computes."""
IN_SECOND_PAGE = frozenset(
    [
        *("test_accessibility", "test_arming", "test_in_browser", "test_looks", "test_mid_run"),
        *("test_native_cells", "test_notebook7", "test_run_view", "test_site", "test_step_outputs", "test_vibe"),
    ]
)
"""About half of the work of all tests in the browser: what is left over when all others are done runs alone."""
LONGEST_ID = 200
"""Characters of one value in the name of a test."""

_KEYS = ("MISTRAL_API_KEY", "OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY", "OLLAMA_HOST")
_FOLDERS = (
    "HOME",
    "VIBE_HOME",
    "IPYTHONDIR",
    "JUPYTER_CONFIG_DIR",
    "JUPYTER_DATA_DIR",
    "JUPYTER_RUNTIME_DIR",
    "MPLCONFIGDIR",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
)


def requirement_ids(item: pytest.Item) -> set[str]:
    """The promises a test says it proves."""
    return {name for marker in item.iter_markers("requirement") for name in marker.args}


def pytest_addoption(parser: pytest.Parser) -> None:
    collection.add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    choose_tier(config.option.markexpr)
    gc.disable()  # until all is collected
    # Where PYTHONDONTWRITEBYTECODE is set, each worker would compile all tests in each run: 7 s of CPU.
    sys.dont_write_bytecode = False
    config.pluginmanager.register(SharedFixtures())
    if not hasattr(config, "workerinput"):  # of workers, each would start its own
        share_servers()
    for plugin in (left_out, failure_text, collection, RerunJudge()):
        config.pluginmanager.register(plugin)
    # Programs of the development packages (ripgrep) are beside this Python, also where nobody activated it.
    os.environ["PATH"] = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)))
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A shell that starts us in the background has us ignore Ctrl-C, and with us every program that a test starts.
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Short names: that of the running test is in the environment of all it starts, which has little room."""
    if isinstance(val, str | bytes) and len(val) > LONGEST_ID:
        return f"{argname} of {len(val)}"
    return None


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """An id that the list does not have, or that the test can't prove, is an error where it stands."""
    report = yield
    items = [item for item in report.result or () if isinstance(item, pytest.Item)]
    says = _known_requirements()
    wrong = {item.nodeid: sorted(ids) for item in items if (ids := requirement_ids(item) - says.keys())}
    less = {item.nodeid: ids for item in items if (ids := unproven(item, says))}
    if wrong or less:
        report.outcome, report.result = "failed", []
        report.longrepr = f"{REQUIREMENTS.name} does not have: {wrong}" if wrong else NO_DOOR.format(less)
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that share something costly stay on one worker.

    A test that failed may be run again (`--reruns` in the Makefile) only where other processes take part in it.
    """
    for item in items:
        folder = _folder_of(item.path)
        if is_in_browser(item):
            item.add_marker(pytest.mark.xdist_group("browser 2" if item.path.stem in IN_SECOND_PAGE else "browser"))
        elif folder in ON_ONE_WORKER and not _group_of(item):
            item.add_marker(pytest.mark.xdist_group(folder))
        if folder in PURE:
            item.add_marker(pytest.mark.flaky(reruns=0))
    places = _places(items)
    items.sort(key=places.__getitem__)


def _group_of(item: pytest.Item) -> str:
    """Of tests that stay on one worker; empty for others."""
    marker = item.get_closest_marker("xdist_group")
    return str(marker.args[0]) if marker else ""


def _places(items: list[pytest.Item]) -> dict[pytest.Item, float]:
    """Where each begins, from 0 to 1."""
    groups = {item: _group_of(item) for item in items}
    alone = sorted(
        (item for item, group in groups.items() if not group), key=lambda item: _folder_of(item.path) != "sweeps"
    )
    shorter = list(dict.fromkeys(group for group in groups.values() if group and group not in LONGEST))
    of_group = {group: GROUPS_BEGIN * (at + 1) / len(shorter) for at, group in enumerate(shorter)}
    of_alone = {item: (at + 1) / len(alone) for at, item in enumerate(alone)}
    return {item: of_group.get(group, 0.0) if group else of_alone[item] for item, group in groups.items()}


@cache
def _folder_of(path: Path) -> str:
    return path.relative_to(REQUIREMENTS.parent).parts[0]


def pytest_collection_finish() -> None:
    """Thousands of tests stay to the end: each look through all that lives would cost a third of a second for them.

    So would one here, to free little.
    """
    gc.freeze()
    gc.enable()


def pytest_sessionfinish() -> None:
    """pytest looks five times through all that lives, for what nobody closed. Once finds it too."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    """At its end each shell of IPython that a test made looks through all that lives: seconds for nothing."""
    atexit.register(gc.freeze)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Where pytest-xdist does not see the groups, every worker starts every kernel and page, which few tests stand."""
    in_groups = item.config.getoption("loadgroup", False) and item.get_closest_marker("xdist_group")
    if in_groups and "@" not in item.nodeid:
        pytest.fail("This pytest-xdist sees no groups with this pytest. Take the versions in pyproject.toml.", False)


@cache
def _known_requirements() -> Mapping[str, str]:
    entries = tomllib.loads(REQUIREMENTS.read_text(encoding="utf-8"))["requirement"]
    return {entry["id"]: entry["says"] for entry in entries}


@pytest.fixture(scope="session", autouse=True)
def own_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A home for this process and all it starts, without keys, without the settings of whoever runs the tests."""
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        # A downloaded test browser lies in the real home; it is only read.
        browsers = Path("~/.cache/ms-playwright").expanduser()
        if browsers.exists() and "PLAYWRIGHT_BROWSERS_PATH" not in os.environ:
            patch.setenv("PLAYWRIGHT_BROWSERS_PATH", str(browsers))
        for name in _FOLDERS:
            folder = home if name == "HOME" else home / name.lower()
            folder.mkdir(exist_ok=True)
            patch.setenv(name, str(folder))
        for name in _KEYS:
            patch.delenv(name, raising=False)
        # Most tests have `run_code` for what asks. What runs unasked in a sandbox is the subject of tests/sandbox.
        patch.setenv("VIBE_SANDBOX__EXPLORE", "ask")
        for name in ("NO_PROXY", "no_proxy"):
            patch.setenv(name, ",".join(filter(None, (os.environ.get(name), "127.0.0.1,localhost"))))
        yield home


@pytest.fixture(scope="module")
def forked_kernels(own_home: Path) -> Iterator[None]:
    """For tests of programs that start kernels themselves: these come by fork too. No longer than for their module."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JUPYTER_PATH", kernels_on_path(own_home / "jupyter_path"))
        yield


@pytest.fixture(scope="session")
def browser(own_home: Path) -> "Iterator[Browser]":
    """The one Chromium of this process: a second Playwright beside it cannot start."""
    from playwright.sync_api import expect

    from tests.browser.chromium import UNOPTIMIZED, chromium
    from tests.browser.lab import WAIT

    expect.set_options(timeout=WAIT)
    with chromium(UNOPTIMIZED) as browser:
        yield browser
