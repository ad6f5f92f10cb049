"""The documentation as a site: it builds without a warning, and reading it asks nobody else for anything."""

import importlib
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from scripts.api_page import LEFT_OUT, MODULES
from tests.patience import patient
from vibe_jupyter.commands.registry import COMMANDS, help_page
from vibe_jupyter.options import OPTION_NAMES

if TYPE_CHECKING:
    from playwright.sync_api import Browser

ROOT = Path(__file__).parents[2]
LOADED_FROM_ELSEWHERE = re.compile(
    r"""<(?:script|img|iframe|source|link rel=.?stylesheet)\b[^>]*=["']?(?:https?:)?//[^>]*>"""
)
WAIT = patient(110)
"""Seconds the build may take; it runs the quickstart."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, env=os.environ, capture_output=True, text=True, timeout=WAIT, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return folder


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None: ...


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site))) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.browser
@pytest.mark.matrix
def test_it_builds_without_a_warning_and_holds_every_page(site: Path) -> None:
    pages = {path.with_suffix(".html").name for path in (ROOT / "docs").glob("*.md")}
    assert {"index.html", "quickstart.html", "api.html", "changes.html", "contributing.html", *pages} <= {
        path.name for path in site.glob("*.html")
    }


@pytest.mark.browser
@pytest.mark.matrix
def test_the_quickstart_is_there_with_what_came_out_of_it(site: Path) -> None:
    page = (site / "quickstart.html").read_text(encoding="utf-8")
    assert "The cell that failed on a misspelt column runs now." in page
    assert "The plot is in the new cell below." in page
    assert re.search(r'<img [^>]*src="quickstart_files/[^"]+\.png"', page)
    assert (site / "quickstart.ipynb").is_file()
    assert "```" not in page
    assert "&lt;details" not in page


@pytest.mark.browser
@pytest.mark.matrix
def test_the_api_page_describes_every_public_name(site: Path) -> None:
    page = (site / "api.html").read_text(encoding="utf-8")
    described = set(re.findall(r'<h3 id="[^"]+">(\w+)', page))
    assert described == {name for module in MODULES for name in importlib.import_module(module).__all__} - {*LEFT_OUT}
    assert "requests to the model, 1-200" in page


@pytest.mark.browser
@pytest.mark.matrix
def test_reading_it_asks_nobody_else_for_anything(site: Path, address: str, browser: "Browser") -> None:
    page = browser.new_page()
    asked: list[str] = []
    wrong: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("response", lambda response: wrong.append(response.url) if response.status >= 400 else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    pages = {path.relative_to(site).as_posix(): path.read_text("utf-8") for path in site.rglob("*.html")}
    for name in ("index.html", "quickstart.html", "api.html"):  # those with scripts and pictures of their own
        page.goto(f"{address}/{name}", wait_until="networkidle")
    page.close()
    elsewhere = [url for url in asked if not url.startswith((address, "data:", "blob:"))]
    assert elsewhere == []
    assert wrong == []
    assert len(asked) > 20
    assert {name: found for name, text in pages.items() if (found := LOADED_FROM_ELSEWHERE.findall(text))} == {}


def test_the_page_of_commands_is_that_of_the_help_and_readme_says_nothing_else() -> None:
    lines = help_page(whole=True).rsplit("\n", 1)[0]
    assert f"```\n{lines}\n```" in (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    readme = (ROOT / "README.md").read_text(encoding="utf-8").split("\n")
    said = [line for line in readme if re.match(r"%vibe [a-z].*  \S", line)]
    assert len(said) > 5
    assert [line for line in said if line not in lines.split("\n")] == []


def test_the_help_fits_a_small_terminal() -> None:
    lines = help_page().split("\n")
    assert len(lines) <= 24
    assert [line for line in lines if len(line) > 80] == []


def test_the_help_names_every_command() -> None:
    named = help_page().replace(",", " ").split()
    assert [command.name for command in COMMANDS if command.name not in named] == []


def test_each_command_and_each_option_has_a_line_in_the_help() -> None:
    lines = help_page(whole=True).split("\n")
    for command in COMMANDS:
        assert [usage.split()[1] for usage, _ in command.help] == [command.name] * len(command.help) != []
    assert {re.split(r"[ =]", line.strip())[0] for line in lines if line.strip().startswith("--")} == set(OPTION_NAMES)
