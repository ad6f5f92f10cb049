"""Runs in a kernel: what a trial run says of a snippet, and what the same snippet then really does.

What it really does is found in another way: all variables are written out before and after, and what Python itself
reports of files, sockets and programs is noted while it runs.
"""

import difflib
import functools
import io
import json
import marshal
import os
import pickle
import re
import shutil
import sys
import tempfile
import time
import tomllib
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
from IPython.core.getipython import get_ipython

from tests.sandbox.driver import Explorer
from vibe_jupyter.notebook.tools.foresight import CodeForesight
from vibe_jupyter.variables.describe import value_line
from vibe_jupyter.variables.effects import VariableEffects

_SNIPPETS: Final = tomllib.loads(Path(__file__).with_name("snippets.toml").read_text(encoding="utf-8"))
WORLD: Final[str] = _SNIPPETS["world"]
PLAIN: Final[list[str]] = _SNIPPETS["plain"]
MAY_DIFFER: Final[list[str]] = _SNIPPETS["may_differ"]
SAID_OF_EFFECTS: Final = "in a trial run: "
SAID_OF_ATTEMPTS: Final = "in a trial run it wanted to "
DEEDS: Final = {
    "open": ("write", "read"),
    "os.listdir": ("read",),
    "os.scandir": ("read",),
    "os.remove": ("delete",),
    "os.rmdir": ("delete",),
    "os.rename": ("rename",),
    "os.mkdir": ("make the folder",),
    "os.symlink": ("link to",),
    "os.truncate": ("cut",),
    "os.chmod": ("change the rights of",),
    "os.utime": ("change the time of",),
    "os.kill": ("send a signal to process",),
    "socket.__new__": ("use the network",),
    "subprocess.Popen": ("start a program",),
    "os.posix_spawn": ("start a program",),
    "os.system": ("start a program",),
    "os.fork": ("start a program",),
}
"""What of Python's own reports proves which words."""


_WITHOUT_REFERENCES: Final = 2
"""Format of marshal that does not depend on what else refers to a value."""
_OWN_PROCESS: Final = """import os, time, __main__
BEGAN = time.time()
IS_KERNEL = os.getpid() == __main__.KERNEL
"""
_LINK: Final = b"link to "
_SIMPLE: Final = (str, bytes, int, float, types.NoneType, tuple, type, types.FunctionType, types.ModuleType)


class _Writer(pickle.Pickler):
    """Writes a value out by its content: what other variables hold by their names, frames as tables."""

    def __init__(self, file: io.BytesIO, names: Mapping[int, str], itself: object) -> None:
        super().__init__(file)
        self._names, self._itself = names, itself

    def persistent_id(self, obj: object) -> str | None:
        return None if obj is self._itself else self._names.get(id(obj))

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, pd.DataFrame):
            about = obj.index.names, obj.columns.names, obj.attrs
            return str, (repr((list(obj), list(obj.dtypes), about, _sums(obj))),)
        if isinstance(obj, pd.Series):
            return str, (repr((obj.name, obj.dtype, _sums(obj))),)
        if isinstance(obj, types.FunctionType) and obj.__module__ == "__main__":
            return str, (repr((_of_code(obj.__code__), obj.__defaults__, vars(obj))),)
        if type(obj) is np.ndarray and not obj.flags.writeable:
            return str, (repr((obj.tobytes(), obj.dtype, obj.shape, "read-only")),)
        return NotImplemented


def _of_code(code: types.CodeType) -> bytes:
    """What it does, also the parts in it, wherever it was defined; the same whoever else refers to its constants."""
    parts = tuple(_of_code(one) if isinstance(one, types.CodeType) else one for one in code.co_consts)
    return marshal.dumps(code.replace(co_filename="", co_firstlineno=1, co_consts=parts), _WITHOUT_REFERENCES)


def _sums(table: Any) -> bytes:
    return pd.util.hash_pandas_object(table).to_numpy().tobytes()


