"""Run the tests on mutations of the package: `python -m tests.mutations [--chosen] [--drawn] [--only TEXT] …`.

The tree is copied, once for each job. The tests that are needed pass there unchanged first. Then each mutation is put
into a copy; it is killed where a test fails with it, fails with it again alone, and passes alone without it.
"""

import argparse
import hashlib
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.mutations.chosen import PACKAGE, ROOT, Mutation, chosen_mutations
from tests.mutations.drawn import COUNT, SEED, drawn_mutations
from tests.mutations.outcomes import FILE

WANTED = 0.95
"""Share of the mutations that are not equivalent to be killed, of each kind."""
TEST_TIMEOUT = 60
"""Seconds of one test; a test that takes this long is one that hangs, if it takes less than a third of it unchanged."""
RUN_TIMEOUT = 2400
"""Seconds of all tests of one stage."""
RESULTS = ROOT / "artifacts" / "mutations.jsonl"
_DEVICE = 0o666
"""Mode of /dev/null."""
_LINKED = (".venv", ".matrix", "labextension/node_modules")
_PLUGINS = (
    "pytest_asyncio.plugin",
    "pytest_timeout",
    "xdist.plugin",
    "pytest_rerunfailures",
    "tests.mutations.outcomes",
)
"""All that the tests need; the others take longer to load than most runs."""
_LEFT_OUT = shutil.ignore_patterns(
    *(".git", ".venv", ".matrix", "node_modules", "__pycache__", "site", "artifacts", "build", "dist"),
    *(".pytest_cache", ".ruff_cache", ".hypothesis", ".import_linter_cache"),
)


@dataclass(frozen=True)
class Verdict:
    """What came of one mutation."""

    name: str
    kind: str
    state: str
    """`killed`, `survived`, `unsure` (no test failed twice), or `equivalent`."""
    by: str = ""
    """The test that failed, or why it is equivalent."""
    digest: str = ""


