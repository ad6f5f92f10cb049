"""What JupyterLab loads when it shows a Markdown cell is what the card of that cell would have named."""

import base64
from urllib.parse import urlsplit

import nbformat
import pytest
from playwright.sync_api import Request, Route

from tests.browser.lab import Lab
from tests.browser.ready import WAIT
from vibe_jupyter.notebook.tools.cell_report import loaded_addresses

pytestmark = pytest.mark.browser
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
_TABLE = "| a | b |\n|---|---|\n"
LOADING = {
    "picture": "![x](https://picture.example/x)",
    "scheme": "![x](https:scheme.example/x)",
    "entity": "![x](/&#9;/entity.example/x)",
    "formula": "\\\\(a\n```\n\\\\)\n![x](https://formula.example/x)\n```\n",
    "environment": "\\begin{align}\n```\n\\end{align}\n![x](https://environment.example/x)\n```\n",
    "tag": "\\\\(a `\\\\) <img src='https://tag.example/x'> `b`",
    "code": _TABLE + "| `x | ![x](https://code.example/x) `|\n",
    "link": _TABLE + "| <https://a|![x](https://link.example/x)> |\n",
    "title": _TABLE + '| [a](b "t|![x](https://title.example/x)") |\n',
    "struck": "~~`~~ ![x](https://struck.example/x)`",
    "node": '```mermaid\nflowchart TD\n A@{ img: "https://node.example/x", label: "L", w: 60, h: 60 }\n```',
    "label": "~~~mermaid\nflowchart TD\n A[\"<img src='https:label.example/x'>\"]\n~~~",
    "style": '```mermaid\n---\nconfig:\n  themeCSS: ".node rect{background-image:url(https://style.example/x)}"\n---\n'
    "flowchart TD\n A-->B\n```",
    "escape": '```mermaid\n%%{init: {"themeCSS": ".node rect{background-image:\\\\75rl(https:escape.example/x)}"}}%%\n'
    "flowchart TD\n A-->B\n```",
}
"""Each asks for something at the host of its name."""


def test_every_address_that_a_markdown_cell_loads_would_have_been_named(lab: Lab) -> None:
    path = lab.write_notebook("")
    notebook = nbformat.read(path, as_version=4)
    notebook.cells += [nbformat.v4.new_markdown_cell(source) for source in LOADING.values()]
    nbformat.write(notebook, path)
    asked: set[str] = set()

    def is_last(request: Request) -> bool:
        asked.add(urlsplit(request.url).hostname or "")
        return {f"{name}.example" for name in LOADING} <= asked

    def answer(route: Route) -> None:
        route.fulfill(body=PNG, content_type="image/png")

    lab.page.route("**://*.example/**", answer)
    with lab.page.expect_request(is_last, timeout=WAIT):
        lab.open_file(path)
    lab.close()  # until then it may ask for the same again
    lab.page.unroute("**://*.example/**", answer)
    assert [name for name, source in LOADING.items() if not loaded_addresses(source)] == []