def _written(names: Mapping[str, object], apart: Mapping[int, str]) -> dict[str, bytes]:
    """The values, with names in the place of the objects that are given apart."""
    content = {}
    for name, value in names.items():
        file = io.BytesIO()
        try:
            _Writer(file, apart, value).dump(value)
        except (TypeError, AttributeError, pickle.PicklingError):  # a connection, a generator: by how it looks
            file = io.BytesIO(value_line(value).encode())
        content[name] = file.getvalue()
    return content


class SnippetTrials:
    """One for a kernel."""

    def __init__(self) -> None:
        self._shell: Any = get_ipython()
        self._project = Path(os.path.realpath(tempfile.mkdtemp(prefix="snippets-")))
        self._outside = Path(os.path.realpath(tempfile.mkdtemp(prefix="outside-")))
        (self._outside / "private.csv").write_text("x\n1\n", encoding="utf-8")
        os.environ["SNIPPETS_API_TOKEN"] = "snippets-token"
        os.environ["OUTSIDE"] = str(self._outside)
        self._explorer = Explorer(self._shell, self._project)
        self._foresight = CodeForesight(self._explorer.exploration, lambda: VariableEffects(self._names), self._names)
        self._own = {*self._shell.user_ns, "__builtins__"}
        self._deeds: set[tuple[str, str]] | None = None
        sys.addaudithook(self._hear)

    def trial(self, code: str) -> dict[str, Any]:
        """What was said of it, within how many seconds, and what is wrong with that."""
        self._set_up()
        began = time.monotonic()
        said = self._explorer.wait(lambda context: self._foresight.words(code, context))
        seconds = time.monotonic() - began
        wrong = self._wrong(code, said) if said else []
        return {"said": said, "seconds": round(seconds, 3), "wrong": wrong}

    def _names(self) -> dict[str, object]:
        found: Mapping[str, object] = self._shell.user_ns
        return {name: found[name] for name in found if name not in self._own and not name.startswith("_")}

    def _set_up(self) -> None:
        for name in self._names():
            del self._shell.user_ns[name]
        for entry in os.scandir(self._project):
            shutil.rmtree(entry.path) if entry.is_dir() else os.remove(entry.path)
        os.chdir(self._project)
        (self._project / "data.csv").write_text("x,y\n1,a\n2,b\n3,\n", encoding="utf-8")
        (self._project / ".env").write_text("KEY=1\n", encoding="utf-8")
        (self._project / "helpers.py").write_text("import os\ndef doubled(x):\n    return 2 * x\n", encoding="utf-8")
        (self._project / "own_process.py").write_text(_OWN_PROCESS, encoding="utf-8")
        (self._project / "old").mkdir()
        (self._project / "old" / "notes.txt").write_text("notes\n", encoding="utf-8")
        for name in ("helpers", "own_process"):
            sys.modules.pop(name, None)
        assert self._shell.run_cell(WORLD, store_history=False).success

    def _wrong(self, code: str, said: str) -> list[str]:
        """What of the words the run in the kernel does not bear out."""
        before = self._names()
        apart = {id(value): name for name, value in before.items() if not isinstance(value, _SIMPLE)}
        lines = {name: value_line(value) for name, value in before.items()}
        frames = {name: _frame_facts(value) for name, value in before.items() if isinstance(value, pd.DataFrame)}
        alone, with_parts = _written(before, apart), _written(before, {})
        files, self._deeds = self._files(), set()
        self._explorer.in_kernel(code, keep=True)
        outcome = self._shell.last_execution_result
        deeds, self._deeds = self._deeds, None
        if said.startswith(SAID_OF_ATTEMPTS):
            return _undone(said.removeprefix(SAID_OF_ATTEMPTS), deeds, code)
        said, wrong = _without_files(said.removeprefix(SAID_OF_EFFECTS), files, self._files())
        after = self._names()
        alone_now, with_parts_now = _written(after, apart), _written(after, {})
        also: list[str] = []
        real = [f"{name}: removed" for name in before if name not in after]
        for name, value in after.items():
            line = value_line(value)
            if isinstance(value, type) and value is before.get(name):
                also.append(f"{name}: changed, {line}")  # whether its attributes changed is not written out
            elif name not in before:
                new = f"pandas DataFrame {_extent(value)}" if isinstance(value, pd.DataFrame) else line
                real += [] if isinstance(value, types.ModuleType) else [f"{name}: new, {new}"]
            elif value is not before[name] or with_parts_now[name] != with_parts[name]:
                whole = value is not before[name] or alone_now[name] != alone[name]
                told = f"{name}: changed, {line}" if line == lines[name] else f"{name}: {lines[name]} → {line}"
                if name in frames and isinstance(value, pd.DataFrame):
                    told = f"{name}: {_frame_change(frames[name], value)}"
                if with_parts_now[name] == with_parts[name]:
                    size = f" ({_extent(value)})" if name in frames else ""
                    told = f"{name}: set again, {line}" if _is_bound_to_class(value) else f"{name} unchanged{size}"
                (real if whole else also).append(told)
            else:
                also.append(f"{name} unchanged")  # it was given what it held
        error = outcome.error_before_exec or outcome.error_in_exec
        real += [f"raises {type(error).__name__}"] if error is not None else []
        return [*wrong, *_differences(said, real, also)]

    def _files(self) -> dict[str, bytes]:
        """What is in the folder, but for what Python writes by habit; of a folder that is empty nothing."""
        found = {}
        for path in self._project.rglob("*"):
            name = str(path.relative_to(self._project))
            if "__pycache__" in name:
                continue
            if path.is_symlink():
                found[name] = _LINK + os.readlink(path).encode()
            elif path.is_file():
                found[name] = path.read_bytes()
            elif not any(path.iterdir()):
                found[f"{name}/"] = b""
        return found

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self._deeds is not None and event in DEEDS:
            target = os.fsdecode(arguments[0]) if isinstance(arguments[0], bytes) else str(arguments[0])
            self._deeds.update((deed, target) for deed in DEEDS[event])


