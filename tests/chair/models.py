"""Jobs b, c and d: a leak in a notebook of 33 cells, a merge that fails, a figure of four panels."""

from tests.chair.cases import Case, Names, Prompt, Source
from tests.chair.desk import Desk, markdown
from tests.chair.expert import Script, Seen, cell_of, do
from vibe_jupyter.testing import call, say

CELLS = 33
COLUMNS = 6


def leaking_model(names: Names) -> Case:
    """Jobs b1 and b2."""
    frame, results, target, leak = names.variable(), names.variable(), names.variable(), names.variable()
    columns = [names.variable() for _ in range(COLUMNS)]
    seed, width = names.number(10, 90), names.number(3, 9)

    def find_leak(seen: Seen) -> Script:
        to_tell = _target_of(seen)
        data = seen.find(rf"^(\w+): pandas DataFrame.*\b{to_tell}\b")
        yield do(
            f"What is computed from {to_tell}?",
            call("read_notebook", query=rf"{to_tell}"),
            call("run_code", code=f"{data}.corr(numeric_only=True)[{to_tell!r}].sort_values()"),
        )
        suspect = seen.find(rf"\[.(\w+).\] = .*{to_tell}")
        models = seen.find(r"^(\w+): dict")
        yield do(
            "I check by leaving it out.",
            call(
                "run_code",
                code=(
                    "from sklearn.ensemble import RandomForestClassifier\n"
                    "from sklearn.model_selection import cross_val_score\n"
                    f"X = {data}.drop(columns=[{to_tell!r}, {suspect!r}])\n"
                    f"print({models}, cross_val_score(RandomForestClassifier(20), X, {data}[{to_tell!r}]).mean())"
                ),
            ),
        )
        yield say(f"{suspect} is computed from {to_tell}: without it the score falls.")

    def names_leak(_desk: Desk, answer: str) -> None:
        assert leak in answer

    def summarise(seen: Seen) -> Script:
        models = seen.find(r"^(\w+): dict")
        yield do(
            "One cell at the end.",
            call(
                "insert_cell",
                after="end",
                source=f"pd.Series({models}, name='score').sort_values(ascending=False).to_frame()",
                run=True,
            ),
        )
        yield say("The table is the last cell.")

    def is_summed_up(desk: Desk, _answer: str) -> None:
        last = desk.document.cells[-1]
        assert "logistic" in str(last["outputs"])
        assert last["execution_count"]

    cells: list[str | Source] = [
        markdown("# Who stays longer"),
        "import numpy as np\nimport pandas as pd\nimport matplotlib.pyplot as plt",
        f"draw = np.random.default_rng({seed})",
        markdown("## Load"),
        f"{frame} = pd.DataFrame(draw.normal(size=(600, {COLUMNS})), columns={columns!r})",
        f"{frame}[{target!r}] = ({frame}[{columns[0]!r}] + draw.normal(size=600) > 0).astype(int)",
        f"{frame}.shape",
        markdown("## Explore"),
        *(f"{frame}[{column!r}].describe()" for column in columns),
        f"{frame}.hist(figsize=({width % 9 + 4}, 4));",
        markdown("## Features"),
        f"{frame}['wide'] = {frame}[{columns[1]!r}] * {width}",
        f"{frame}['both'] = {frame}[{columns[2]!r}] + {frame}[{columns[3]!r}]",
        f"{frame}[{leak!r}] = {frame}.groupby({frame}[{columns[4]!r}].round(2))[{target!r}].transform('mean')",
        f"{frame}.head(3)",
        markdown("## Split"),
        "from sklearn.model_selection import train_test_split",
        f"X, y = {frame}.drop(columns={target!r}), {frame}[{target!r}]",
        "X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)",
        markdown("## Models"),
        "from sklearn.ensemble import RandomForestClassifier\nfrom sklearn.linear_model import LogisticRegression",
        "forest = RandomForestClassifier(20, random_state=0).fit(X_train, y_train)",
        "logistic = LogisticRegression(max_iter=1000).fit(X_train, y_train)",
        f"{results} = {{name: round(model.score(X_test, y_test), 3) for name, model in "
        "{'forest': forest, 'logistic': logistic}.items()}",
        results,
        "plt.bar(list(X_train), forest.feature_importances_)\nplt.xticks(rotation=90);",
        markdown("## Conclusion"),
        markdown("Both models are very good."),
    ]
    cells.extend(f"{frame}[{column!r}].quantile([.1, .9])" for column in columns[: CELLS - 1 - len(cells)])
    prompts = [
        Prompt(
            *("b1", f"find the leak in a notebook of {CELLS} cells with models"),
            f"The scores for {target} are too good to be true. Find the leak.",
            *(find_leak, names_leak, 3, (frame, results, target)),
        ),
        Prompt(
            *("b2", "a summary table at its end", "Put a table of the scores at the end of the notebook."),
            *(summarise, is_summed_up, 2, (results,)),
        ),
    ]
    return Case(cells, prompts)


