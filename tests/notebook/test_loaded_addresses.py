"""What a Markdown cell would make the page load."""

import pytest

from vibe_jupyter.notebook.tools.cell_report import DIAGRAM, RAW_HTML, loaded_addresses


@pytest.mark.attack("hostile texts", always=True)
@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("![a](https://evil.example/x.png)", ("https://evil.example/x.png",)),
        ("![a][ref]\n\n[ref]: http://evil.example/x", ("http://evil.example/x",)),
        ("![a](//evil.example/x)", ("//evil.example/x",)),
        ("[![a](https://evil.example/x)](https://link.example)", ("https://evil.example/x",)),
        ("<img src='https://evil.example/x'>", (RAW_HTML, "https://evil.example/x")),
        ("text <b onclick=x>bold</b>", (RAW_HTML,)),
        ("<style>a{background:url(//evil.example/y)}</style>", (RAW_HTML, "//evil.example/y")),
        ("| a |\n|---|\n| ![x](https://evil.example/t) |", ("https://evil.example/t",)),
        ("![a](plot.png) and ![b](attachment:b.png) and ![c](data:image/png;base64,AA)", ()),
        ("[a link](https://fine.example) and https://fine.example", ()),
        ("![a](https:evil.example/x)", ("https:evil.example/x",)),
        ("![a](/&#9;/evil.example/x)", ("/%09/evil.example/x",)),
        ("```\n<img src=x>\n```\n`<b>`", ()),
        ("a < b and c<d", ()),
    ],
)
def test_remote_images_and_raw_html_are_named(source: str, found: tuple[str, ...]) -> None:
    assert loaded_addresses(source) == found


@pytest.mark.attack("hostile texts", always=True)
@pytest.mark.parametrize(
    "source",
    [
        "\\\\(a\n```\n\\\\)\n![x](https://evil.example/x)\n```\n",
        "\\\\(a `\\\\) <img src='https://evil.example/x'> `b`",
        "| a | b |\n|---|---|\n| `x | ![x](https://evil.example/x) `|\n",
        "| a | b |\n|---|---|\n| <https://a|![x](https://evil.example/x)> |\n",
        '| a | b |\n|---|---|\n| [a](b "t|![x](https://evil.example/x)") |\n',
        "~~`~~ ![x](https://evil.example/x)`",
        "```\n![a][r]\n```\n[r]: https://evil.example/x",
    ],
)
def test_an_image_counts_also_where_only_some_pages_see_one(source: str) -> None:
    assert any("evil.example/x" in address for address in loaded_addresses(source))


@pytest.mark.attack("hostile texts", always=True)
@pytest.mark.parametrize(
    "diagram",
    [
        'flowchart TD\n A@{ img: "https://evil.example/x", w: 60, h: 60 }',
        "stateDiagram-v2\n s1: <img src=//evil.example/x>",
        "flowchart TD\n A[\"<img src='https:evil.example/x'>\"]",
        "flowchart TD\n A[\"<img src='https#58;evil.example/x'>\"]",
        '---\nconfig:\n  themeCSS: "a{b:url(https://evil.example/x)}"\n---\nflowchart TD\n A-->B',
        '%%{init: {"themeCSS": "a{b:\\\\75rl(x)}"}}%%\nflowchart TD\n A-->B',
    ],
)
@pytest.mark.parametrize("fence", ["```", "~~~~"])
def test_a_mermaid_diagram_that_loads_something_is_named(diagram: str, fence: str) -> None:
    assert DIAGRAM in loaded_addresses(f"{fence}mermaid\n{diagram}\n{fence}\n")


@pytest.mark.parametrize(
    "source",
    [
        "# A\n\n`df.head()` and $x^2$\n\n| a | b |\n|---|---|\n| 1 | ![b](plot.png) |",
        "See [the docs](https://fine.example/docs) for `read_csv`, and ![plot](plot.png).",
        "Paper: https://fine.example/1 and <https://fine.example>, `x`, a<b",
        "```python\nrequests.get('https://fine.example')\n```",
        "```mermaid\nflowchart LR\n A[a<br/>b\\nc] -->|x| B\n classDef c fill:#f9f,stroke:#333;\n```",
        "```mermaid\nclassDiagram\n class A { <<interface>> }\n A <|-- B\n```",
        "![c](data:image/png;base64,AA//BB) `code`",
    ],
)
def test_links_and_code_and_plain_diagrams_load_nothing(source: str) -> None:
    assert loaded_addresses(source) == ()