def _is_bound_to_class(value: object) -> bool:
    """Return whether the value is of a class that the snippet may have made again, or is one."""
    return isinstance(value, type)


def _extent(frame: pd.DataFrame) -> str:
    return f"{len(frame):,} × {len(frame.columns):,}"


def _frame_facts(frame: pd.DataFrame) -> tuple[int, dict[str, str]]:
    return len(frame), {str(label): str(kind) for label, kind in frame.dtypes.items()}


def _frame_change(before: tuple[int, dict[str, str]], frame: pd.DataFrame) -> str:
    """As the card would have to say it, of frames with at most three columns that come, go or get another type."""
    (rows, old), (rows_now, now) = before, _frame_facts(frame)
    parts = [f"{rows:,} → {rows_now:,} rows"] if rows != rows_now else []
    for labels, what in (([a for a in now if a not in old], "added"), ([a for a in old if a not in now], "removed")):
        assert len(labels) <= 3
        parts += [f"column{'s' * (len(labels) > 1)} {', '.join(labels)} {what}"] if labels else []
    other = [f"{label} {old[label]} → {now[label]}" for label in now if old.get(label, now[label]) != now[label]]
    assert len(other) <= 3
    return ", ".join([*parts, *other]) or f"changed, pandas DataFrame {_extent(frame)}"


def _differences(said: str, real: list[str], also: list[str]) -> list[str]:
    rest, missing = said, []
    for line in sorted((*real, *also), key=len, reverse=True):
        if line in rest:
            rest = rest.replace(line, "", 1)
        elif line in real:
            missing.append(f"not said: {line}")
    left = [part for part in map(str.strip, rest.split(";")) if part]
    if left and left[-1].startswith("and ") and left[-1].endswith(" more"):
        more = int(left.pop().split()[1])
        missing = missing[more:]
    uncertain = (
        left.pop().removesuffix(": not compared").split(", ") if left and left[-1].endswith(": not compared") else []
    )
    missing = [line for line in missing if line.removeprefix("not said: ").partition(":")[0] not in uncertain]
    return [*missing, *(f"did not come: {part}" for part in left)]


