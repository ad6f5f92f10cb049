"""The demo model: a script that shows what a run looks like, without a key or network.

It isn't a recording: each step depends on what the tools actually returned. So it works on the user's own data, handles
denials and errors like any model, and only states what its code computed.
"""

import difflib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from vibe_jupyter.testing import ModelRequest, Reply, answer, call, say

HELLO = (
    "This is the tour: a script on your machine, not an AI. It shows what a run looks like, and it works "
    "from what the tools actually return."
)
MAX_GROUPS = 12  # maximum distinct values of a column that counts as groups
MAX_MEASUREMENTS = 8  # maximum number of columns compared
NO_PLOTS = "matplotlib is not installed in this kernel."  # printed by the code if a cell with a plot would fail
SIMILARITY = 0.5  # minimum similarity of a misspelled name and a column, from 0 to 1
_FRAME = re.compile(r"^(?P<name>\w+): pandas DataFrame (?P<rows>[\d,]+) × (?P<columns>[\d,]+)", re.MULTILINE)
_COUNT = re.compile(r"\d+ variables?$", re.MULTILINE)  # beginning of a list of variables
# Line above each cell listed by `read_notebook`.
_TITLE = r"#\d+ (?P<id>[\w-]{4,}) (?:\[\d+\] )?"
_FAILED_CELL = re.compile(
    rf"^{_TITLE}failed\n(?P<source>(?:(?!{_TITLE.replace('?P<id>', '?:')}\w).*\n?)*)", re.MULTILINE
)
_QUOTED = re.compile(r"""(["'])(?P<word>\w+)\1""")
_SHARE = re.compile(r"^(?P<name>\S.*?)\s+(?P<share>\d+\.\d)$", re.MULTILINE)
_NUMBER = re.compile(r"u?int|float", re.IGNORECASE)
_TEXT = re.compile(r"str|object|category|string|bool", re.IGNORECASE)
_NO_MEASUREMENT = re.compile(r"^(id|index|year|month|day)$|_id$", re.IGNORECASE)


@dataclass(frozen=True)
class FrameData:
    """Description of the data frame by `inspect`."""

    frame: str
    # Name, type, and number of distinct values; 0 if the result lists only some of them.
    columns: tuple[tuple[str, str, int], ...]

    @property
    def groups(self) -> str | None:
        """The first text column with few distinct values, if any."""
        found = (name for name, kind, values in self.columns if _TEXT.search(kind) and 2 <= values <= MAX_GROUPS)
        return next(found, None)

    @property
    def measurements(self) -> list[str]:
        """Numeric columns other than ids, indexes and dates."""
        numbers = [name for name, kind, _ in self.columns if _NUMBER.match(kind) and not _NO_MEASUREMENT.search(name)]
        return numbers[:MAX_MEASUREMENTS]


def next_reply(request: ModelRequest) -> Reply:
    """Return the next step of the tour, based on the results of earlier steps."""
    results = _tool_results(request)
    if not results:
        if "read_notebook" not in request.tools:
            return answer(text=f"{HELLO}\n\nFirst I look at what is loaded.", calls=[call("inspect")])
        looks = [call("read_notebook"), call("inspect")]
        return answer(text=f"{HELLO}\n\nFirst I look at the notebook and at what is loaded.", calls=looks)
    inspected = results.get("inspect", "")
    if _COUNT.match(inspected) or not inspected:
        return _choose_frame(inspected)
    data = _frame_data(inspected)
    if data.groups is None or not data.measurements:
        return say(
            "These columns hold no groups to compare by numbers, so the tour ends here. A real model would go on: "
            "`%vibe model` lists them."
        )
    if "edit_cell" not in results and (fix := _fix_cell(results.get("read_notebook", ""), data)) is not None:
        return fix
    if "run_code" not in results:
        return _compute_step(data)
    shares = [(match["name"], float(match["share"])) for match in _SHARE.finditer(results["run_code"])]
    can_plot = "insert_cell" in request.tools and NO_PLOTS not in results["run_code"]
    if shares and can_plot and "insert_cell" not in results:
        return _plot_step(data, shares[0][0])
    return _conclude_tour(results, shares)


def _tool_results(request: ModelRequest) -> dict[str, str]:
    """Return the latest result of each tool since the last prompt, by tool name."""
    results: dict[str, str] = {}
    for message in request.messages:
        if message["role"] == "user":
            results.clear()
        elif message["role"] == "tool":
            results[str(message.get("name", ""))] = str(message["content"])
    return results


def _choose_frame(result: str) -> Reply:
    frames = list(_FRAME.finditer(result))
    if not frames:
        return say(
            "There is no pandas DataFrame in this kernel, and the tour knows nothing else. Load one, such as "
            '`df = pandas.read_csv("sales.csv")`, and run this cell again.'
        )
    largest = max(frames, key=lambda match: int(match["rows"].replace(",", "")))
    text = f"`{largest['name']}` is the data: {largest['rows']} rows, {largest['columns']} columns. Now its columns."
    return answer(text=text, calls=[call("inspect", names=[largest["name"]])])


