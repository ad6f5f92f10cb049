"""Places under the user's rules: the corpus of paths through the policy, and lists of globs."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.permissions.test_permissions import PathArguments, Reader
from tests.tools.conftest import make_tree
from vibe_jupyter.files.workspace import Workspace
from vibe_jupyter.permissions.decide import Permissions, RunTerms
from vibe_jupyter.permissions.places import judge_place
from vibe_jupyter.permissions.rules import ToolLists
from vibe_jupyter.protocol import Allow, Ask, Decision, Deny

CASES: list[dict[str, Any]] = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "corpora" / "path_containment.jsonl")
    .read_text(encoding="utf-8")
    .splitlines()
]


def cases() -> list[Any]:
    """Return the corpus; what must not be allowed is an attack."""
    attack = pytest.mark.attack("paths", always=True)
    return [
        pytest.param(case, id=case["id"], marks=() if case["allowed"] or case["optional"] else attack) for case in CASES
    ]


@pytest.fixture
def tree(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    parent = tmp_path_factory.mktemp("t")
    make_tree(parent)
    monkeypatch.setenv("HOME", str(parent / "home"))
    return parent


@pytest.mark.parametrize("case", cases())
def test_a_place_is_judged_as_the_corpus_says(tree: Path, case: dict[str, Any]) -> None:
    verdict = judge_place(Workspace(tree / "proj"), case["path"].replace("@PARENT@", str(tree)), case["op"])
    assert case["optional"] or (verdict.verdict == "allow") is case["allowed"], case["why"]


def decide(permissions: Permissions, path: str, terms: RunTerms | None = None) -> Decision:
    return permissions.decide(Reader("ask"), PathArguments(path=path), terms or RunTerms())


@pytest.fixture
def permissions(tree: Path) -> Permissions:
    return Permissions(Workspace(tree / "proj"))


@pytest.mark.requirement("permission.lists.glob", "permission.flow.lists-first")
def test_file_tools_match_their_lists_by_glob_before_their_level_counts(permissions: Permissions) -> None:
    permissions.lists = {"reader": ToolLists(allow=("src/*", "*.md"), deny=("*/main.py",))}
    assert decide(permissions, "README.md") == Allow(rule="reader: allowlist")
    assert isinstance(decide(permissions, "data/x.csv"), Ask)
    assert isinstance(decide(permissions, "src/main.py"), Deny)
    assert isinstance(decide(permissions, "./src/../src/main.py"), Deny)
    permissions.levels = {"reader": "never"}
    assert isinstance(decide(permissions, "README.md"), Allow)
    assert isinstance(decide(permissions, "data/x.csv"), Deny)
    assert isinstance(decide(permissions, "README.md", RunTerms(levels={"reader": "never"})), Deny)


def test_an_allowlist_covers_neither_outside_nor_protected_places(permissions: Permissions) -> None:
    permissions.lists = {"reader": ToolLists(allow=("*",))}
    assert isinstance(decide(permissions, "README.md"), Allow)
    for path in ("../outside/secret.txt", ".env", "/etc/hostname"):
        assert isinstance(decide(permissions, path), Ask)


def test_a_denied_place_stays_denied_in_every_mode_through_a_link_too(permissions: Permissions) -> None:
    permissions.lists = {"reader": ToolLists(deny=("src/*",))}
    for terms in (
        RunTerms(allowed=frozenset({"reader"})),
        RunTerms(approve_all=True),
        RunTerms(levels={"reader": "always"}),
    ):
        assert isinstance(decide(permissions, "link_in_dir/main.py", terms), Deny)
        assert isinstance(decide(permissions, "README.md", terms), Allow)


def test_approving_everything_leaves_out_other_places_and_what_is_forbidden(permissions: Permissions) -> None:
    everything = RunTerms(approve_all=True)
    assert decide(permissions, "README.md", everything) == Allow(rule="auto_approve")
    assert isinstance(decide(permissions, "../outside/secret.txt", everything), Ask)
    permissions.levels = {"reader": "never"}
    assert isinstance(decide(permissions, "README.md", everything), Deny)
