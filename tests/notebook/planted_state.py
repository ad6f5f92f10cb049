"""Notebooks with a planted hidden state: cells of code, and what the user did with them.

A deed is ``run`` with the places of cells, ``all``, ``edit`` with a place and a source, ``delete`` or ``move``; places
are those the cells had at first, from 0.
"""

from typing import Any

Deed = tuple[Any, ...]
FRAME = "import pandas as pd\ndf = pd.DataFrame({'a': [3, 1, 2], 'b': [10.0, 20.0, 30.0]})"
ALL: Deed = ("all",)

PLANTED: dict[str, tuple[list[str], list[Deed]]] = {
    "a value changed above": (
        ["limit = 10", "kept = [n for n in range(20) if n < limit]", "print(len(kept))", "print('done')"],
        [ALL, ("edit", 0, "limit = 5"), ("run", 0)],
    ),
    "a value edited and not run": (
        ["rate = 0.1", "cost = 100 * rate", "print(cost)", "other = 7", "print(other)"],
        [ALL, ("edit", 0, "rate = 0.2")],
    ),
    "a name bound twice": (
        ["x = 1", "print(x + 1)", "x = 10", "print(x + 2)"],
        [ALL, ("run", 1)],
    ),
    "a name bound twice, in order": (
        ["x = 1", "print(x + 1)", "x = 10", "print(x + 2)", "x += 1", "print(x)"],
        [ALL],
    ),
    "the same value bound again": (
        ["x = 1", "y = x * 2", "print(y)"],
        [ALL, ("run", 0)],
    ),
    "a frame changed in place": (
        [FRAME, "df.head()", "df['c'] = df.a * df.b", "print(df.c.sum())", "print(list(df.columns))"],
        [ALL, ("run", 1)],
    ),
    "a frame changed in place, in order": (
        [FRAME, "print(len(df))", "df.insert(0, 'n', 7)", "print(df.n.tolist())", "df.head()"],
        [ALL],
    ),
    "rows dropped twice": (
        [FRAME, "df = df.iloc[1:]", "print(len(df))", "total = df.b.sum()", "print(total)"],
        [ALL, ("run", 1)],
    ),
    "a scaling done twice": (
        ["import numpy as np", "a = np.arange(4.0)", "a *= 2", "print(a.sum())", "b = np.ones(3)", "print(b)"],
        [ALL, ("run", 2), ("run", 3)],
    ),
    "a list that grows": (
        ["items = []", "items.append(len(items))", "print(items)", "n = 3", "print(n)"],
        [ALL, ("run", 1), ("run", 1)],
    ),
    "sorted in place by numpy": (
        ["import numpy as np", "v = np.array([3, 1, 2])", "print(v[0])", "v.sort()", "print(v[0])"],
        [ALL, ("run", 2)],
    ),
    "a column renamed by an attribute": (
        [FRAME, "print(df.columns[0])", "df.columns = ['x', 'y']", "print(df.x.sum())"],
        [ALL, ("run", 0), ("run", 1)],
    ),
    "a deleted cell whose name lives": (
        ["base = 2", "factor = base * 3", "result = factor + 1", "print(result)", "print(base)"],
        [ALL, ("delete", 1)],
    ),
    "a deleted cell that shadowed": (
        ["size = 1", "size = 50", "print(size)", "print('end')"],
        [ALL, ("delete", 1)],
    ),
    "a deleted import": (
        ["import math", "r = 2.0", "area = math.pi * r", "print(area)"],
        [ALL, ("delete", 0), ("run", 2), ("run", 3)],
    ),
    "run out of order": (
        ["a = 1", "b = a + 1", "a = b * 10", "print(a, b)"],
        [ALL, ("run", 1)],
    ),
    "run from below first": (
        ["t = 0", "print(t)", "t = t + 5", "print(t)"],
        [("run", 0, 2, 1, 3)],
    ),
    "a function with a global": (
        [
            "k = 2",
            "def scale(v):\n    return v * k",
            "s = scale(10)",
            "print(s)",
            "def plain(v):\n    return v + 1",
            "p = plain(1)",
        ],
        [ALL, ("edit", 0, "k = 3"), ("run", 0)],
    ),
    "a function defined anew": (
        ["def clean(v):\n    return v + 1", "c = clean(1)", "print(c)", "d = 4", "print(d)"],
        [ALL, ("edit", 0, "def clean(v):\n    return v + 2"), ("run", 0)],
    ),
    "a function that changes what it is given": (
        [
            "rows = [{'v': 1}, {'v': 2}]",
            "def mark(items):\n    for one in items:\n        one['seen'] = one['v'] + 1",
            "print(rows)",
            "mark(rows)",
            "print(rows[0])",
        ],
        [ALL, ("run", 2)],
    ),
    "a function that binds a global": (
        ["state = 0", "def advance():\n    global state\n    state += 1", "advance()", "print(state)", "print('x')"],
        [ALL, ("run", 2)],
    ),
    "a function that uses a function": (
        ["q = 2", "def inner():\n    return q", "def outer():\n    return inner() + 1", "print(outer())", "z = 1"],
        [ALL, ("edit", 0, "q = 9"), ("run", 0)],
    ),
    "a class with a global": (
        [
            "unit = 'm'",
            "class Length:\n    def show(self):\n        return '1 ' + unit",
            "one = Length()",
            "print(one.show())",
        ],
        [ALL, ("edit", 0, "unit = 'km'"), ("run", 0)],
    ),
    "an object that counts": (
        [
            "class Counter:\n    def __init__(self):\n        self.n = 0\n    def tick(self):\n        self.n += 1",
            "c = Counter()",
            "c.tick()",
            "print(c.n)",
            "print('end')",
        ],
        [ALL, ("run", 2)],
    ),
    "star imports": (
        ["from math import *", "radius = 3", "print(floor(pi * radius))", "print(sqrt(4))", "m = 2"],
        [ALL, ("edit", 1, "radius = 4"), ("run", 1), ("run", 0)],
    ),
    "magics around code": (
        ["%time step = 4", "%%time\nvalue = step * 2", "print(value)", "names = !echo {step}", "print(names)"],
        [ALL, ("edit", 0, "%time step = 5"), ("run", 0)],
    ),
    "an unknown cell magic": (
        ["n = 3", "%%doubled\nn", "print(n)", "print(n + 1)", "m = n", "print(m)", "w = 1", "print(w)"],
        [ALL, ("edit", 0, "n = 4"), ("run", 0)],
    ),
    "async": (
        [
            "import asyncio\ndelay = 0",
            "async def fetch():\n    await asyncio.sleep(delay)\n    return page",
            "page = 'one'",
            "text = await fetch()",
            "print(text)",
        ],
        [ALL, ("edit", 2, "page = 'two'"), ("run", 2)],
    ),
    "comprehensions, loops and names in scopes": (
        [
            "n = 5",
            "total = sum(n for n in range(4))",
            "print(total)",
            "for i in range(3):\n    last = i * n",
            "print(last)",
            "i = 100",
            "print(i)",
        ],
        [ALL, ("edit", 0, "n = 6"), ("run", 0)],
    ),
    "another name for the same list": (
        ["first = [1]", "second = first", "print(first)", "second.append(2)", "print(first)"],
        [ALL, ("run", 2)],
    ),
}