def _frame_data(result: str) -> FrameData:
    frame = _FRAME.search(result)
    table = result.partition("\ncolumn | type | ")[2].partition("\nfirst ")[0]
    rows = [row for row in (line.split(" | ", 3) for line in table.splitlines()[1:]) if len(row) == 4]
    columns = tuple((name, kind, 0 if "…" in values else values.count(", ") + 1) for name, kind, _, values in rows)
    return FrameData(frame["name"] if frame else "", columns)


def _fix_cell(notebook: str, data: FrameData) -> Reply | None:
    """Fix a misspelled column name in a failed cell. Returns None if there is none."""
    names = [name for name, _, _ in data.columns]
    for cell in _FAILED_CELL.finditer(notebook):
        for quoted in _QUOTED.finditer(cell["source"]):
            near = difflib.get_close_matches(quoted["word"], names, 1, SIMILARITY)
            if near and quoted["word"] not in names:
                text = f"A cell failed: it asks for `{quoted['word']}`, and the data calls it `{near[0]}`."
                new = quoted[0].replace(quoted["word"], near[0])
                change = call("edit_cell", cell=cell["id"], old_string=quoted[0], new_string=new, run=True)
                return answer(text=text, calls=[change])
    return None


def _compute_step(data: FrameData) -> Reply:
    text = (
        f"I compare how much of each measurement's spread lies between the groups of `{data.groups}`. "
        "That only looks, so it runs in a copy of your kernel; where there can be none, you are asked first."
    )
    code = f"""\
import pandas as pd

share = {{}}
for name in {_python_literal(data.measurements)}:
    known = {data.frame}[[{_python_literal(data.groups)}, name]].dropna()
    spread = known[name] - known[name].mean()
    between = known.groupby({_python_literal(data.groups)})[name].transform("mean") - known[name].mean()
    share[name] = 100 * (between**2).sum() / (spread**2).sum()
print(pd.Series(share).sort_values(ascending=False).round(1).to_string())
try:
    import matplotlib
except ImportError:
    print({_python_literal(NO_PLOTS)})"""
    return answer(text=text, calls=[call("run_code", code=code, reason=f"compare the groups of {data.groups}")])


def _plot_step(data: FrameData, best: str) -> Reply:
    source = f"""\
import matplotlib.pyplot as plt

{data.frame}.boxplot(column={_python_literal(best)}, by={_python_literal(data.groups)}, grid=False)
plt.suptitle("")
plt.show()"""
    text = f"`{best}` it is. The plot goes into a cell of its own, so that it stays in the notebook."
    return answer(text=text, calls=[call("insert_cell", source=source, run=True)])


def _python_literal(value: str | list[str] | None) -> str:
    """Format a Python literal in double quotes. JSON's own escapes would split some characters into surrogates."""
    return json.dumps(value, ensure_ascii=False)


def _conclude_tour(results: Mapping[str, str], shares: Sequence[tuple[str, float]]) -> Reply:
    if not shares:
        return say(_without_figures(results["run_code"]))
    (best, share), *rest = shares
    others = ", ".join(f"`{name}` {value} %" for name, value in rest)
    pieces = [
        f"**`{best}` tells the groups apart best: {share} % of its spread lies between them.**"
        + (f" The others: {others}." if others else ""),
        " ".join(filter(None, (_about_the_plot(results), _about_the_cell(results)))),
        "The share is the variance between group means over the whole variance, missing values left out. "
        "I did not check whether the groups differ in anything else.",
        "That was the tour. For a real model: `%vibe model`.",
    ]
    return say("\n\n".join(filter(None, pieces)))


def _about_the_plot(results: Mapping[str, str]) -> str:
    if NO_PLOTS in results["run_code"]:
        return f"There is no plot: {NO_PLOTS} `%pip install matplotlib`, then run this cell again for one."
    result = results.get("insert_cell", "")
    if "] ok in " in result.split("\n", 1)[0]:
        return "The plot is in the new cell below."
    return f"There is no plot: {_first_line(result)}" if result else ""


def _about_the_cell(results: Mapping[str, str]) -> str:
    result = results.get("edit_cell", "")
    if "] ok in " in result.split("\n", 1)[0]:
        return "The cell that failed on a misspelt column runs now."
    return f"The cell that failed is as it was: {_first_line(result)}" if result else ""


def _first_line(result: str) -> str:
    """Summarize a tool result in one sentence."""
    if _is_denied(result):
        return "that was not allowed."
    sentence = result.split("\n", 1)[0].split(". ", 1)[0].strip()
    return sentence if sentence.endswith(".") else f"{sentence}."


def _is_denied(result: str) -> bool:
    return "denied" in result.split("\n", 1)[0] or result.startswith("Not run")


def _without_figures(result: str) -> str:
    if _is_denied(result):
        return (
            "That was not allowed, so nothing ran. A denied call goes back to the model with your words, and the run "
            "goes on without it. That was the tour."
        )
    return (
        f"The code did not give what I expected: {_first_line(result)} A real model would read the error and try again."
    )