class Copy:
    """A copy of the tree in which one mutation stands at a time."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._clock = int(time.time())
        shutil.copytree(ROOT, root, ignore=_LEFT_OUT, symlinks=True)
        for name in _LINKED:
            if (ROOT / name).exists():
                (root / name).symlink_to((ROOT / name).resolve())
        ours = self._start([sys.executable, "-c", f"import {PACKAGE}; print({PACKAGE}.__file__)"], {})
        said = ours.communicate(timeout=60)[0].decode().strip()
        assert said.startswith(f"{root}{os.sep}"), f"the copy's own code is not imported, but {said}"

    def write(self, file: str, source: str) -> None:
        """Put this source in the place of a file, at a time of its own: Python compiles it anew."""
        path = self._root / PACKAGE / file
        path.write_text(source, encoding="utf-8")
        self._clock += 10
        os.utime(path, (self._clock, self._clock))
        for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
            compiled.unlink(missing_ok=True)

    @contextmanager
    def with_mutation(self, mutation: Mutation) -> Generator[None]:
        source = (ROOT / PACKAGE / mutation.file).read_text(encoding="utf-8")
        self.write(mutation.file, mutation.applied(source))
        try:
            yield
        finally:
            self.write(mutation.file, source)
            if os.geteuid() == 0:  # without a part of the sandbox, what tests try to break out of it comes true
                os.chmod(os.devnull, _DEVICE)

    def run(self, tests: Sequence[str], *more: str) -> dict[str, tuple[str, float]]:
        """How each test ended, and its seconds; where nobody says it, the first file stands for all of them."""
        with tempfile.NamedTemporaryFile(suffix=".jsonl") as out:
            options = ["-q", "-p", "no:cacheprovider", "-o", f"timeout={TEST_TIMEOUT}"]
            options += [word for name in _PLUGINS for word in ("-p", name)]
            if any("::" in name for name in tests):
                options += ["-m", ""]  # a test that is named itself may be one of `make test-matrix`
            command = [sys.executable, "-m", "pytest", *options, *more, *tests]
            process = self._start(command, {FILE: out.name, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"})
            try:
                code = process.wait(RUN_TIMEOUT)
            except subprocess.TimeoutExpired:
                code = None
            finally:
                _end_group(process)
            lines = [json.loads(line) for line in Path(out.name).read_text(encoding="utf-8").splitlines()]
        ended = {name: (outcome, seconds) for name, outcome, seconds in lines}
        if code is None:
            ended[tests[0]] = ("not done", float(RUN_TIMEOUT))
        elif code not in (0, 5) and not _failed(ended):
            ended[tests[0]] = ("failed", 0.0)
        return ended

    def _start(self, command: Sequence[str], more: dict[str, str]) -> "subprocess.Popen[bytes]":
        environ = {**os.environ, "PYTHONPATH": str(self._root), **more}
        return subprocess.Popen(
            command,
            cwd=self._root,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if command[1] == "-c" else subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )


def judge(mutation: Mutation, kind: str, copy: Copy, killer: str = "") -> Verdict:
    """Run the test that killed it before, if one did, then its tests stage by stage, until one kills it."""
    digest = _digest(mutation)
    if killer and _noticed(mutation, [killer], copy)[1]:
        return Verdict(mutation.name, kind, "killed", killer, digest)
    unsure = ""
    for stage in mutation.tests:
        by, kills = _noticed(mutation, stage, copy)
        if kills:
            return Verdict(mutation.name, kind, "killed", by, digest)
        unsure = by or unsure
    return Verdict(mutation.name, kind, "unsure" if unsure else "survived", unsure, digest)


def _noticed(mutation: Mutation, tests: Sequence[str], copy: Copy) -> tuple[str, bool]:
    """What spoke against the mutation, empty if nothing did, and whether it is a test that kills it."""
    with copy.with_mutation(mutation):
        ended = copy.run(tests, "-x", "-n", "0")
        failed = _failed(ended)
        again = _failed(copy.run(failed[:1], "-n", "0")) if failed else []
    if not failed:
        return "the time was up" if "not done" in dict(ended.values()) else "", False
    return failed[0], bool(again) and _passes_alone(failed[0], ended[failed[0]][1], copy)


def _passes_alone(test: str, seconds: float, copy: Copy) -> bool:
    """Whether a test passes without the mutation, and far sooner if it hung with it for so many seconds."""
    alone = copy.run([test], "-n", "0")
    slowest = max((took for _, took in alone.values()), default=0.0)
    return bool(alone) and not _failed(alone) and (seconds < TEST_TIMEOUT or slowest < TEST_TIMEOUT / 3)


def check_baseline(mutations: Sequence[Mutation], copy: Copy, jobs: int) -> list[str]:
    """The tests of the first stages that fail without any mutation, also alone."""
    needed = sorted({name for mutation in mutations for name in mutation.tests[0]})
    print(f"{len(needed)} files and folders of tests, unchanged …", flush=True)
    failed = _failed(copy.run(needed, "-n", str(jobs), "--dist", "loadgroup", "--no-loadscope-reorder"))
    return [name for name in failed if _failed(copy.run([name.partition("@")[0]], "-n", "0"))]


def _failed(ended: dict[str, tuple[str, float]]) -> list[str]:
    return [name for name, (outcome, _) in ended.items() if outcome == "failed"]


def _end_group(process: "subprocess.Popen[bytes]") -> None:
    """End a run with all that it started and did not end."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    finally:
        process.wait()


def _digest(mutation: Mutation) -> str:
    """Of the code and the tests that a verdict is about."""
    whole = hashlib.sha256(f"{mutation.name} {mutation.place}".encode())
    whole.update((ROOT / PACKAGE / mutation.file).read_bytes())
    for name in (name for stage in mutation.tests for name in stage):
        path = ROOT / name.partition("::")[0]
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            whole.update(file.read_bytes())
    return whole.hexdigest()


