"""Jobs a and f: a messy CSV becomes cells with a plot; a table that the user changes meanwhile."""

import csv
import io
import re

from tests.chair.cases import Case, Names, Prompt
from tests.chair.desk import Desk
from tests.chair.expert import Script, Seen, cell_of, do
from vibe_jupyter.testing import call, say

ROWS = 120
MISSING = -999


def messy_csv(names: Names) -> Case:
    """Jobs a1 and a2."""
    file, day, place, value = f"{names.variable()}.csv", names.title(), names.title(), names.title()
    places = [names.title().split()[0] for _ in range(3)]

    def clean(seen: Seen) -> Script:
        path = seen.find(r"(\w+\.csv)")
        yield do(
            "I look at the file first.",
            call("read_file", path=path),
            call(
                "run_code",
                code=(
                    f"import pandas as pd\nraw = pd.read_csv({path!r})\n"
                    "print(raw.duplicated().sum(), raw.isna().sum().sum())\nraw.describe(include='all').T"
                ),
            ),
        )
        header = next(csv.reader([seen.find(r"((?:[A-Z]\w+ \w+\s*,\s*){2}[A-Z]\w+ \w+)")], skipinitialspace=True))
        when, where, what = (name.strip() for name in header)
        sentinel = seen.find(r"(-\d{3})\b")
        yield do(
            "Sentinels and duplicates go, then the months are plotted.",
            call("insert_cell", source=f"import pandas as pd\n\nraw = pd.read_csv({path!r})", run=True),
            call(
                "insert_cell",
                source=(
                    f"tidy = raw.rename(columns=str.strip).drop_duplicates()\n"
                    f"tidy = tidy.assign(**{{{what!r}: tidy[{what!r}].mask(tidy[{what!r}] == {sentinel})}})"
                ),
                run=True,
            ),
            call("insert_cell", source=f"tidy[{when!r}] = pd.to_datetime(tidy[{when!r}])", run=True),
            call(
                "insert_cell",
                source=f"monthly = tidy.groupby(tidy[{when!r}].dt.month)[{what!r}].mean()\nmonthly",
                run=True,
            ),
            call("insert_cell", source=f"monthly.plot(xlabel='month', ylabel={what!r});", run=True),
        )
        yield say(f"{where} aside, {what} per month is plotted; {sentinel} counted as missing.")

    def cleaned(desk: Desk, _answer: str) -> None:
        found = desk.check(
            "import pandas as _pd\n"
            f"print(any(isinstance(v, _pd.DataFrame) and len(v) == {ROWS} and not (v == {MISSING}).any().any()"
            " for v in list(globals().values())))"
        )
        assert found == "True\n", "no clean table"
        assert any(
            "image/png" in output.get("data", {}) for cell in desk.document.cells for output in desk.outputs(cell["id"])
        )

    def median(seen: Seen) -> Script:
        computed = cell_of(seen, "names created: monthly")
        yield do(
            "The same with the median, and the plot again.",
            call("edit_cell", cell=computed, old_string=".mean()", new_string=".median()"),
            call("run_cells", cells=[computed], dependents=True),
        )
        yield say("The plot shows medians now.")

    def is_median(desk: Desk, _answer: str) -> None:
        (computed,) = (cell for cell in desk.document.cells if "groupby" in cell["source"])
        assert "median()" in computed["source"]
        assert "mean()" not in computed["source"]
        (plotted,) = (cell for cell in desk.document.cells if ".plot(" in cell["source"])
        assert plotted["execution_count"] > computed["execution_count"], "the plot is of the means"

    prompts = [
        Prompt(
            *("a1", "clean a messy CSV into cells with a plot"),
            f"Clean {file} ({MISSING} is no reading) in at most five cells, and plot {value} per month.",
            *(clean, cleaned, 3, (file,)),
        ),
        Prompt("a2", "a follow-up on it", "Take the median instead of the mean.", median, is_median, 2, ("monthly",)),
    ]
    return Case([], prompts, {file: _rows(names, (day, place, value), places)})


def _rows(names: Names, header: tuple[str, str, str], places: list[str]) -> str:
    lines = io.StringIO()
    writer = csv.writer(lines)
    writer.writerow([header[0], f" {header[1]}", f"{header[2]} "])
    rows = [
        [
            f"2024-{1 + place % 12:02}-{1 + place % 28:02}",
            places[place % 3],
            MISSING if place % 17 == 5 else names.number(10, 99) / 10 + place,
        ]
        for place in range(ROWS)
    ]
    writer.writerows([*rows, *rows[3:9]])
    return lines.getvalue()


def changed_table(names: Names) -> Case:
    """Jobs f1 and f2."""
    frame, group, value, other = names.variable(), names.title(), names.title(), names.title()
    kinds = [names.title().split()[0] for _ in range(3)]
    least = names.number(5, 20)
    cells = [
        "import pandas as pd",
        f"{frame} = pd.DataFrame({{{group!r}: {kinds!r} * 20, {value!r}: range(60), {other!r}: range(0, 600, 10)}})",
        f"{frame}.head()",
    ]

    def table(seen: Seen) -> Script:
        name, columns = _frame_of(seen)
        by, of = columns[0], columns[1]
        yield do(
            "One cell for the table.",
            call("insert_cell", source=f"table = {name}.groupby({by!r})[[{of!r}]].mean()\ntable", run=True),
        )
        yield say(f"The means of {of} are below the prompt.")

    def has_means(desk: Desk, _answer: str) -> None:
        assert any("groupby" in source and "%%vibe" not in source for source in desk.sources())
        assert any(
            "text/html" in output.get("data", {}) for cell in desk.document.cells for output in desk.outputs(cell["id"])
        )

    def narrow(desk: Desk) -> None:
        (cell,) = (cell for cell in desk.document.cells if "groupby" in cell["source"])
        source = cell["source"].replace(f"{frame}.groupby", f"{frame}[{frame}[{value!r}] > {least}].groupby")
        desk.edit(cell["id"], source)
        desk.run(cell["id"])

    def add(seen: Seen) -> Script:
        cell = cell_of(seen, "table = ", "groupby")
        yield do(
            "The filter stays.",
            call("edit_cell", cell=cell, old_string=".mean()", new_string='.agg(["mean", "median"])', run=True),
        )
        seen.find(str(least))
        yield say(f"Medians are added; the table still begins above {least}.")

    def has_both(desk: Desk, answer: str) -> None:
        (cell,) = (cell for cell in desk.document.cells if "groupby" in cell["source"])
        assert f"> {least}]" in cell["source"], "the user's filter is lost"
        assert "median" in str(cell["outputs"])
        assert str(least) in answer

    prompts = [
        Prompt("f1", "make a table", f"Make a table of the mean {value} by {group}.", table, has_means, 2, (frame,)),
        Prompt(
            *("f2", '"add to that table" after the user changed it', "Add the median to that table."),
            *(add, has_both, 2, (str(least),), narrow),
        ),
    ]
    return Case(cells, prompts)


def _frame_of(seen: Seen) -> tuple[str, list[str]]:
    name, columns = re.findall(r"^(\w+): pandas DataFrame [\d,]+ × \d+ \((.+)\)", seen.text, re.MULTILINE)[-1]
    asked = seen.find(r"mean (\w+ \w+) by")
    group = seen.find(r" by (\w+ \w+)\.")
    assert asked in columns
    assert group in columns
    return name, [group, asked]
