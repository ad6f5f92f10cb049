"""Keep protected files out of the changes and lines that git shows, by a shell function that adds pathspecs.

Before a command runs, the function lists the files that it would show, by name alone.
"""

import os
import re
import shlex
import sys
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Final, Literal, NamedTuple

from vibe_jupyter.files.protected import IGNORED_IN_NAMES, protected_names
from vibe_jupyter.files.secret_names import COPY_ENDS, COPY_STARTS, CredentialNames

_SEPARATOR: Final = "\x1f"  # between the arguments of a command; no command that is judged may hold it
# Settings that would leave something out of a list, or add to it.
LISTING: Final = ("-c", "log.diffMerges=separate", "-c", "log.showSignature=false")
_SIGNS: Final = re.compile(r"[][.+?(){}|^$\\]")
_LOOK_ALIKE: Final = "ſ\u212aﬀﬁﬂﬃﬄﬅﬆ"  # letters that fold to ASCII, as does ß


class GuardedGit(NamedTuple):
    """A git command as it was judged, and as it must be run."""

    given: tuple[str, ...]  # arguments as written
    run: tuple[str, ...] = ()  # arguments to run instead, without paths; empty to run those written
    paths: tuple[str, ...] = ()
    # A command that lists what is shown, with its paths, and the form of the list: ``--name-status -z`` with the ids of
    # commits or without, or names alone
    names: tuple[str, ...] = ()
    names_in: tuple[str, ...] = ()
    form: Literal["commits", "diff", "index", "files"] = "diff"  # "files" is an index whose files are searched
    top: str = ""  # of the work tree
    found: frozenset[str] = frozenset()  # arguments found by a glob, maybe in another order or more than in bash
    here: str = ""  # folder in which it runs: the same arguments may mean something else in another


def can_guard() -> bool:
    """Return whether bash takes functions from its environment.

    Apple's bash expects them under another name, and a privileged shell takes none.
    """
    return sys.platform == "linux" and "privileged" not in os.environ.get("SHELLOPTS", "")


def git_function(command: str, calls: Sequence[GuardedGit]) -> str:
    """Return a shell function in place of ``git`` for one command line.

    It acts only in the shell that runs this line, not in scripts and hooks started by it.
    """
    files, examples, places = map(shlex.quote, _expressions(protected_names()))
    found = frozenset[str]().union(*(call.found for call in calls))
    parts = {
        "@COMMAND@": shlex.quote(command),
        "@FILES@": files,
        "@EXAMPLES@": examples,
        "@PLACES@": places,
        "@RENAMES@": "--name-status -z -C20% -l1000 --no-color --no-relative --ignore-submodules=all --",
        "@DELETED@": "--name-only -z --diff-filter=D --ignore-submodules=all",
        "@LISTING@": " ".join(LISTING),
        "@FOUND@": " ".join(f"[{shlex.quote(f'/{name}')}]=1" for name in sorted(found)),
        "@CALLS@": "\n".join(dict.fromkeys(_branch(call, found) for call in calls)),
    }
    return re.sub("@[A-Z]+@", lambda mark: parts[mark[0]], _FUNCTION)


