"""Describe the effects of git commands."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from vibe_jupyter.permissions.shell import UnknownCommand
from vibe_jupyter.permissions.shell.effect_words import (
    AFFECTS_OTHERS,
    CHANGES,
    CHANGES_GIT,
    DELETES,
    DOWNLOADS,
    HARMLESS,
    LEAVES,
    NOT_EXPLAINED,
    EffectTag,
    Finding,
    PartCall,
    name_list,
)
from vibe_jupyter.permissions.shell.git_commands import GLOBAL_OPTIONS, SETTINGS, SUBCOMMANDS
from vibe_jupyter.permissions.shell.git_repository import Repository, find_repository
from vibe_jupyter.permissions.shell.options import CommandArgument

_READS: Final = frozenset(
    {
        *("status", "log", "diff", "show", "blame", "ls-files", "ls-tree", "rev-parse", "rev-list", "describe", "grep"),
        *(
            "shortlog",
            "cat-file",
            "version",
            "--version",
            "merge-base",
            "name-rev",
            "count-objects",
        ),
    }
)
_DOWNLOADS: Final[Mapping[str, str]] = {
    "fetch": "Downloads commits from {}",
    "pull": "Downloads commits from {} and merges them into your branch",
    "clone": "Downloads the repository {}",
}
_CHANGES: Final[Mapping[str, tuple[str, EffectTag]]] = {
    "add": ("Marks {} for the next commit", CHANGES_GIT),
    "init": ("Creates a repository", CHANGES_GIT),
    "mv": ("Renames {}", CHANGES),
    "switch": ("Switches to the branch {}", CHANGES),
    "merge": ("Merges {} into your branch", CHANGES),
    "cherry-pick": ("Copies the commit {} to your branch", CHANGES),
    "revert": ("Records a commit that reverses {}", CHANGES),
    "apply": ("Changes files as the patch {} says", CHANGES),
    "am": ("Records the commits of {}", CHANGES),
    "rebase": ("Rewrites the commits of your branch", CHANGES_GIT),
    "notes": ("Changes notes on commits", CHANGES_GIT),
    "bisect": ("Switches between commits to find one", CHANGES),
    "worktree": ("Changes the work trees of the repository", CHANGES_GIT),
    "submodule": ("Changes submodules", CHANGES_GIT),
    "gc": ("Tidies the repository's storage", CHANGES_GIT),
    "format-patch": ("Writes commits as files", CHANGES),
}
_ALSO_READS: Final[Mapping[str, frozenset[str]]] = {
    "remote": frozenset({"", "show", "get-url"}),
    "stash": frozenset({"list", "show"}),
    "config": frozenset({"get", "list"}),
}


_CONFIG_READS: Final = frozenset({"--get", "--get-all", "--get-regexp", "--list", "-l"})
# Options that choose a file or a form, so that a lone name is still read
_CONFIG_FORMS: Final = frozenset(
    {
        *("--global", "--system", "--local", "--worktree", "--show-origin", "--show-scope", "--includes"),
        *("--bool", "--int", "--bool-or-int", "--bool-or-str", "--path", "--expiry-date", "-z", "--null"),
    }
)
_FORGETS: Final = frozenset({"expire", "delete", "drop"})  # subcommands of reflog


def explain_git(call: PartCall) -> Finding:
    """Describe the effect of a git command."""
    found = _explain(call)
    return found if found.tag is not HARMLESS or _only_reads(call) else NOT_EXPLAINED


def _only_reads(call: PartCall) -> bool:
    """Return whether the options of a command are known to start no program and write nothing."""
    texts = [word.text for word in call.arguments]
    while texts and texts[0].startswith("-") and texts[0] != "--version":
        option = texts.pop(0)
        value = texts.pop(0) if option in ("-C", "-c") and texts else ""
        if option not in (*GLOBAL_OPTIONS, "-C") and value not in SETTINGS:
            return False
    sub = SUBCOMMANDS.get(texts[0]) if texts and texts[0] in _READS else None
    if sub is None:
        return True
    end = texts.index("--") if "--" in texts else len(texts)
    try:
        sub.options.parse([CommandArgument(text) for text in texts[1:end]], f"git {texts[0]}")
    except UnknownCommand:
        return False
    return True


def _explain(call: PartCall) -> Finding:
    words = list(call.arguments)
    here = call.here
    while words and words[0].text.startswith("-") and words[0].text != "--version":
        option = words.pop(0).text
        if option in ("-C", "-c", "--git-dir", "--work-tree") and words:
            value = words.pop(0)
            here = here / value.text if option == "-C" and here is not None and value.literal else here
            if option in ("--git-dir", "--work-tree"):
                here = None
    if not words:
        return NOT_EXPLAINED
    git = PartCall(words, call.workspace, here, call.meter, call.explain_inner)
    name = words[0].text
    if name in _READS:
        return Finding(f"Shows what git knows (`git {name}`)", HARMLESS)
    if name in _DOWNLOADS:
        where = git.operands("bco")
        return Finding(_DOWNLOADS[name].format(name_list(where[:1]) or "the remote"), DOWNLOADS)
    if name in _SPECIAL:
        return _SPECIAL[name](git)
    if name in _CHANGES:
        text, tag = _CHANGES[name]
        return Finding(text.format(name_list(git.operands("m")) or "all changes"), tag)
    return NOT_EXPLAINED


def _commit(git: PartCall) -> Finding:
    if git.has("--amend"):
        return Finding("Replaces your newest commit with another one", CHANGES_GIT)
    return Finding("Records a commit", CHANGES_GIT)


def _checkout(git: PartCall) -> Finding:
    operands = git.operands("b")
    if git.has("-b", "-B"):
        name = git.value("-b", "-B")
        return Finding(f"Creates the branch `{name.raw if name else ''}` and switches to it", CHANGES)
    at_files = "--" in [word.text for word in git.arguments]
    known = [word for word in operands if git.here is not None and os.path.lexists(git.here / word.text)]
    if at_files or len(operands) > 1 or known or git.has("-f", "--force", "-p"):
        return _discards(name_list(known or operands) or "files")
    return Finding(f"Switches to {name_list(operands)}", CHANGES)


def _discards(what: str) -> Finding:
    return Finding(f"Throws away your uncommitted changes to {what}", DELETES, "", "throw away changes")


def _restore(git: PartCall) -> Finding:
    if git.has("-S", "--staged") and not git.has("-W", "--worktree"):
        return Finding(f"Takes {name_list(git.operands('s'))} out of the next commit", CHANGES_GIT)
    return _discards(name_list(git.operands("s")) or "files")


def _reset(git: PartCall) -> Finding:
    if git.has("--hard", "--merge", "--keep"):
        target = name_list(git.operands())
        back = f" and moves your branch to {target}" if target and target != "`HEAD`" else ""
        return Finding(f"Throws away all uncommitted changes{back}", DELETES, "", "throw away changes")
    return Finding("Takes changes out of the next commit, or moves your branch", CHANGES_GIT)


def _clean(git: PartCall) -> Finding:
    if git.has("-n", "--dry-run"):
        return Finding("Lists files that git doesn't track", HARMLESS)
    ignored = ", ignored ones too" if git.has("-x", "-X") else ""
    text = f"Deletes the files that git doesn't track{ignored}; they don't go to the trash"
    return Finding(text, DELETES, "", "delete untracked files")


def _branch(git: PartCall) -> Finding:
    names = name_list(git.operands("u"))
    if git.has("-D") or (git.has("-d", "--delete") and git.has("-f", "--force")):
        return Finding(
            f"Deletes the branch {names}, even if its commits are nowhere else", DELETES, "", "delete a branch"
        )
    if git.has("-d", "--delete"):
        return Finding(f"Deletes the branch {names}, which is merged", CHANGES_GIT)
    if git.has("-m", "-M", "--move"):
        return Finding(f"Renames the branch {names}", CHANGES_GIT)
    if git.has("-a", "-r", "-v", "--list", "--show-current", "--contains", "--merged") or not names:
        return Finding("Lists branches", HARMLESS)
    return Finding(f"Creates the branch {names}", CHANGES_GIT)


def _tag(git: PartCall) -> Finding:
    names = name_list(git.operands("m"))
    if not names or git.has("-l", "--list"):
        return Finding("Lists tags", HARMLESS)
    return Finding(f"{'Deletes' if git.has('-d', '--delete') else 'Creates'} the tag {names}", CHANGES_GIT)


def _stash(git: PartCall) -> Finding:
    what = next((word.text for word in git.operands("m")), "push")
    if what in ("drop", "clear"):
        return Finding("Deletes changes that were put aside", DELETES, "", "delete stashed changes")
    if what in ("pop", "apply"):
        return Finding("Brings back changes that were put aside", CHANGES)
    if what in _ALSO_READS["stash"]:
        return Finding("Shows changes that were put aside", HARMLESS)
    if what not in ("push", "save"):
        return NOT_EXPLAINED
    return Finding("Puts your uncommitted changes aside", CHANGES)


def _remove(git: PartCall) -> Finding:
    names = name_list(git.operands())
    if git.has("--cached"):
        return Finding(f"Stops tracking {names}; the files stay", CHANGES_GIT)
    if git.has("-f", "--force"):
        return Finding(f"Deletes {names}, with changes that aren't committed", DELETES, "", "delete files")
    return Finding(f"Deletes {names}, which git can bring back", CHANGES)


def _reads_or_changes(git: PartCall) -> Finding:
    name = git.words[0].text
    operands = [word.text for word in git.operands()]
    what = operands[0] if operands else ""
    reads = what in _ALSO_READS[name]
    if name == "config":
        options = {word.text for word in git.arguments if word.text.startswith("-")}
        reads = reads or bool(options & _CONFIG_READS) or (len(operands) == 1 and options <= _CONFIG_FORMS)
    if reads:
        return Finding(f"Shows what git knows (`git {name}`)", HARMLESS)
    return Finding(f"Changes settings of the repository (`git {name}`)", CHANGES_GIT)


def _rewrite(git: PartCall) -> Finding:
    return Finding("Rewrites the whole history of the repository", DELETES, "", "rewrite the history")


def _forget(git: PartCall) -> Finding:
    if (git.operands() and git.operands()[0].text in _FORGETS) or git.words[0].text == "prune":
        return Finding("Deletes commits that no branch holds", DELETES, "", "delete commits")
    return Finding("Shows where branches were before", HARMLESS)


def _push(git: PartCall) -> Finding:
    operands = git.operands("o")
    remote = operands[0].text if operands else "origin"
    refs = operands[1:]
    repository = _repository_at(git.here)
    target = _remote_text(remote, repository)
    forced = git.has("-f", "--force", "--force-with-lease", "--mirror") or any(ref.text.startswith("+") for ref in refs)
    deleted = [ref for ref in refs if git.has("-d", "--delete") or ref.text.startswith(":")]
    if deleted:
        names = name_list([ref._replace(raw=ref.raw.lstrip(":")) for ref in deleted])
        return Finding(f"Deletes the branch {names} on {target}", AFFECTS_OTHERS, "", "delete a remote branch")
    branch = refs[0].text.lstrip("+").rpartition(":")[2] if refs else _current_branch(repository)
    named = f"the branch `{branch}`" if branch else "your branch"
    if forced:
        detail = "Commits that exist only there would be lost."
        return Finding(f"Force-pushes: replaces {named} on {target}", AFFECTS_OTHERS, detail, "force-push")
    return Finding(f"Sends the commits of {named} to {target}", LEAVES, "", "push")


def _repository_at(here: Path | None) -> Repository | None:
    if here is None:
        return None
    try:
        return find_repository(here, os.path.expanduser("~"))
    except (UnknownCommand, OSError):
        return None


def _remote_text(remote: str, repository: Repository | None) -> str:
    """Format a remote for display, as its URL if the repository defines it: ``github.com/acme/penguins``."""
    if "/" in remote or ":" in remote or repository is None:
        return f"`{_plain_address(remote)}`"
    found = (one for one in repository.settings if one.section == "remote" and one.part == remote and one.name == "url")
    setting = next(found, None)
    return f"`{_plain_address(setting.value)}`" if setting is not None else f"`{remote}`"


def _plain_address(address: str) -> str:
    """Strip protocol, user and password from an address."""
    rest = address.partition("://")[2] or address
    host, slash, path = rest.partition("/")
    return f"{host.rpartition('@')[2]}{slash}{path}".removesuffix(".git").replace(":", "/", 1)


def _current_branch(repository: Repository | None) -> str:
    if repository is None:
        return ""
    try:
        head = (repository.git / "HEAD").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
    return head.removeprefix("ref: refs/heads/") if head.startswith("ref: refs/heads/") else ""


_SPECIAL: Final[Mapping[str, Callable[[PartCall], Finding]]] = {
    "commit": _commit,
    "checkout": _checkout,
    "restore": _restore,
    "reset": _reset,
    "clean": _clean,
    "branch": _branch,
    "tag": _tag,
    "stash": _stash,
    "rm": _remove,
    "push": _push,
    **dict.fromkeys(("remote", "config"), _reads_or_changes),
    **dict.fromkeys(("filter-branch", "filter-repo"), _rewrite),
    **dict.fromkeys(("reflog", "prune"), _forget),
}
