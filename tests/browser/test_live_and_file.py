"""A notebook reads the same from its page and from its file."""

import secrets

import nbformat
import pytest

from tests.browser.lab import Lab
from tests.browser.notebook_page import NotebookPage
from tests.notebook import reads

pytestmark = pytest.mark.browser


@pytest.mark.matrix
def test_the_page_and_the_file_read_the_same(lab: Lab) -> None:
    path = lab.server.folder / f"{secrets.token_hex(4)}.ipynb"
    nbformat.write(reads.notebook(), path)
    lab.open_file(path)
    book = NotebookPage(lab, path.name)
    asking = book.ids.index(reads.ASKING)
    book.run(asking)
    book.over(asking)
    live, file = reads.answers(book.text(asking))
    assert file == live
