"""Explain a command: by code where files are counted or a repository is read, else by the rows of `effects.toml`.

The user's own rows add to that: they may raise a risk, but neither lower nor reword what is known.
"""

import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from vibe_jupyter.files.sizes import bytes_text
from vibe_jupyter.permissions.rules import OwnEffects
from vibe_jupyter.permissions.shell import UnknownCommand
from vibe_jupyter.permissions.shell.command_parts import WordOfPart
from vibe_jupyter.permissions.shell.effect_rows import LONGEST, RISKS, EffectRow, shipped_rows
from vibe_jupyter.permissions.shell.effect_words import (
    DELETES,
    NAMES_SHOWN,
    NOT_EXPLAINED,
    Finding,
    PartCall,
    explain_by_row,
    name_list,
    only_reads,
    overwriting,
    reading,
)
from vibe_jupyter.permissions.shell.git_commands import GLOBAL_OPTIONS, SETTINGS
from vibe_jupyter.permissions.shell.git_repository import Repository, find_repository
from vibe_jupyter.permissions.shell.measuring import count_text

OWN_SECONDS: Final = 0.5  # time limit per command line for all of them
_DELETES: Final = frozenset({"rm", "unlink", "shred"})
_FIND_RUNS: Final = ("-exec", "-execdir", "-ok", "-okdir")
_FINDS_ONLY: Final = frozenset(
    {
        *(
            "-name",
            "-iname",
            "-path",
            "-ipath",
            "-type",
            "-size",
            "-mtime",
            "-mmin",
            "-newer",
            "-maxdepth",
            "-mindepth",
        ),
        *("-print", "-print0", "-ls", "-empty", "-not", "!", "-o", "-or", "-a", "-and", "(", ")", "-prune", "-perm"),
        *("-user", "-group", "-regex", "-iregex", "-regextype", "-printf", "-follow", "-L", "-H", "-P", "-quit"),
    }
)

_SHELLS: Final = frozenset({"sh", "bash", "zsh", "dash", "ksh", "fish", "source", "."})
_VERSION: Final = re.compile(r"(?<=3)\.\d+$")  # of `python3.12` and `pip3.12`


def explain_program(call: PartCall) -> Finding:
    """Describe a command, with the user's own rows."""
    call, is_plain = _without_global_options(call) if call.name == "git" else (call, True)
    found = _explained(call)
    if RISKS[found.tag] == "low" and not (is_plain and only_reads(call)):
        found = NOT_EXPLAINED
    for row in OwnEffects.rows:
        for one in _runs(call):
            if row.fits(one.name, _plain_name(one.name)) and (own := _by_own_row(row, one)) is not None:
                found = _raised(found, own, one.name)
                break
    return found


def _runs(call: PartCall) -> Iterator[PartCall]:
    """Yield a call, and that of the script which a shell runs by it: ``bash -x deploy.sh site``."""
    yield call
    if call.name in _SHELLS and (scripts := call.operands("-o -O --rcfile --init-file")):
        yield replace(call, words=call.words[next(at for at, word in enumerate(call.words) if word is scripts[0]) :])


def _plain_name(name: str) -> str:
    return _VERSION.sub("", name)


def _explained(call: PartCall) -> Finding:
    written = call.words[0].text
    if "/" in written and not written.startswith(("/bin/", "/usr/bin/", "/usr/sbin/", "/sbin/")):
        return Finding(f"Runs the program `{written}`, which can do anything", "Unclear")
    explain = _BY_CODE.get(call.name)
    if explain is not None and (found := explain(call)) is not None:
        return found
    rows = shipped_rows().get(_plain_name(call.name), ())
    return next(filter(None, (explain_by_row(row, call) for row in rows)), NOT_EXPLAINED)


def _by_own_row(row: EffectRow, call: PartCall) -> Finding | None:
    if row.arguments and (len(call.lines) > LONGEST or time.monotonic() > call.ends):
        return Finding(f"May be a command that your settings describe (`{row.program}`)", row.tag, "", row.action)
    return explain_by_row(row, call, is_own=True)