def _target_of(seen: Seen) -> str:
    return seen.find(r"scores for (\w+) are")


def failing_merge(names: Names) -> Case:
    """Job c."""
    left, right, key, value, other = (names.variable() for _ in range(5))
    first = names.number(10, 90)
    cells = [
        "import pandas as pd",
        f"{left} = pd.DataFrame({{{key!r}: [{first}, {first + 1}], {value!r}: [1.5, 2.5]}})",
        f"{right} = pd.DataFrame({{{key!r}: ['{first}', '{first + 1}'], {other!r}: ['a', 'b']}})",
        f"both = {left}.merge({right}, on={key!r})\nboth",
    ]

    def mend(seen: Seen) -> Script:
        cell = cell_of(seen, "both = ")
        texts, on = seen.find(r"\.merge\((\w+),"), seen.find(r"on='(\w+)'")
        yield do(
            "The keys are numbers on one side and text on the other.",
            call(
                "edit_cell",
                cell=cell,
                old_string=f"{texts}, on",
                new_string=f"{texts}.astype({{{on!r}: int}}), on",
                run=True,
            ),
        )
        yield say(f"{on} was text in {texts}; it is read as a number now, and the merge has its rows.")

    def runs(desk: Desk, _answer: str) -> None:
        assert desk.check("print(len(both))") == "2\n"

    return Case(
        cells,
        [Prompt("c", "`%vibe fix` on a merge that fails", "%vibe fix", mend, runs, 2, (left, right, key))],
    )


def four_panels(names: Names) -> Case:
    """Job d."""
    titles = [names.title() for _ in range(4)]
    frame = names.variable()
    cells = [
        "import matplotlib.pyplot as plt\nimport numpy as np",
        f"{frame} = np.linspace(0, {names.number(2, 9)}, 50)",
        "figure, axes = plt.subplots(2, 2, figsize=(8, 6))\n"
        + "\n".join(
            f"axes.flat[{place}].plot({frame}, {shape})\naxes.flat[{place}].set_title({title!r})"
            for place, (title, shape) in enumerate(
                zip(titles, (frame, f"-{frame}", f"{frame} ** 2", f"np.sin({frame})"), strict=True)
            )
        ),
    ]

    def look(seen: Seen) -> Script:
        yield do("I look at it.", call("read_notebook", cells=[cell_of(seen, "plt.subplots")], outputs="images"))
        found = seen.find_all(r"set_title\('(\w+ \w+)'\)")
        yield say("The panels: " + "; ".join(found))

    def tells_all(_desk: Desk, answer: str) -> None:
        assert all(title in answer for title in titles)

    return Case(
        cells,
        [
            Prompt(
                *("d", "explain a figure of four panels", "What do the four panels of the figure above show?"),
                *(look, tells_all, 2, ("plt.subplots",)),
            )
        ],
    )