# `hidden` holds the names of protected files among those to be shown. In a commit that adds or deletes one, those
# deleted or added with it may be the same file under another name, as are renames and copies. If the list can't be
# made, nothing is shown. A folder of the index may be a link by now: git grep follows it, while diff-files takes what
# is behind it for deleted.
_FUNCTION: Final = r"""() {
if [[ ${BASH_EXECUTION_STRING-} != @COMMAND@ ]]; then command git "$@"; return; fi
local IFS=$'\037' run=() paths names=() names_in form top path kind id at both= moved=
local seen=() commits=() others=() hide=()
local words=() globbed=()
local -A hidden=() found=(@FOUND@)
for path; do if [[ ${found[/$path]-} ]]; then globbed+=("$path"); else words+=("$path"); fi; done
case "${words[*]}${globbed:+/}" in
@CALLS@
diff* | show* | log* | grep* | -*)
[[ $run ]] || { echo 'git: not run, since these arguments were not the ones judged' >&2; return 1; } ;;
*) command git "$@"; return ;;
esac
if ((BASH_VERSINFO[0] * 100 + BASH_VERSINFO[1] < 404)); then
echo 'git: not run, since it needs bash 4.4 or newer' >&2; return 1
fi
IFS=$' \t\n'
paths+=("${globbed[@]}")
[[ $form != commits || ! ${names_in-} ]] || names_in+=("${globbed[@]}")
local -x GIT_LITERAL_PATHSPECS=0 GIT_GLOB_PATHSPECS=0 GIT_NOGLOB_PATHSPECS=0 GIT_ICASE_PATHSPECS=0
if [[ ${names-} ]]; then
mapfile -d '' -t seen < <(command git "${names[@]}" -- "${names_in[@]}" 2> /dev/null)
wait $! || { command git "${names[@]}" -- "${names_in[@]}" > /dev/null; return 1; }
while IFS= read -r -d '' path; do
[[ $path == /probe* || ${hidden[/$path]-} ]] || hide+=(":(top,exclude,literal)$path")
hidden[/$path]=1
done < <(
export LC_ALL=C
printf '%s\0' /probe/.env "${seen[@]}" | command grep -aziE @FILES@ | command grep -aziEv @EXAMPLES@
printf '%s\0' /probe "${seen[@]}" | command grep -aziE @PLACES@)
[[ ${hidden[//probe]-} && ${hidden[//probe/.env]-} ]] || { echo 'git: not run, since grep failed' >&2; return 1; }
unset 'hidden[//probe]' 'hidden[//probe/.env]'
if [[ ${#hidden[@]} != 0 && $form == commits ]]; then
for ((at = 0; at < ${#seen[@]}; at++)); do
case ${seen[at]##*$'\n'} in
+*) id=${seen[at]##*+} ;;
*) ((at += 1)); [[ ! ${hidden[/${seen[at]}]-} || ${commits-} == "$id" ]] || commits=("$id" "${commits[@]}") ;;
esac
done
mapfile -d '' -t seen < <(command git @LISTING@ -C "$top" show "${commits[@]}" --format=tformat:+ -m @RENAMES@)
wait $! || return
elif [[ ${#hidden[@]} != 0 && $form == diff ]]; then
mapfile -d '' -t seen < <(command git "${names[@]/#--no-renames/-C20%}" --)
wait $! || return
fi
fi
leave_out() {
for path; do
[[ ! ${hidden[/$path]-} ]] || continue
hidden[/$path]=1 moved+=" $path" hide+=(":(top,exclude,literal)$path")
done
}
for ((at = 0; at <= ${#seen[@]}; at++)); do
[[ ${#hidden[@]} != 0 && $form == [cd]* ]] || break
kind=${seen[at]-+} path=${seen[at + 1]-}
case ${kind##*$'\n'} in
+) for path in "${others[@]}"; do [[ $both != *"${path:0:1}"* ]] || leave_out "${path:1}"; done; both= others=() ;;
[RC]*) ((at += 2)); [[ ! ${hidden[/$path]-}${hidden[/${seen[at]}]-} ]] || leave_out "$path" "${seen[at]}" ;;
A) ((at += 1)); if [[ ${hidden[/$path]-} ]]; then both+=D; else others+=("A$path"); fi ;;
D) ((at += 1)); if [[ ${hidden[/$path]-} ]]; then both+=A; else others+=("D$path"); fi ;;
*) ((at += 1)) ;;
esac
done
unset -f leave_out
moved=${moved:0:400}
[[ ! $moved ]] || echo "git: left out, since protected files came or went with them:${moved//[[:cntrl:]]/?}" >&2
if [[ $form == files ]]; then
while IFS= read -r -d '' path; do
[[ ! -e $top/$path ]] || hide+=(":(top,exclude,literal)$path")
done < <(command git -C "$top" diff-files @DELETED@)
wait $! || return
fi
command git "${run[@]}" -- "${paths[@]}" "${hide[@]}"
}"""


def _branch(call: GuardedGit, found: frozenset[str]) -> str:
    words = [word for word in call.given if word not in found]
    pattern = shlex.quote(_SEPARATOR.join(words) + "/" * (words != [*call.given]))
    here = shlex.quote(call.here)
    if not call.run:
        return f'{pattern}) [[ ! . -ef {here} ]] || {{ command git "$@"; return; }} ;;&'
    arrays = ("run", call.run), ("paths", call.paths), ("names", call.names), ("names_in", call.names_in)
    kept = [(name, [word for word in words if "path" not in name or word not in found]) for name, words in arrays]
    values = " ".join(f"{name}=({' '.join(map(shlex.quote, words))})" for name, words in kept)
    return f"{pattern}) [[ ! . -ef {here} ]] || {{ {values} form={call.form} top={shlex.quote(call.top)}; }} ;;&"


@cache
def _expressions(names: CredentialNames) -> tuple[str, str, str]:
    """Return regular expressions of grep, without case: protected files, examples among them, and other places.

    The places are protected folders, names with letters that other systems ignore, and names that lead elsewhere.
    """
    start, end = f"({_any_of(COPY_STARTS)})?", f"({_any_of(COPY_ENDS)})"
    files = f"{start}({_any_of(names.files)})"
    for folder, _, name in (pair.rpartition("/") for pair in names.in_folders):
        files += f"|{_any_of([folder])}[ .]*/{start}{_any_of([name])}"
    odd = "|".join([*_LOOK_ALIKE, *map(chr, IGNORED_IN_NAMES)])
    return (
        f"^(.*/)?({files}){end}*[ .]*$",
        f"^(.*/)?{start}({_any_of(names.plain)}){end}{{0,3}}$",
        f"^((.*/)?({_any_of(names.folders)})[ .]*/.*|.*({odd}).*|/.*|(.*/)?[.][.]/.*)$",
    )


def _any_of(patterns: Iterable[str]) -> str:
    escaped = (_SIGNS.sub(r"\\\g<0>", pattern).replace("*", "[^/]*") for pattern in patterns)
    letters = (letter if letter.isascii() else _in_any_case(letter) for letter in "|".join(escaped))
    return "".join(letters).replace("ss", "(ss|ß|ẞ)")


@cache
def _in_any_case(letter: str) -> str:
    """Return an expression for a letter that grep, which reads bytes, knows in one case only."""
    cases = (chr(code) for code in range(0x80, 0x20000) if chr(code).casefold() == letter.casefold())
    return f"({'|'.join(dict.fromkeys((letter, *cases)))})"
