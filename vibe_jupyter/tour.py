"""The tour: a scripted model that shows what a run looks like, with no key and no network.

It is no recording: each step is chosen by what the tools really gave back, so it works on the person's own data, meets
denials and errors like any model, and says only what its own code computed.
"""

import json
import re
from collections.abc import Sequence

from vibe_jupyter.testing import ModelRequest, Reply, answer, call, say

HELLO = (
    "This is the tour: a script on your machine, no AI. It shows how a run looks, and it goes by what the tools "
    "really give back."
)
MAX_GROUPS = 12
"""Different values a column may have to be taken for groups."""
MAX_MEASUREMENTS = 8
"""Columns compared at the most."""
_FRAME = re.compile(r"^(?P<name>\w+): pandas DataFrame (?P<rows>[\d,]+) × (?P<columns>[\d,]+)", re.MULTILINE)
_SHARE = re.compile(r"^(?P<name>\S.*?)\s+(?P<share>\d+\.\d)$", re.MULTILINE)
_NUMBER = re.compile(r"u?int|float", re.IGNORECASE)
_NO_MEASUREMENT = re.compile(r"^(id|index|year|month|day)$|_id$", re.IGNORECASE)
_TEXT = re.compile(r"str|object|category|string|bool", re.IGNORECASE)


def guide(request: ModelRequest) -> Reply:
    """The next step of the tour, from the results of the steps before it."""
    steps = _steps(request)
    if not steps:
        return answer(text=f"{HELLO}\n\nFirst I look at what is loaded.", calls=[call("list_variables")])
    name, result = steps[-1]
    match name:
        case "list_variables":
            return _choose_frame(result)
        case "inspect_variable":
            return _compute(result)
        case _:
            return _conclude(result, [one for one, _ in steps].count("run_code"), request)


def _steps(request: ModelRequest) -> list[tuple[str, str]]:
    """Tool name and result of each call since the last prompt."""
    results: list[tuple[str, str]] = []
    for message in request.messages:
        if message["role"] == "user":
            results.clear()
        elif message["role"] == "tool":
            results.append((str(message.get("name", "")), str(message["content"])))
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
    return answer(text=text, calls=[call("inspect_variable", name=largest["name"])])


def _compute(result: str) -> Reply:
    frame = _FRAME.search(result)
    columns = _columns(result)
    groups = next((name for name, kind, values in columns if _TEXT.search(kind) and 2 <= values <= MAX_GROUPS), None)
    numbers = [name for name, kind, _ in columns if _NUMBER.match(kind) and not _NO_MEASUREMENT.search(name)]
    measurements = numbers[:MAX_MEASUREMENTS]
    if frame is None or groups is None or not measurements:
        return say(
            "These columns hold no groups to compare by numbers, so the tour ends here. A real model would go on: "
            "`%vibe model` lists them."
        )
    text = (
        f"I compare how much of each measurement's spread lies between the groups of `{groups}`. "
        "That runs code in your kernel, so it waits for your click."
    )
    code = _code(frame["name"], groups, measurements)
    return answer(text=text, calls=[call("run_code", code=code, reason=f"compare the groups of {groups}")])


def _conclude(result: str, tries: int, request: ModelRequest) -> Reply:
    if "denied" in result.split("\n", 1)[0] or result.startswith("Not run"):
        return say(
            "That was not allowed, so nothing ran. A denied call goes back to the model with your words, and the run "
            "goes on without it. That was the tour."
        )
    if "No module named 'matplotlib'" in result and tries == 1:
        code = str(_last_code(request)).split("\n\n# The plot", 1)[0]
        text = "matplotlib is not installed here, so I leave the plot out."
        return answer(text=text, calls=[call("run_code", code=code, reason="the same without a plot")])
    shares = [(match["name"], float(match["share"])) for match in _SHARE.finditer(result)]
    if not shares:
        first = result.split("\n", 1)[0]
        return say(f"The code did not give what I expected ({first}). A real model would read the error and try again.")
    (best, share), *rest = shares
    others = ", ".join(f"`{name}` {value} %" for name, value in rest)
    return say(
        f"**`{best}` tells the groups apart best: {share} % of its spread lies between them.**"
        + (f" The others: {others}." if others else "")
        + "\n\nThe share is the variance between group means over the whole variance, missing values left out. "
        "I did not check whether the groups differ in anything else.\n\n"
        "That was the tour. For a real model: `%vibe model`."
    )


def _last_code(request: ModelRequest) -> str:
    """The code of the newest call, before a person edited it."""
    calls = [one for message in request.messages for one in message.get("tool_calls") or ()]
    return json.loads(calls[-1]["function"]["arguments"])["code"]


def _columns(result: str) -> list[tuple[str, str, int]]:
    """Name, type and number of different values of each column; 0 where the result names only some of them."""
    table = result.partition("\ncolumn | type | ")[2].partition("\nfirst ")[0]
    rows = [line.split(" | ", 3) for line in table.splitlines()[1:]]
    return [
        (name, kind, 0 if "…" in values else values.count(", ") + 1)
        for name, kind, _, values in (row for row in rows if len(row) == 4)
    ]


def _code(frame: str, groups: str, measurements: Sequence[str]) -> str:
    return f"""\
import pandas as pd

share = {{}}
for name in {json.dumps(list(measurements))}:
    known = {frame}[[{json.dumps(groups)}, name]].dropna()
    spread = known[name] - known[name].mean()
    between = known.groupby({json.dumps(groups)})[name].transform("mean") - known[name].mean()
    share[name] = 100 * (between**2).sum() / (spread**2).sum()
share = pd.Series(share).sort_values(ascending=False)
print(share.round(1).to_string())

# The plot of the best one
import matplotlib.pyplot as plt

{frame}.boxplot(column=share.index[0], by={json.dumps(groups)}, grid=False)
plt.suptitle("")
plt.show()"""
