"""Data as analyses hold it, however large: nothing of it withholds an output or tells the user of secrets."""

import random
import uuid
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.secrets import harmless
from tests.tiers import further
from vibe_jupyter.permissions.redaction import Redactor
from vibe_jupyter.permissions.secret_shapes import holds_secret, is_secret_name
from vibe_jupyter.permissions.secret_sources import Extent
from vibe_jupyter.protocol import TextPart, ToolResult
from vibe_jupyter.variables.secret_values import ITEMS, ROWS, SecretValues

LOOKS = 3
"""Searches of a namespace: what the first did not come to is looked at by the next."""
MANY = 10 * ITEMS
WORDS = ("the", "token", "bucket", "refills", "candle")
OUTPUT = "commit 8d3e0e0fa2c14be98d17b5a0d2f6c1e07a9b3c44, run 3f2504e0-4f89-41d3-9a0c-0305e82c3301\n"


class Order:
    def __init__(self, number: int) -> None:
        self.number = number
        self.key = f"order-{number}"
        self.lines = [{"price": number}]


def fitted_models() -> list[object]:
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.pipeline import make_pipeline

    texts = [" ".join(random.Random(n).choices(WORDS, k=9)) for n in range(40)]
    forest = RandomForestClassifier(30).fit(np.arange(80).reshape(40, 2), [n % 2 for n in range(40)])
    return [forest, make_pipeline(CountVectorizer(), RandomForestClassifier(3)).fit(texts, [n % 2 for n in range(40)])]


def pages_of_an_api(count: int) -> list[dict[str, Any]]:
    return [
        {
            "id": n,
            "key": f"PROJECT-{n}",
            "author": {"login": f"user{n}", "url": f"https://api.example.org/users/{n}", "token": None},
            "labels": [{"name": "bug", "key": "kind/bug"}],
            "usage": {"prompt_tokens": n, "total_tokens": n + 7},
        }
        for n in range(count)
    ]


DATA: dict[str, Callable[[], object]] = {
    "records": lambda: [{"id": n, "name": str(n), "parts": [n]} for n in range(MANY)],
    "records of words": lambda: [{"token": WORDS[n % 5], "pos": "NOUN", "key": n} for n in range(MANY)],
    "pages of an API": lambda: pages_of_an_api(ITEMS),
    "tokens of documents": lambda: {"tokens": [[*WORDS] * 4 for _ in range(2 * ITEMS)]},
    "a vocabulary": lambda: {
        "token2id": {f"word{n}": n for n in range(MANY)},
        "keys": [f"word{n}" for n in range(MANY)],
    },
    "numbers by key": lambda: {"keys": list(range(MANY)), "salt": [0.5] * MANY, "session": {n: n for n in range(MANY)}},
    "groups": lambda: {f"k{n}": [n, n] for n in range(MANY)},
    "pairs": lambda: [(f"a{n}", n) for n in range(MANY)],
    "objects": lambda: [Order(n) for n in range(ITEMS)],
    "uuids": lambda: [{"id": str(uuid.UUID(int=n << 90)), "run_id": str(uuid.UUID(int=n))} for n in range(ITEMS)],
    "a frame": lambda: pd.DataFrame(
        {
            "key": [f"k{n}" for n in range(ROWS + 1)],
            "token": [WORDS[n % 5] for n in range(ROWS + 1)],
            "session": range(ROWS + 1),
            "signature": [None] * (ROWS + 1),
            "text": [OUTPUT] * (ROWS + 1),
        }
    ),
    "frames by key": lambda: {f"day{n}": pd.DataFrame({"x": range(3)}) for n in range(2_000)},
    "an array": lambda: {"tokens": np.arange(MANY), "keys": np.array([*WORDS] * ITEMS)},
    "texts that look like secrets": lambda: [{"text": one} for n in range(50) for one in harmless.values(n)],
    "models": fitted_models,
}
SAMPLE = ("records", "pages of an API", "a frame")
"""What `make test` runs."""


@pytest.mark.requirement("permission.data.ordinary-data")
@pytest.mark.parametrize("data", [name if name in SAMPLE else further(name) for name in DATA])
def test_ordinary_data_withholds_nothing(data: str) -> None:
    namespace = {"data": DATA[data]()}
    values = SecretValues(lambda: namespace, names_secret=is_secret_name, holds_secret=holds_secret)
    redactor = Redactor(found=values, partly=values.partly_known)
    for _ in range(LOOKS):
        redactor.look()
    assert redactor.withholds is Extent.NOTHING
    assert redactor.news() == []
    assert redactor.output(ToolResult.text(OUTPUT)).parts == (TextPart(text=OUTPUT),)