def _without_files(said: str, before: Mapping[str, bytes], after: Mapping[str, bytes]) -> tuple[str, list[str]]:
    """The words without those of files, and what is wrong with these."""
    told, rest = re.match(r"(?:would (.*?)(?:; |$))?(.*)", said, re.DOTALL).groups()  # pyright: ignore[reportOptionalMemberAccess]
    deeds = re.split(r", (?=write |change |delete |make |link )", told) if told else []
    real = {f"write {name}" for name in after if name not in before and after[name]}
    links = {f"link {name}" for name in after if after[name].startswith(_LINK) and after[name] != before.get(name)}
    real = {deed for deed in real if f"link {deed.removeprefix('write ')}" not in links} | links
    real |= {f"change {name}" for name in after if name in before and after[name] != before[name]}
    gone = {name for name in before if name not in after}
    gone |= {name for name in before if f"link {name}" in links and not before[name].startswith(_LINK)}
    real -= {f"change {name}" for name in gone}
    wrong: list[str] = []
    for deed in deeds:
        what, _, extent = deed.partition(" (")
        name = what.removeprefix("write ").removeprefix("change ")
        if what.startswith("delete the folder "):
            inside = {one for one in gone if one.startswith(f"{what.removeprefix('delete the folder ')}/")}
            wrong += [] if inside else [f"did not {what}"]
            gone -= inside
        elif what.startswith("delete "):
            wrong += [] if what.removeprefix("delete ") in gone else [f"did not {what}"]
            gone.discard(what.removeprefix("delete "))
        elif what.startswith("make the folder "):
            wrong += [] if f"{what.removeprefix('make the folder ')}/" in after else [f"did not {what}"]
        elif what in links:
            real.discard(what)
        elif what in real or (what.startswith("write ") and after.get(name) == b"" and name not in before):
            real.discard(what)
            wrong += _wrong_extent(extent.removesuffix(")"), before.get(name, b""), after[name], what)
        else:
            wrong.append(f"did not {what}")
    return rest, [*wrong, *(f"not said: {deed}" for deed in (*sorted(real), *(f"delete {name}" for name in gone)))]


def _wrong_extent(extent: str, before: bytes, after: bytes, what: str) -> list[str]:
    size, _, lines = extent.partition(", ")
    if "byte" in size and int(size.split()[0]) != len(after):
        return [f"{what}: {extent}, {len(after)} bytes in fact"]
    if lines and int(lines.split()[0].replace(",", "")) != len(after.splitlines()):
        return [f"{what}: {extent}, {len(after.splitlines())} lines in fact"]
    if size[0] in "+−":
        different = list(difflib.ndiff(before.decode().splitlines(), after.decode().splitlines()))
        counts = [sum(one.startswith(sign) for one in different) for sign in "+-"]
        told = [int(found[1]) if (found := re.search(rf"{re.escape(sign)}(\d+)", size)) else 0 for sign in "+−"]
        return [] if told == counts else [f"{what}: {extent}, {counts} in fact"]
    return []


def _undone(said: str, deeds: set[tuple[str, str]], code: str) -> list[str]:
    if said.startswith("read the environment variable "):
        happened = said.rpartition(" ")[2] in code
    else:
        in_folder = os.path.basename(said.rpartition(" ")[2])
        happened = any(
            said in (deed, f"{deed} {target}") or (said.startswith(f"{deed} ") and in_folder == target)
            for deed, target in deeds
        )
    return [] if happened else [f"did not want to {said}"]


trials = functools.cache(SnippetTrials)


def report(code: str) -> None:
    """Print what came of it."""
    print(json.dumps(trials().trial(code)))