def _raised(found: Finding, own: Finding, name: str) -> Finding:
    """Add what a row of the user's says."""
    if own.level > found.level:
        found = found._replace(tag=own.tag, action=own.action or f"run {name}")
    if found.text == NOT_EXPLAINED.text:
        return found._replace(text=own.text, detail=" ".join(filter(None, (found.detail, own.detail))))
    return found._replace(detail=" ".join(filter(None, (found.detail, f"{own.text}.", own.detail))))


def _without_global_options(call: PartCall) -> tuple[PartCall, bool]:
    """Remove the options before a subcommand of git, and return whether they are known to change nothing."""
    words, here, is_plain = list(call.arguments), call.here, True
    while words and words[0].text.startswith("-") and words[0].text != "--version":
        option = words.pop(0).text
        value = words.pop(0) if option in ("-C", "-c", "--git-dir", "--work-tree") and words else None
        known = option in GLOBAL_OPTIONS or option == "-C" or (value is not None and value.text in SETTINGS)
        is_plain = is_plain and known
        if option == "-C" and value is not None and here is not None:
            here = here / value.text if value.literal else here
        elif value is not None and option != "-c":
            here = None
    return replace(call, words=[call.words[0], *words], here=here), is_plain


def _git(call: PartCall) -> Finding | None:
    name = call.arguments[0].text if call.arguments else ""
    sub = replace(call, words=call.arguments)
    if name == "checkout" and not sub.has("-b", "-B") and call.here is not None:
        there = [word for word in sub.operands() if os.path.lexists(call.here / word.text)]
        if there:
            text = f"Throws away your uncommitted changes to {name_list(there)}"
            return Finding(text, DELETES, "", "throw away changes")
    return _push(sub) if name == "push" else None


def _remove(call: PartCall) -> Finding | None:
    words = call.operands()
    return _deleting(call, words) if words else None


def _raw_copy(call: PartCall) -> Finding | None:
    """Describe `dd`, except where it writes to a device."""
    outputs = [word for word in call.arguments if word.text.startswith("of=")]
    if not outputs or any(word.text.startswith("of=/dev/") for word in outputs):
        return None
    target = outputs[-1]._replace(text=outputs[-1].text.removeprefix("of="), raw=outputs[-1].raw.removeprefix("of="))
    finding = Finding(f"Writes raw data to `{target.raw}`", "Changes files")
    keeps = any(re.match(r"conv=.*notrunc|oflag=.*append|seek=", word.text) for word in call.arguments)
    return finding if keeps else overwriting(call, target, finding)


def _deleting(call: PartCall, words: Sequence[WordOfPart]) -> Finding:
    """Describe a command that deletes its operands, with their number and size."""
    paths = call.paths(words) if call.meter is not None else None
    if paths is None or call.meter is None:
        named = name_list(words) or "what it finds"
        return Finding(f"Deletes {named}; what is deleted doesn't go to the trash", DELETES, "", "delete files")
    sizes = [(path, call.meter.size_of(path)) for path in paths]
    there = [(path, size) for path, size in sizes if size is not None]
    missing = [word for word in words if not word.wild and call.here and not os.path.lexists(call.here / word.text)]
    if not there:
        return Finding(f"Deletes {name_list(words)}, which isn't there now", DELETES, "", "delete files")
    files = sum(size.files for _, size in there)
    folders = sum(size.folders for _, size in there)
    size = bytes_text(sum(size.bytes for _, size in there))
    more = "" if all(size.whole for _, size in there) else "more than "
    counted = f"{more}{count_text(files, 'file')}"
    what = f"{count_text(folders, 'folder')} with {counted}" if folders else counted
    pronoun = "it doesn't" if files == 1 and not folders else "they don't"
    each = " · ".join(
        f"{_shown_path(path, call)}: {count_text(one.files, 'file')}, {bytes_text(one.bytes)}"
        for path, one in there[:NAMES_SHOWN]
    )
    details = [f"{each}." if len(there) > 1 or folders else f"`{there[0][0].name}`."]
    details += [f"{name_list(missing)} isn't there."] if missing else []
    text = f"Deletes {what} ({more and 'over '}{size}); {pronoun} go to the trash"
    return Finding(text, DELETES, " ".join(details), f"delete {counted}")


