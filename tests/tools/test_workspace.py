"""Where paths lead, judged by the corpus of paths; and that what was judged is what is opened."""

import json
import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.patience import patient
from tests.tools.conftest import CORPORA
from vibe_jupyter.errors import ToolError
from vibe_jupyter.files.workspace import Located, Workspace

CASES: list[dict[str, Any]] = [
    json.loads(line) for line in (CORPORA / "path_containment.jsonl").read_text(encoding="utf-8").splitlines()
]
KINDS = {
    "read": ("regular", "missing"),
    "write": ("regular", "missing"),
    "list": ("directory", "regular", "missing"),
}


def allowed_by_place(workspace: Workspace, path: str, operation: str) -> bool:
    try:
        located = workspace.resolve(path)
    except ToolError:
        return False
    access = "write" if operation == "write" else "read"
    return located.inside and located.protection(access) is None and located.kind in KINDS[operation]


@pytest.mark.requirement("permission.path.containment")
@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_the_place_of_a_path_is_judged_as_the_corpus_says(tree: Path, case: dict[str, Any]):
    path = case["path"].replace("@PARENT@", str(tree))
    started = time.monotonic()

    allowed = allowed_by_place(Workspace(tree / "proj"), path, case["op"])

    assert time.monotonic() - started < patient(20)
    assert case["optional"] or allowed == case["allowed"], case["why"]


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("hard_out", True),  # nothing in a path tells a hard link from its file
        ("link_root_missing/x", True),
        ("src/link_root/../outside/secret.txt", False),
        ("link_up/proj/README.md", True),
        ("link_up/proj-evil/a.txt", False),
        ("link_dangling_in", True),
        ("link_dangling_out", False),
        ("link_out_and_back", True),
        ("sock", False),
        ("src", False),
        ("README.md/", False),
        ("", False),
        ("  ", False),
        ("~", False),
        ("~/.ssh/id_rsa", False),
        ("~no-such-user-here/x", False),
        ("/proc/self/root/etc/passwd", False),
        ("/dev/null", False),
        ("a/" * 3_000, False),
        ("\ud800", False),
        ("nosuch/../../outside/secret.txt", False),
        ("hard\ud800", False),
        (".envrc.md", True),
        (".env.local", False),
        (".streamlit/secrets.toml", False),
        ("kaggle.json", False),
        ("CERTS/x.PEM", False),
        ("link_env", False),
        ("data/...", False),
        ("data/.../deep.txt", True),
        ("data/..hidden", True),
        ("data/new\nline.txt", True),
        ("data/a\\b.txt", True),
        ("data/-rf", True),
        (".git/config", True),
        (".vibe/config.toml", True),
    ],
)
def test_reading_is_judged_on_the_place_the_links_lead_to(tree: Path, path: str, allowed: bool):
    assert allowed_by_place(Workspace(tree / "proj"), path, "read") is allowed


@pytest.mark.attack("paths", always=True)
@pytest.mark.parametrize(
    "path",
    [
        ".git/hooks/pre-commit",
        ".GIT/config",
        "sub/.git/config",
        "sub/.git",
        ".vibe/config.toml",
        "link_vibe_cfg",
        ".vscode/tasks.json",
        ".jupyter/jupyter_server_config.py",
        "jupyter_server_config.py",
        "jupyter_notebook_config.json",
        "jupyter_server_config.d/x.json",
        "ipython_config.py",
        "ipython_kernel_config.py",
        "AGENTS.md",
        "docs/agents.md",
        ".env",
        ".env.production",
        "id_rsa",
        ".g\u200cit/config",
        ".git ./config",
        ".ssh/known_hosts",
        ".bashrc",
        ".gitconfig",
        ".claude/settings.json",
        ".cursor/mcp.json",
        "share/jupyter/kernels/x/kernel.json",
        "lib/sitecustomize.py",
    ],
)
def test_what_decides_what_runs_here_is_never_written_unasked(tree: Path, path: str):
    assert not allowed_by_place(Workspace(tree / "proj"), path, "write")


