"""Data whose values stand nowhere else, code that binds them in many shapes, and a look for them in what was sent.

The code reads the values from files and names none: code is sent.
"""

import json
import random
import re
import string
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from vibe_jupyter.testing import ModelRequest

_LETTERS = "bcdfghjkqvwxz"
_PICTURE = re.compile(r"data:image/\w+")
_DIGITS = 6
"""Leading digits of a number by which it is found, however it is rounded."""
LABELS = ("city", "owner", "sales", "weight", "day")
"""Of the columns: text, text, whole numbers, others, dates."""

BINDS = {
    "frame": "frame = pandas.read_csv('data.csv', parse_dates=['day'])",
    "by_city": "by_city = pandas.read_csv('data.csv').set_index('city')",
    "wide": "wide = pandas.read_csv('data.csv').pivot_table(index='owner', columns='city', values='sales')",
    "flags": "flags = pandas.get_dummies(pandas.read_csv('data.csv')[['city']])",
    "turned": "turned = pandas.read_csv('data.csv').set_index('owner').T",
    "parted": "parted = pandas.read_csv('data.csv').groupby('city')",
    "counts": "counts = pandas.read_csv('data.csv')['city'].value_counts()",
    "kinds": "kinds = pandas.read_csv('data.csv')['owner'].astype('category')",
    "days": "days = pandas.DatetimeIndex(pandas.read_csv('data.csv')['day'])",
    "array": "array = pandas.read_csv('data.csv')['weight'].to_numpy()",
    "texts": "texts = numpy.array(pandas.read_csv('data.csv')['city'].to_list())",
    "record": "record = pandas.read_csv('data.csv').to_records()",
    "rows": "rows = list(csv.DictReader(open('data.csv')))",
    "sales_of": "sales_of = {row['city']: int(row['sales']) for row in csv.DictReader(open('data.csv'))}",
    "nested": "nested = {'rows': [list(csv.reader(open('data.csv')))[1:]]}",
    "cities": "cities = {row['city'] for row in csv.DictReader(open('data.csv'))}",
    "word": "word = list(csv.reader(open('data.csv')))[1][0]",
    "number": "number = int(list(csv.reader(open('data.csv')))[1][2])",
    "raw": "raw = open('data.csv', 'rb').read()",
    "day": "day = datetime.date.fromisoformat(list(csv.reader(open('data.csv')))[1][4])",
    "path": "path = pathlib.Path(list(csv.reader(open('data.csv')))[1][1])",
    "pattern": "pattern = re.compile(list(csv.reader(open('data.csv')))[1][1])",
    "Owner": "Owner = enum.Enum('Owner', [row[1] for row in list(csv.reader(open('data.csv')))[1:]])",
    "Row": "Row = collections.namedtuple('Row', [row[0] for row in list(csv.reader(open('data.csv')))[1:]])",
    "failure": "failure = ValueError(list(csv.reader(open('data.csv')))[1][0])",
    "told": "def told(city=list(csv.reader(open('data.csv')))[1][0]):\n    return city",
    "partial": "partial = functools.partial(print, list(csv.reader(open('data.csv')))[1][0])",
    "space": "space = types.SimpleNamespace(**{row[0]: row[1] for row in list(csv.reader(open('data.csv')))[1:]})",
    "waiting": "waiting = collections.deque(row[0] for row in csv.reader(open('data.csv')))",
    "counted": "counted = collections.Counter(row['owner'] for row in csv.DictReader(open('data.csv')))",
    "shown": "class Shown:\n    def __repr__(self):\n        return open('data.csv').read()\nshown = Shown()",
    "figure": "figure = pandas.read_csv('data.csv').plot.bar('city', 'sales', title=open('data.csv').read()).figure",
}
"""Code that binds each of these names; none holds a value."""
IMPORTS = "import collections, csv, datetime, enum, functools, pathlib, re, types\nimport numpy, pandas"
SHOWS = (
    "print(open('data.csv').read())",
    "pandas.read_csv('data.csv')",
    "import sys; sys.stderr.write(open('data.csv').read())",
    "import warnings; warnings.warn(open('data.csv').read().replace(chr(10), ' '))",
    "import logging; logging.warning(open('data.csv').read())",
    "from IPython.display import HTML, display; display(HTML('<b>' + open('data.csv').read() + '</b>'))",
    "from IPython.display import Markdown; Markdown(open('data.csv').read())",
    "from IPython.display import JSON, display; display(JSON({'rows': open('data.csv').read().split()}))",
    "import os; os.system('cat data.csv')",
    "{row[0]: row[2] for row in __import__('csv').reader(open('data.csv'))}",
    "pandas.read_csv('data.csv').describe(include='all')",
    "input(open('data.csv').read())",
)
"""Code that shows values in every way that there is."""
FAILS = (
    "{}[open('data.csv').read().split(',')[5]]",
    "raise ValueError(open('data.csv').read())",
    "raise ValueError(open('data.csv').read().split(',')[6])",
    "assert not open('data.csv').read(), open('data.csv').read()",
    "float(open('data.csv').read().split(chr(10))[1].split(',')[0])",
    "pandas.read_csv('data.csv').set_index('city').loc['nowhere', pandas.read_csv('data.csv')['city'][0]]",
    "pandas.read_csv('data.csv')['city'].astype(float)",
    "pandas.to_datetime(pandas.read_csv('data.csv')['owner'], format='%Y')",
    "getattr(pandas.read_csv('data.csv'), open('data.csv').read().split(chr(10))[1].split(',')[1])",
    "exec(open('data.csv').read())",
    "raise SystemExit(open('data.csv').read())",
    "raise type(open('data.csv').read().split(chr(10))[1].split(',')[0], (Exception,), {})()",
    "raise ExceptionGroup(open('data.csv').read(), [ValueError(open('data.csv').read())])",
    "try:\n    1 / 0\nexcept ZeroDivisionError as error:\n    error.add_note(open('data.csv').read())\n    raise",
    "open(open('data.csv').read().split(chr(10))[1].split(',')[0])",
    "import json; json.loads(open('data.csv').read())",
)
"""Code that fails with a value in its message, or in the name of its class."""