def _shown_path(path: Path, call: PartCall) -> str:
    normal = os.path.normpath(path)
    root = str(call.workspace.root)
    return os.path.relpath(normal, root) if normal.startswith(f"{root}{os.sep}") else normal


def _find(call: PartCall) -> Finding:
    words = list(call.arguments)
    starts: list[WordOfPart] = []
    while words and not words[0].text.startswith(("-", "(", "!")):
        starts.append(words.pop(0))
    where = name_list(starts) or "the folder"
    texts = [word.text for word in words]
    if "-delete" in texts:
        return _find_deleting(call, starts, texts, where)
    for at, text in enumerate(texts):
        if text in _FIND_RUNS:
            started = [word for word in words[at + 1 :] if word.text not in (";", "+")]
            if started and started[0].text.rpartition("/")[2] in _DELETES:
                text = f"Deletes the files it finds below {where}; they don't go to the trash"
                return Finding(text, DELETES, "", "delete files")
            inner = call.inner(started)
            detail = f"It does so for each file it finds below {where}."
            return inner._replace(detail=" ".join(filter(None, (inner.detail, detail))))
    if any(text.startswith("-") and text not in _FINDS_ONLY for text in texts):
        return NOT_EXPLAINED
    return reading(call, starts, Finding(f"Searches for files below {where}", "Harmless"))


def _find_deleting(call: PartCall, starts: list[WordOfPart], texts: list[str], where: str) -> Finding:
    tests = dict(zip(texts[::2], texts[1::2], strict=False))
    counted = set(texts[::2]) <= {"-name", "-type", "-delete"} and len(tests) == len(texts) // 2
    here = [call.here] if call.here is not None else None
    paths = call.paths(starts) if starts else here
    if call.meter is None or paths is None or not counted:
        return Finding(
            f"Deletes the files it finds below {where}; they don't go to the trash",
            DELETES,
            "",
            "delete files",
        )
    names = (tests["-name"],) if "-name" in tests else ()
    sizes = [call.meter.matching(path, names, kind=tests.get("-type", "")) for path in paths]
    files, size = sum(one.files for one in sizes), sum(one.bytes for one in sizes)
    more = "" if all(one.whole for one in sizes) else "more than "
    found = f"{more}{count_text(files, 'file')}"
    text = f"Deletes {found} ({bytes_text(size)}) below {where}; they don't go to the trash"
    return Finding(text, DELETES, "", f"delete {found}")


def _push(git: PartCall) -> Finding:
    operands = git.operands("-o")
    remote = operands[0].text if operands else "origin"
    refs = operands[1:]
    repository = _repository_at(git.here)
    target = _remote_text(remote, repository)
    forced = git.has("-f", "--force", "--force-with-lease", "--mirror") or any(ref.text.startswith("+") for ref in refs)
    deleted = [ref for ref in refs if git.has("-d", "--delete") or ref.text.startswith(":")]
    if deleted:
        names = name_list([ref._replace(raw=ref.raw.lstrip(":")) for ref in deleted])
        return Finding(f"Deletes the branch {names} on {target}", "Affects others", "", "delete a remote branch")
    branch = refs[0].text.lstrip("+").rpartition(":")[2] if refs else _current_branch(repository)
    named = f"the branch `{branch}`" if branch else "your branch"
    if forced:
        detail = "Commits that exist only there would be lost."
        return Finding(f"Force-pushes: replaces {named} on {target}", "Affects others", detail, "force-push")
    return Finding(f"Sends the commits of {named} to {target}", "Leaves this computer", "", "push")


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


# Programs that are explained by code, and by rows where that returns None.
_BY_CODE: Final[Mapping[str, Callable[[PartCall], Finding | None]]] = {
    **dict.fromkeys(("rm", "unlink"), _remove),
    "dd": _raw_copy,
    "find": _find,
    "git": _git,
}
