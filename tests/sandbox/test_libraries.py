"""Libraries that data scientists use work in a copy of the kernel, after they worked in the kernel itself."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kernel.matrix import INSTALLED, Target, python_with_libraries
from tests.kernel.wire import Wire, running_kernel
from tests.tiers import further
from vibe_jupyter.sandbox.availability import machine_refusal

pytestmark = pytest.mark.skipif(bool(machine_refusal()), reason="no sandbox on this machine")

WORLD = """
import os
os.environ.setdefault('OMP_NUM_THREADS', '2')
from tests.sandbox.escape_world import *
import numpy as np, pandas as pd
rng = np.random.default_rng(0)
X = rng.normal(size=(400, 4)); y = X @ np.array([1.0, 2.0, 3.0, 4.0]); labels = (y > 0).astype(int)
frame = pd.DataFrame(X, columns=list('abcd')).assign(group=['u', 'v'] * 200)
"""
LIBRARIES = {
    "numpy": ("np.linalg.solve(X.T @ X, X.T @ y).round(6).tolist()", "[1.0, 2.0, 3.0, 4.0]"),
    "pandas": ("frame.groupby('group').a.count().to_dict()", "{'u': 200, 'v': 200}"),
    "pyarrow": ("import pyarrow as pa, pyarrow.compute as pc; pc.sum(pa.array([1, 2, 3])).as_py()", "6"),
    "scipy": ("from scipy import optimize; round(optimize.brentq(lambda x: x * x - 2, 0, 2), 6)", "1.414214"),
    "scikit-learn": (
        "from sklearn.ensemble import RandomForestClassifier\n"
        "RandomForestClassifier(20, n_jobs=2, random_state=0).fit(X, labels).predict(X[:3]).shape",
        "(3,)",
    ),
    "matplotlib": ("import matplotlib.pyplot as plt; plt.plot([1, 2])[0].get_ydata().tolist()", "[1, 2]"),
    "seaborn": ("import seaborn as sns; sns.scatterplot(frame, x='a', y='b', hue='group').get_xlabel()", "'a'"),
    "plotly": ("import plotly.express as px; len(px.scatter(frame, x='a', y='b').data[0].x)", "400"),
    "duckdb": (
        "import duckdb; duckdb.sql('select count(*) from frame').fetchall()[0]",
        "(400,)",
    ),
    "sqlite3": (
        "import sqlite3; c = sqlite3.connect(':memory:'); frame.to_sql('t', c)\n"
        "c.execute('select count(*) from t').fetchone()",
        "(400,)",
    ),
}
NEW = ("pyarrow", "duckdb")
USED = ("pandas", "pyarrow", "scikit-learn", "matplotlib", "duckdb", "sqlite3")
"""Of each kind one: threads of its own, loops of several threads, a window, files. Drawing for the first time is in
test_exploring_runs.py."""
COMPILED = {
    "statsmodels": (
        "import statsmodels.api as sm; sm.OLS(y, X).fit().params.round(6).tolist()",
        "[1.0, 2.0, 3.0, 4.0]",
    ),
    "lightgbm": (
        "import lightgbm; lightgbm.LGBMClassifier(n_estimators=5, verbose=-1).fit(X, labels).predict(X[:3]).shape",
        "(3,)",
    ),
    "xgboost": (
        "import xgboost; xgboost.XGBClassifier(n_estimators=5).fit(X, labels).predict(X[:3]).shape",
        "(3,)",
    ),
    "numba": ("import numba; numba.njit(lambda x: x + 1)(2)", "3"),
}


def world_in(wire: Wire) -> Wire:
    wire.run(WORLD)
    return wire


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wire]:
    with running_kernel(INSTALLED, tmp_path_factory.mktemp("libraries")) as wire:
        yield world_in(wire)


@pytest.fixture(scope="module")
def kernel_with_more(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wire]:
    with running_kernel(
        Target("compiled", python_with_libraries("compiled")), tmp_path_factory.mktemp("compiled")
    ) as wire:
        yield world_in(wire)


@pytest.mark.parametrize("name", [name if name in NEW else further(name) for name in LIBRARIES])
def test_a_library_that_the_kernel_has_not_imported_works_in_a_copy(kernel: Wire, name: str) -> None:
    works_in_copy(kernel, *LIBRARIES[name])


@pytest.mark.parametrize("name", [name if name in USED else further(name) for name in LIBRARIES])
def test_a_library_works_in_a_copy_after_it_worked_in_the_kernel(kernel: Wire, name: str) -> None:
    kernel.run(LIBRARIES[name][0])
    works_in_copy(kernel, *LIBRARIES[name])


@pytest.mark.matrix
@pytest.mark.parametrize("name", COMPILED)
def test_a_compiled_library_works_in_a_copy_too(kernel_with_more: Wire, name: str) -> None:
    works_before_and_after(kernel_with_more, *COMPILED[name])


@pytest.mark.matrix
def test_torch_works_in_a_copy_too(tmp_path: Path) -> None:
    with running_kernel(Target("torch", python_with_libraries("torch")), tmp_path) as wire:
        wire.run("import torch")  # one for CUDA starts gcc at its import, which a copy may not
        works_before_and_after(
            world_in(wire), "import torch; torch.nn.Linear(4, 2)(torch.ones(3, 4)).shape[1] + 40", "42"
        )


def works_in_copy(kernel: Wire, code: str, result: str) -> None:
    said = kernel.run(f"print(explore({code!r}, 30))").text
    assert said.startswith("ok"), said
    assert result in said


def works_before_and_after(kernel: Wire, code: str, result: str) -> None:
    works_in_copy(kernel, code, result)
    kernel.run(code)
    works_in_copy(kernel, code, result)
