"""Notebooks that break nbformat's rules, which `jupyter execute` runs: each a sound one with one change."""

import copy
from collections.abc import Callable
from typing import Any

Change = Callable[[dict[str, Any]], object]

SOUND: dict[str, Any] = {
    "nbformat": 4,
    "nbformat_minor": 5,
    "metadata": {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}},
    "cells": [
        {"cell_type": "markdown", "id": "title", "metadata": {}, "source": "# Title"},
        {
            "cell_type": "code",
            "id": "first",
            "metadata": {},
            "source": "x = 6\nx * 7",
            "execution_count": 3,
            "outputs": [
                {
                    "output_type": "execute_result",
                    "metadata": {},
                    "data": {"text/plain": "41"},
                    "execution_count": 3,
                }
            ],
        },
        {
            "cell_type": "code",
            "id": "blank",
            "metadata": {},
            "source": "",
            "execution_count": 2,
            "outputs": [{"output_type": "stream", "name": "stdout", "text": "kept\n"}],
        },
    ],
}


def _cell(position: int, **values: Any) -> Change:
    return lambda notebook: notebook["cells"][position].update(values)


def _without(position: int, *names: str) -> Change:
    return lambda notebook: [notebook["cells"][position].pop(name) for name in names]


def _top(**values: Any) -> Change:
    return lambda notebook: notebook.update(values)


def _output(output: dict[str, Any]) -> Change:
    """Put an output below the blank cell, where no run replaces it."""
    return lambda notebook: notebook["cells"][2]["outputs"].append(output)


def _metadata(**values: Any) -> Change:
    return lambda notebook: notebook["metadata"].update(values)


def _further(**values: Any) -> Change:
    """Append a cell."""
    return lambda notebook: notebook["cells"].append({"id": "further", "metadata": {}, "source": "", **values})


ODD: dict[str, Change] = {
    "no outputs": _without(1, "outputs"),
    "outputs null": _cell(1, outputs=None),
    "outputs an object": _cell(1, outputs={}),
    "no execution count": _without(1, "execution_count"),
    "execution count as text": _cell(1, execution_count="3"),
    "execution count a fraction": _cell(1, execution_count=3.0),
    "execution count of a running cell": _cell(1, execution_count="*"),
    "execution count negative": _cell(1, execution_count=-1),
    "execution count true": _cell(1, execution_count=True),
    "no cell metadata": _without(1, "metadata"),
    "cell metadata null": _cell(1, metadata=None),
    "cell metadata a list": _cell(1, metadata=[]),
    "no markdown metadata": _without(0, "metadata"),
    "tags as text": _cell(1, metadata={"tags": "setup"}),
    "tags null": _cell(1, metadata={"tags": None}),
    "tags numbers": _cell(1, metadata={"tags": [1, 2]}),
    "collapsed as text": _cell(1, metadata={"collapsed": "yes"}),
    "scrolled null": _cell(1, metadata={"scrolled": None}),
    "name empty": _cell(1, metadata={"name": ""}),
    "jupyter metadata a list": _cell(1, metadata={"jupyter": []}),
    "markdown with empty outputs": _cell(0, outputs=[]),
    "markdown with outputs": _cell(0, outputs=[{"output_type": "stream", "name": "stdout", "text": "lost?"}]),
    "markdown with a count": _cell(0, execution_count=None),
    "markdown with a number": _cell(0, execution_count=7),
    "raw with outputs": _further(cell_type="raw", outputs=[]),
    "attachments of code": _cell(1, attachments={}),
    "attachments null": _cell(0, attachments=None),
    "id missing": _without(1, "id"),
    "id twice": _cell(1, id="title"),
    "id with spaces": _cell(1, id="a b"),
    "id too long": _cell(1, id="a" * 65),
    "id empty": _cell(1, id=""),
    "id a number": _cell(1, id=7),
    "id null": _cell(1, id=None),
    "id in letters beyond ASCII": _cell(1, id="zwölf"),
    "ids in an older minor": _top(nbformat_minor=4),
    "minor 0": _top(nbformat_minor=0),
    "minor of tomorrow": _top(nbformat_minor=9),
    "source as lines": _cell(1, source=["x = 6\n", "x * 7"]),
    "source as lines without ends": _cell(1, source=["x = 6; x * 7"]),
    "no lines": _cell(2, source=[]),
    "no metadata keys": _top(metadata={}),
    "kernelspec null": _metadata(kernelspec=None),
    "kernelspec empty": _metadata(kernelspec={}),
    "kernelspec a name alone": _metadata(kernelspec={"name": "python3"}),
    "language_info empty": _metadata(language_info={}),
    "language_info of another tool": _metadata(language_info={"version": 3}),
    "title a number": _metadata(title=4),
    "authors as text": _metadata(authors="me"),
    "key of another tool": _top(signature="sha256:0"),
    "key of another tool in a cell": _cell(1, language="python"),
    "key of another tool in markdown": _cell(0, rendered=True),
    "stream without a name": _output({"output_type": "stream", "text": "a"}),
    "stream in lines": _output({"output_type": "stream", "name": "stderr", "text": ["a\n", "b\n"]}),
    "stream with metadata": _output({"output_type": "stream", "name": "stdout", "text": "a", "metadata": {}}),
    "display without metadata": _output({"output_type": "display_data", "data": {"text/plain": "a"}}),
    "result without a count": _output({"output_type": "execute_result", "metadata": {}, "data": {"text/plain": "a"}}),
    "display without data": _output({"output_type": "display_data", "metadata": {}}),
    "display with a number": _output({"output_type": "display_data", "metadata": {}, "data": {"text/plain": 5}}),
    "error without a traceback": _output({"output_type": "error", "ename": "E", "evalue": "v"}),
    "error with a number": _output({"output_type": "error", "ename": "E", "evalue": 5, "traceback": []}),
    "output of a later kind": _output({"output_type": "stand_in", "data": {}}),
    "transient display id": _output(
        {"output_type": "display_data", "metadata": {}, "data": {}, "transient": {"display_id": "d"}}
    ),
    "cell of a later kind": _further(cell_type="sql", source="select 1"),
    "half an emoji in code": _cell(2, source="# \ud83d"),
    "half an emoji in markdown": _cell(0, source="# \ude00 Title"),
}


def odd_notebook(name: str) -> dict[str, Any]:
    """The sound notebook with one change."""
    notebook = copy.deepcopy(SOUND)
    ODD[name](notebook)
    return notebook