def run_all(mutations: Sequence[tuple[str, Mutation]], *, jobs: int, results: Path, baseline: bool) -> list[Verdict]:
    """The verdict on each; those known for this very code are read from `results`, new ones are added.

    Where code or tests changed since, the test that killed a mutation before is run first.
    """
    before = _read_results(results)
    known = {one.digest: one for one in before if one.state != "unsure"}
    killers = {one.name: one.by for one in before if one.state == "killed"}
    done = [
        Verdict(one.name, kind, "equivalent", one.equivalent) if one.equivalent else known[_digest(one)]
        for kind, one in mutations
        if one.equivalent or _digest(one) in known
    ]
    left = [(kind, one) for kind, one in mutations if not one.equivalent and _digest(one) not in known]
    left.sort(key=lambda task: task[1].name in killers)
    if not left:
        return done
    with tempfile.TemporaryDirectory(prefix="mutations-") as folder:
        copies: queue.SimpleQueue[Copy] = queue.SimpleQueue()
        first = Copy(Path(folder).resolve() / "0")
        if baseline and (broken := check_baseline([one for _, one in left], first, jobs)):
            sys.exit(f"These tests fail without any mutation: {', '.join(broken)}")
        for copy in (first, *(Copy(Path(folder).resolve() / str(number)) for number in range(1, jobs))):
            copies.put(copy)
        writing = threading.Lock()

        def judge_one(task: tuple[str, Mutation]) -> Verdict:
            copy = copies.get()
            try:
                verdict = judge(task[1], task[0], copy, killers.get(task[1].name, ""))
            finally:
                copies.put(copy)
            with writing:
                print(f"{verdict.state:10} {verdict.name[:110]} | {verdict.by[:120]}", flush=True)
                results.parent.mkdir(exist_ok=True)
                with results.open("a", encoding="utf-8") as out:
                    out.write(json.dumps(vars(verdict)) + "\n")
            return verdict

        with ThreadPoolExecutor(jobs) as pool:
            return [*done, *pool.map(judge_one, left)]


def _read_results(path: Path) -> list[Verdict]:
    if not path.exists():
        return []
    return [Verdict(**json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]


def report(verdicts: Sequence[Verdict]) -> bool:
    """Print what is left and the shares; whether enough was killed."""
    enough = True
    lines: list[str] = []
    for kind in ("chosen", "drawn"):
        ours = [one for one in verdicts if one.kind == kind]
        if not ours:
            continue
        count = {
            state: sum(one.state == state for one in ours) for state in ("killed", "survived", "unsure", "equivalent")
        }
        able = len(ours) - count["equivalent"]
        share = count["killed"] / able if able else 1.0
        enough = enough and share >= WANTED
        lines.append(f"{kind}: {count['killed']} of {able} killed ({share:.1%}), {count['equivalent']} equivalent")
        for one in ours:
            if one.state != "killed":
                print(f"{kind:7} {one.state:10} {one.name}\n{'':18} {one.by}")
    print("; ".join(lines))
    return enough


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutations", description=__doc__)
    parser.add_argument("--chosen", action="store_true", help="those of chosen.toml alone")
    parser.add_argument("--drawn", action="store_true", help="those drawn by the seed alone")
    parser.add_argument("--only", default="", help="those with this text in their file or code alone")
    parser.add_argument("--jobs", type=int, default=2, help="mutations at a time")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--count", type=int, default=COUNT)
    parser.add_argument("--results", type=Path, default=RESULTS, help="verdicts known so far; new ones are added")
    parser.add_argument("--no-baseline", action="store_true", help="do not run the tests unchanged first")
    parser.add_argument("--list", action="store_true", help="say which, and run nothing")
    given = parser.parse_args()
    both = given.chosen == given.drawn
    mutations = [("chosen", one) for one in (chosen_mutations() if both or given.chosen else [])]
    mutations += [("drawn", one) for one in (drawn_mutations(given.seed, given.count) if both or given.drawn else [])]
    mutations = [(kind, one) for kind, one in mutations if given.only in one.name]
    if given.list:
        print("\n".join(f"{kind:7} {one.name}  ({one.breaks})" for kind, one in mutations))
        return 0
    verdicts = run_all(mutations, jobs=given.jobs, results=given.results, baseline=not given.no_baseline)
    return 0 if report(verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
