"""Runs in a kernel: its state as texts, for the question whether code that ran in a copy left anything behind."""

import ctypes
import decimal
import functools
import gc
import hashlib
import inspect
import io
import json
import locale
import logging
import os
import pickle
import random
import signal
import sqlite3
import sys
import tempfile
import threading
import time
import tomllib
import types
import warnings
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from IPython.core.getipython import get_ipython

_DATA: Final = tomllib.loads(Path(__file__).with_name("without_keep.toml").read_text(encoding="utf-8"))
WORLD: Final[str] = _DATA["world"]
CHANGES: Final[list[str]] = _DATA["changes"]
_WATCHED: Final = ("builtins", "colorsys", "json", "math", "numpy", "os", "pandas", "random", "sqlite3", "string")
"""Modules of which each attribute is compared."""
_CLASSES: Final = (pd.DataFrame, pd.Series, np.ndarray, dict)
_VARIABLE: Final = "CHANGED_TOO"
"""What one of the pieces puts into the environment behind `os.environ`."""
_known: dict[str, frozenset[str]] = {}
"""The modules of the first look: later ones may be added, as by the agent itself, and none be gone."""


def state() -> dict[str, str]:
    """Describe everything that a piece of code may change, by a name for each part."""
    shell: Any = get_ipython()
    names = {
        name: value
        for name, value in shell.user_ns.items()
        if not name.startswith("_") and name not in ("In", "Out", "exit", "quit", "get_ipython", "open")
    }
    return {
        **{f"variable {name}": f"{id(value)} {_content(value)}" for name, value in names.items()},
        "names": " ".join(sorted(names)),
        **_interpreter(),
        **_process(),
        **_shell(shell),
        **_libraries(),
    }


def report() -> None:
    """Print the state as JSON."""
    print(json.dumps(state()))


def _interpreter() -> dict[str, str]:
    known = _known.setdefault("modules", frozenset(sys.modules))
    return {
        "modules gone": str(sorted(known - sys.modules.keys())),
        "planted": str("planted" in sys.modules),
        "attributes": _digest(_attributes(name) for name in _WATCHED if name in sys.modules),
        "classes": _digest(sorted((name, id(value)) for name, value in vars(one).items()) for one in _CLASSES),
        "sys": str((sys.path, sys.argv, sys.getrecursionlimit(), sys.getswitchinterval(), sys.gettrace())),
        "hooks": str([_identity(one) for one in (sys.excepthook, sys.displayhook, sys.stdout, *sys.meta_path)]),
        "gc": str((gc.isenabled(), gc.get_threshold())),
        "warnings": str(warnings.filters),
        "logging": str((logging.root.manager.disable, logging.root.level, logging.root.handlers)),
        "log": str((logging.getLogger("analysis").level, logging.getLogger("analysis").handlers)),
        "decimal": str(decimal.getcontext()),
        "random": _digest([random.getstate(), np.random.get_state()]),
    }


def _identity(value: object) -> str:
    """Return what tells an object from others; a bound method is made anew each time."""
    return f"{id(getattr(value, '__self__', None))} {id(getattr(value, '__func__', value))}"


def _attributes(module: str) -> list[tuple[str, str]]:
    return sorted((name, _identity(value)) for name, value in vars(sys.modules[module]).items() if name[:2] != "__")


def _process() -> dict[str, str]:
    libc = ctypes.CDLL(None)
    libc.getenv.restype = ctypes.c_char_p
    mask = os.umask(0o22)
    os.umask(mask)
    folder = Path(os.environ.get("VIBE_TEST_FOLDER", "."))
    files = {
        path.name: path.stat().st_size for path in folder.iterdir() if path.suffix == ".csv" or path.name == "made"
    }
    signals = [str(signal.getsignal(one)) for one in (signal.SIGUSR1, signal.SIGINT)]
    return {
        "environment": str(sorted(os.environ.items())),
        "libc": str(libc.getenv(_VARIABLE.encode())),
        "process": str((os.getcwd(), mask, signals, time.tzname, locale.setlocale(locale.LC_ALL))),
        "files": str(sorted(files.items())),
        "tempdir": str(tempfile.tempdir),
    }