@dataclass(frozen=True)
class PlantedValues:
    """A table, and what of it may not be sent."""

    table: str
    """As CSV."""
    texts: tuple[str, ...]
    numbers: tuple[str, ...]
    dates: tuple[str, ...]

    def write(self, folder: Path) -> None:
        """As files of several kinds."""
        folder.joinpath("data.csv").write_text(self.table, encoding="utf-8")
        folder.joinpath("notes.md").write_text(f"# Notes\n\n{self.table}", encoding="utf-8")
        folder.joinpath("data.json").write_text(json.dumps(self.table.split()), encoding="utf-8")

    def in_text(self, text: str) -> list[str]:
        """Those that stand there, in whatever form."""
        lower = text.casefold()
        found = [one for one in self.texts if one[:_DIGITS].casefold() in lower]
        found += [one for one in self.numbers if re.search(_number_pattern(one), text)]
        return found + [one for one in self.dates if re.search(_date_pattern(one), text)]

    def sent(self, requests: Sequence[ModelRequest]) -> list[str]:
        """Those that went to the model server; pictures count too."""
        bodies = [json.dumps(one.body, ensure_ascii=False) for one in requests]
        return [value for body in bodies for value in [*self.in_text(body), *_PICTURE.findall(body)]]


def plant(chosen: random.Random, rows: int = 6) -> PlantedValues:
    """A table of values that are in no dictionary and no code."""
    lines = [tuple(_row(chosen)) for _ in range(rows)]
    table = "\n".join([",".join(LABELS), *map(",".join, lines)])
    columns = list(zip(*lines, strict=True))
    return PlantedValues(f"{table}\n", columns[0] + columns[1], columns[2] + columns[3], columns[4])


def _row(chosen: random.Random) -> Iterator[str]:
    yield "".join(chosen.choices(_LETTERS, k=9)).capitalize()
    yield f"{''.join(chosen.choices(_LETTERS, k=8))}@{''.join(chosen.choices(string.ascii_lowercase, k=6))}.example"
    yield str(chosen.randrange(10_000_000, 100_000_000))
    yield f"{chosen.randrange(1_000, 10_000)}.{chosen.randrange(100_000, 1_000_000)}"
    yield f"{chosen.randrange(1910, 1990)}-{chosen.randrange(1, 13):02}-{chosen.randrange(1, 29):02}"


def _number_pattern(number: str) -> str:
    digits = number.replace(".", "")[:_DIGITS]
    no_hexadecimals = r"(?![\d.,_]*(?:[a-df-z]|e[^+-]))"  # the journal's checksums
    return rf"(?<![0-9A-Za-z]){'[.,_]?'.join(digits)}{no_hexadecimals}"


def _date_pattern(date: str) -> str:
    year, month, day = date.split("-")
    return rf"{year}\W{{1,2}}0?{int(month)}\W{{1,2}}0?{int(day)}(?!\d)"
