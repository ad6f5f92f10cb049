"""What a Markdown cell would make the page load."""

import pytest

from vibe_jupyter.notebook.tools.cell_report import RAW_HTML, loaded_addresses


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
        ("```\n![a](https://fine.example/x)\n<img src=x>\n```\n`<b>`", ()),
        ("a < b and c<d", ()),
    ],
)
def test_remote_images_and_raw_html_are_named(source: str, found: tuple[str, ...]) -> None:
    assert loaded_addresses(source) == found