def copied_code(names: Names) -> Case:
    """Job e."""
    frame = names.variable()
    columns = [names.variable() for _ in range(4)]
    scale = names.number(2, 30)
    cells: list[str | Source] = [
        "import pandas as pd",
        f"{frame} = pd.DataFrame({{name: range(place, place + 20) for place, name in enumerate({columns!r})}})",
        markdown("## Scores"),
        *(
            f"# {column} on the common scale\nlow = {frame}[{column!r}].min()\nhigh = {frame}[{column!r}].max()\n"
            f"{column}_scaled = ({frame}[{column!r}] - low) / (high - low) * {scale}\n{column}_scaled.mean()"
            for column in columns
        ),
    ]

    def refactor(seen: Seen) -> Script:
        copies = seen.find_all(r"^#\d+ ([0-9a-f]{4,8})\b.* low = ")
        yield do("I read the four.", call("read_notebook", cells=copies))
        data, factor = seen.find(r"low = (\w+)\["), seen.find(r"\* (\d+)$")
        of = seen.find_all(r"^.*?(\w+)_scaled = ")
        first, *others = copies
        source = (
            f"def on_common_scale(column):\n    low, high = column.min(), column.max()\n"
            f"    return (column - low) / (high - low) * {factor}\n\n\n"
            + "\n".join(f"{name}_scaled = on_common_scale({data}[{name!r}])" for name in of)
        )
        yield do(
            "One function for all.",
            call("edit_cell", cell=first, source=source, run=True),
            call("delete_cells", cells=others),
        )
        yield say("The four copies are one function.")

    def is_one(desk: Desk, _answer: str) -> None:
        assert sum(" - low) / (high - low)" in source for source in desk.sources()) == 1
        printed = desk.check(f"print({columns[3]}_scaled.max())")
        assert float(printed) == scale

    return Case(
        cells,
        [
            Prompt(
                *("e", "four copies of code become one function"),
                "The four cells on the common scale repeat themselves. Make one function of them.",
                *(refactor, is_one, 3, ("low = ",)),
            )
        ],
    )


def many_cells(names: Names) -> Case:
    """Jobs g1 and g2: 204 cells."""
    gross, fee, net, rate = (names.variable() for _ in range(4))
    blocks = 40
    cells: list[str | Source] = ["import math"]
    for block in range(blocks):
        base, more = f"{names.variable()}", f"part_{block}"
        cells += [
            markdown(f"## Block {block + 1}"),
            f"{base} = {names.number(1, 99)}",
            f"{more} = math.sqrt({base})",
            f"{more} * 2",
            f"print({more})",
        ]
    cells[60:60] = [f"{gross} = {names.number(50, 90)}", f"{fee} = {names.number(1, 9)}"]
    cells[130:130] = [f"{net} = {gross} + {fee}  # what is left after the fee"]
    cells[150:150] = [f"{rate} = {net} / {gross}\n{rate}"]
    cells.append(f"1 / ({rate} - {rate})")
    never = f"print('later', {rate})"

    def mend(seen: Seen) -> Script:
        wanted = seen.find(r"^(\w+) is too high")
        cell = cell_of(seen, f"{wanted} = ")
        terms = seen.find(rf"{wanted} = (\w+ \+ \w+)")
        yield do(
            "A fee is subtracted.",
            call("edit_cell", cell=cell, old_string=terms, new_string=terms.replace("+", "-")),
            call("run_cells", cells=[cell], dependents=True),
        )
        yield say(f"{wanted} added the fee; it is subtracted now, and what depends on it has run again.")

    def is_mended(desk: Desk, _answer: str) -> None:
        assert desk.check(f"print({net} == {gross} - {fee} and {rate} == {net} / {gross})") == "True\n"

    def write_later(desk: Desk) -> None:
        desk.write(never)

    def list_cells(seen: Seen) -> Script:
        wanted = seen.find(r"Which cells use (\w+)")
        yield do(
            "Three looks at once.",
            call("read_notebook", query=wanted),
            call("read_notebook", state="failed"),
            call("read_notebook", state="never"),
        )
        yield say(seen.newest)

    def are_listed(desk: Desk, answer: str) -> None:
        wanted = [
            cell["id"][:4] for cell in desk.document.cells if rate in cell["source"] and "%%vibe" not in cell["source"]
        ]
        assert len(wanted) == 3
        assert all(cell in answer for cell in wanted), "not every cell was found"

    prompts = [
        Prompt(
            *("g1", "find an error of sign in 204 cells", f"{net} is too high: an error of sign. Mend it."),
            *(mend, is_mended, 2, (f"{net} = ",)),
        ),
        Prompt(
            *("g2", "which cells use a name, failed, never ran"),
            f"Which cells use {rate}, which failed, and which never ran?",
            *(list_cells, are_listed, 2, (rate,), write_later),
        ),
    ]
    return Case(cells, prompts)