def _shell(shell: Any) -> dict[str, str]:
    html = shell.display_formatter.formatters["text/html"]
    plain = shell.display_formatter.formatters["text/plain"]
    return {
        "history": str((99 in shell.user_ns["Out"], "x" in shell.user_ns["In"], shell.user_ns.get("_") == 5)),
        "events": str({name: [_identity(one) for one in found] for name, found in shell.events.callbacks.items()}),
        "transformers": str(len(shell.input_transformers_cleanup)),
        "formatters": str((sorted(map(str, html.type_printers)), plain.float_precision)),
        "magics": _digest(sorted(one) for one in shell.magics_manager.magics.values()),
        "options": str((shell.ast_node_interactivity, shell.automagic, shell.call_pdb, shell.InteractiveTB.mode)),
        "colors": str(shell.colors),
        "inline": str(shell.config.get("InlineBackend")),
    }


def _libraries() -> dict[str, str]:
    options = [str(pd.get_option(name)) for name in ("display.max_rows", "display.precision")]
    return {
        "pandas": str(options),
        "numpy": str((np.get_printoptions(), np.geterr())),
        "matplotlib": _digest([dict(mpl.rcParams), plt.get_fignums()]),
    }


def _digest(value: object) -> str:
    listed = list(value) if isinstance(value, types.GeneratorType) else value
    return hashlib.sha256(repr(listed).encode()).hexdigest()[:12]


def _content(value: Any) -> str:
    """Return the content of a variable, without ids that differ between two equal looks."""
    known = _of_special_kind(value)
    if known is not None:
        return known
    if isinstance(value, types.ModuleType):
        return str(getattr(value, "answer", ""))
    if isinstance(value, pd.DataFrame | pd.Series):
        flags = (value.attrs, value.flags.allows_duplicate_labels, getattr(value.index, "freq", None))
        return _digest(
            [value.to_dict(), list(value.index), value.index.names, flags, str(getattr(value, "dtypes", ""))]
        )
    if isinstance(value, np.ndarray):
        return _digest([value.tolist(), value.shape, value.flags.writeable, str(getattr(value, "mask", ""))])
    if isinstance(value, type):
        return _digest(sorted((name, id(one)) for name, one in vars(value).items()))
    try:
        return _digest(pickle.dumps(value))
    except (TypeError, AttributeError, pickle.PicklingError):
        return type(value).__name__


def _of_special_kind(value: Any) -> str | None:
    match value:
        case types.FunctionType():
            inside = [cell.cell_contents for cell in value.__closure__ or ()]
            return repr((value.__defaults__, vars(value), hash(value.__code__), [str(one) for one in inside]))
        case functools._lru_cache_wrapper():  # pyright: ignore[reportPrivateUsage]
            return str(value.cache_info())
        case types.GeneratorType():
            return inspect.getgeneratorstate(value)
        case sqlite3.Connection():
            return _of_connection(value)
        case io.TextIOWrapper():
            return "closed" if value.closed else f"{value.tell()} {os.lseek(value.fileno(), 0, os.SEEK_CUR)}"
        case io.BytesIO() | io.StringIO():
            return f"{value.getvalue()!r} {value.tell()}"
        case threading.Event() | threading.local() | ContextVar():
            return _of_thread(value)
        case plt.Figure() | plt.Axes():
            return _of_drawing(value)
        case _:
            bytes_of = (
                getattr(value, "tobytes", None) if isinstance(value, memoryview) else getattr(value, "locked", None)
            )
            return None if bytes_of is None else str(bytes_of())


def _of_thread(value: Any) -> str:
    if isinstance(value, threading.local):
        return str(vars(value))
    return str(value.get() if isinstance(value, ContextVar) else value.is_set())


def _of_connection(connection: sqlite3.Connection) -> str:
    try:
        return str((list(connection.iterdump()), connection.total_changes, connection.row_factory))
    except sqlite3.Error as error:
        return str(error)


def _of_drawing(drawing: Any) -> str:
    figure = drawing if isinstance(drawing, plt.Figure) else drawing.figure
    parts = [(one.get_title(), len(one.get_lines())) for one in figure.axes]
    return str((list(figure.get_size_inches()), parts))