@pytest.mark.attack("paths", always=True)
@pytest.mark.parametrize(
    "path",
    [
        ".local/share/jupyter/runtime/kernel-1234.json",
        ".local/share/jupyter/runtime/jpserver-7.json",
        ".local/share/jupyter/runtime/jupyter_cookie_secret",
        ".kube/config",
        ".npmrc",
        ".config/gcloud/application_default_credentials.json",
        "service_account.json",
        "keys/service-account-prod.json",
        "client_secret_12.apps.googleusercontent.com.json",
        "conf/secrets.yml",
        "infra/terraform.tfstate",
        ".bash_history",
        ".cargo/credentials",
    ],
)
def test_what_opens_a_kernel_a_server_or_an_account_is_never_read_unasked(tree: Path, path: str):
    assert not allowed_by_place(Workspace(tree / "proj"), path, "read")


@pytest.mark.parametrize("path", [".gitignore", "agents.txt", "git/config", "environment.yml", "keys.md"])
def test_what_only_looks_like_a_protected_name_is_not_protected(tree: Path, path: str):
    assert allowed_by_place(Workspace(tree / "proj"), path, "write")


def test_a_located_file_is_named_relative_to_the_project(tree: Path):
    workspace = Workspace(tree / "proj")

    assert workspace.resolve("link_in_dir/main.py").shown == "src/main.py"
    assert workspace.resolve("../outside").shown == str(tree / "outside")
    assert workspace.resolve(".").shown == "."


def test_a_project_folder_reached_by_a_link_is_the_folder_itself(tree: Path):
    (tree / "alias").symlink_to("proj")
    workspace = Workspace(tree / "alias")

    assert workspace.resolve("README.md").inside
    assert workspace.resolve(str(tree / "alias" / "README.md")).inside


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("README.txt", "Did you mean README.md?"),
        ("src/pkgs/mod.py", "Did you mean src/pkg?"),
        ("data", "is a folder, not a file. It holds $HOME, %2e%2e, -rf"),
        ("pipe", "is a device, pipe or socket"),
        ("../outside/secrets.txt", "Check the path"),
    ],
)
def test_what_cannot_be_opened_is_refused_in_words_that_help(tree: Path, path: str, said: str):
    workspace = Workspace(tree / "proj")

    with pytest.raises(ToolError) as refusal, workspace.open_read(workspace.resolve(path)):
        pytest.fail("it was opened")

    assert said in str(refusal.value)


@pytest.mark.attack("paths", always=True)
def test_a_pipe_that_takes_the_place_of_a_file_does_not_block_the_reader(tree: Path):
    workspace = Workspace(tree / "proj")
    located = workspace.resolve("README.md")
    (tree / "proj/README.md").unlink()
    os.mkfifo(tree / "proj/README.md")

    with pytest.raises(ToolError, match="no longer a regular file"), workspace.open_read(located):
        pytest.fail("it was opened")


@pytest.mark.attack("swapped places", always=True)
@pytest.mark.requirement("permission.path.race")
@pytest.mark.parametrize("swapped", ["src", "src/main.py"])
def test_a_link_put_there_after_the_judgement_is_not_followed(tree: Path, swapped: str):
    workspace = Workspace(tree / "proj")
    located = workspace.resolve("src/main.py")
    (tree / "outside/main.py").write_text("TOPSECRET", encoding="utf-8")
    (tree / "proj" / swapped).rename(tree / "moved")
    (tree / "proj" / swapped).symlink_to(tree / "outside" if swapped == "src" else tree / "outside/main.py")

    with pytest.raises(ToolError, match="changed while it was being opened"), workspace.open_read(located):
        pytest.fail("it was opened")


@pytest.mark.attack("swapped places", always=True)
def test_a_folder_swapped_for_a_link_again_and_again_never_shows_the_outside(tree: Path):
    (tree / "outside/main.py").write_text("TOPSECRET", encoding="utf-8")
    (tree / "evil").symlink_to(tree / "outside")
    source, aside = tree / "proj/src", tree / "proj/aside"
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            source.rename(aside)
            (tree / "evil").rename(source)
            source.rename(tree / "evil")
            aside.rename(source)

    swapper = threading.Thread(target=swap)
    swapper.start()
    try:
        read = {_try_to_read(Workspace(tree / "proj"), "src/main.py") for _ in range(2_000)}
    finally:
        stop.set()
        swapper.join(10)

    assert "TOPSECRET" not in read
    assert "x=1\n" in read


def _try_to_read(workspace: Workspace, path: str) -> str:
    try:
        located: Located = workspace.resolve(path)
        if not located.inside:
            return "outside"
        with workspace.open_read(located) as file:
            return file.read().decode()
    except ToolError:
        return "refused"
