"""Pages of the documentation that are made when it is built: a hook of mkdocs (`mkdocs.yml`).

README becomes the first page, the quickstart is executed with the tour model, the Python API is described from its
docstrings, and pages outside of ``docs/`` come in.
"""

import os
import re
import tempfile
from pathlib import Path, PurePosixPath
from typing import Any

import nbformat as untyped_nbformat
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from nbconvert import MarkdownExporter

from scripts.api_page import api_page
from vibe_jupyter.cli import main as vibe_jupyter

nbformat: Any = untyped_nbformat
ROOT = Path(__file__).resolve().parent.parent
NOTEBOOK = ROOT / "notebooks" / "quickstart.ipynb"
ALLOWED = "run_code,edit_cell,insert_cell,run_cells"
PAGES = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changes.md"}
"""Files of the checkout, and where they stand in the site."""
EXECUTED = """\
This page was made by running [`notebooks/quickstart.ipynb`]({path}) while the documentation was built, with the
scripted tour model, without a user: what would ask was allowed in advance.
"""

_LINK = re.compile(r"(?P<before>\]\()(?P<target>[^)\s#:]+)(?P<anchor>#[^)\s]*)?\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add what is made."""
    for source, page in PAGES.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=_relinked(text, page)))
    files.append(File.generated(config, "decisions/index.md", content=_decisions()))
    files.append(File.generated(config, "api.md", content=api_page()))
    for name, content in _quickstart().items():
        files.append(File.generated(config, name, content=content))
    return files


def _relinked(text: str, page: str) -> str:
    """Links of a file in the root of the checkout, as they must be in the site."""

    def moved(found: re.Match[str]) -> str:
        target = found["target"]
        place = PAGES.get(target) or target.removeprefix("docs/")
        if target.rstrip("/") == "docs/decisions":
            place = "decisions/index.md"
        return f"{found['before']}{os.path.relpath(place, PurePosixPath(page).parent)}{found['anchor'] or ''})"

    return _LINK.sub(moved, text)


def _decisions() -> str:
    pages = sorted((ROOT / "docs" / "decisions").glob("[0-9]*.md"))
    lines = [f"- [{_title(page)}]({page.name})" for page in pages if not page.name.startswith("000")]
    return "# Decisions\n\nWhat shaped the tree: context, choice, what was given up.\n\n" + "\n".join(lines) + "\n"


def _title(page: Path) -> str:
    return page.read_text(encoding="utf-8").split("\n", 1)[0].lstrip("# ")


def _quickstart() -> dict[str, str | bytes]:
    """The executed notebook as a page, with its pictures and the notebook itself, by name."""
    with tempfile.TemporaryDirectory() as home:
        executed = Path(home, "quickstart.ipynb")
        places = {"VIBE_HOME": home, "IPYTHONDIR": str(Path(home, "ipython"))}
        before = {name: os.environ.get(name) for name in places}
        os.environ.update(places)
        try:
            code = vibe_jupyter(["run", str(NOTEBOOK), "--yes", ALLOWED, "--save-as", str(executed)])
        finally:
            for name, value in before.items():
                os.environ.pop(name) if value is None else os.environ.update({name: value})
        if code != 0:
            raise PluginError(f"{NOTEBOOK.name} did not run to its end; see above.")
        notebook = nbformat.read(executed, as_version=4)
    text, resources = MarkdownExporter().from_notebook_node(
        notebook, resources={"unique_key": "quickstart", "output_files_dir": "quickstart_files"}
    )
    head, body = text.lstrip().split("\n", 1)
    pictures: dict[str, bytes] = resources.get("outputs", {})
    page = f"{head}\n\n{EXECUTED.format(path='quickstart.ipynb')}\n{body}"
    return {"quickstart.md": page, "quickstart.ipynb": nbformat.writes(notebook), **pictures}
