"""Table of git's read-only commands and their read-only options."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from vibe_jupyter.permissions.shell.git_config import Trait
from vibe_jupyter.permissions.shell.options import OptionTable, option_table

_DIFF: Final = (
    "-p -u --patch -s --no-patch -# -U:number --unified:number --raw --minimal --patience --histogram "
    "--diff-algorithm:word --stat?widths --compact-summary --numstat --shortstat --dirstat?word --cumulative --summary "
    "--patch-with-stat --patch-with-raw -z --name-only --name-status --color?word --no-color --color-moved?word "
    "--no-color-moved --word-diff?word --color-words --no-renames --rename-empty --check --full-index --binary "
    "--abbrev?number -B -M -C -D --find-renames?word --find-copies?word --diff-filter:word --pickaxe-all "
    "--relative --no-relative -a --text --ignore-cr-at-eol --ignore-space-at-eol -b --ignore-space-change -w "
    "--ignore-all-space --ignore-blank-lines --inter-hunk-context:number -W --function-context --exit-code --quiet "
    "--no-ext-diff --no-textconv --src-prefix:text --dst-prefix:text --no-prefix -R -S:text -G:pattern "
    "--indent-heuristic --no-indent-heuristic --stat-width:width --stat-name-width:width --stat-count:width "
    "--stat-graph-width:width --default-prefix "
)
_LOG: Final = _DIFF + (
    "--oneline -n:number --max-count:number --skip:number --since:text --after:text --until:text --before:text "
    "--author:pattern --committer:pattern --grep:pattern --all-match --invert-grep -i --regexp-ignore-case -E "
    "--extended-regexp -F --fixed-strings --basic-regexp --merges --no-merges --first-parent --all --branches?glob "
    "--tags?glob --remotes?glob --graph --decorate?word --no-decorate --source --format:format --pretty?format "
    "--abbrev-commit --no-abbrev-commit --date:date --relative-date --reverse --topo-order --date-order "
    "--author-date-order --follow --left-right --cherry-pick --cherry-mark --cherry --boundary "
    "--simplify-by-decoration --full-history --ancestry-path --children --parents --no-notes --no-walk -g "
    "--walk-reflogs --mailmap --use-mailmap -c --cc -m --diff-merges:merges --log-size --no-merge-base --root "
    "--min-parents:number --max-parents:number --no-expand-tabs --clear-decorations --no-mailmap --left-only "
    "--right-only --no-max-parents --dense --sparse --simplify-merges "
)
# Options and settings (`-c`) before a command that change only how it prints.
GLOBAL_OPTIONS: Final = ("--no-pager", "-P", "--no-optional-locks")
SETTINGS: Final = (*("color.ui=never", "color.ui=false", "color.ui=always", "core.quotepath=false", "core.pager=cat"),)
# Options with which `show` and `diff` print only names and numbers.
WITHOUT_PATCH: Final = (
    *("-s", "--no-patch", "--stat", "--name-only", "--name-status", "--raw", "--numstat", "--shortstat", "--summary"),
    *("--compact-summary", "--dirstat", "--quiet", "--stat-width", "--stat-name-width", "--stat-count"),
    "--stat-graph-width",
)
# Options with which content may be shown.
WITH_PATCH: Final = (
    *("-p", "-u", "--patch", "-U", "--unified", "-c", "--cc", "-m", "-W", "--function-context", "--word-diff"),
    *("--color-words", "--patch-with-stat", "--patch-with-raw", "--binary", "--diff-merges", "--check", "--root"),
    *("--color-moved", "--inter-hunk-context"),
)
# With both an option of each, git looks for the changes of each file as if it showed them.
SILENT: Final = ("--quiet", "-s", "--no-patch")
IGNORING_CHANGES: Final = (
    *("-w", "--ignore-all-space", "-b", "--ignore-space-change", "--ignore-space-at-eol", "--ignore-cr-at-eol"),
    "--ignore-blank-lines",
)
# Options that choose commits, so that a number of commits doesn't tell by itself which ones.
NARROWING: Final = (
    *("--since", "--after", "--until", "--before", "--author", "--committer", "--grep", "--merges", "--no-merges"),
    *("--cherry-pick", "--cherry-mark", "--cherry", "--simplify-by-decoration", "--ancestry-path", "-S", "-G"),
    *("--min-parents", "--max-parents", "--diff-filter", "--left-only", "--right-only", "--left-right"),
    *("--simplify-merges", "--follow", "--invert-grep", "--full-history", "--dense", "--sparse"),
    *("--graph", "--parents", "--children", "--no-walk"),
)


@dataclass(frozen=True)
class SubCommand:
    """A read-only git command."""

    options: OptionTable
    revisions: bool = True  # True if operands may be revisions
    names_files: bool = True  # True if other operands are files rather than patterns of branch names
    # Options of which one is required with operands: without it, the command would create something.
    needs: tuple[str, ...] = ()
    most: int | None = None  # maximum number of operands, or None for any number
    traits: frozenset[Trait] = frozenset()  # traits of the command with any options
    shows_changes: bool = False  # True if it can show or search changes
    outside: bool = True  # True if it only reports an error outside of a repository


_LISTS: Final[frozenset[Trait]] = frozenset({"log"})
_COMPARES: Final[frozenset[Trait]] = frozenset({"worktree"})

SUBCOMMANDS: Final[Mapping[str, SubCommand]] = {
    # The letters n, o, l, r, m and a are for -uno, -unormal and -uall. Git rejects them on their own.
    "status": SubCommand(
        option_table(
            "-sbz -nolrma --short --branch --show-stash --porcelain?word --long --untracked-files?word -u "
            "--ignored?word --column?word --no-column --ahead-behind --no-ahead-behind --renames "
            "--no-renames --find-renames?number"
        ),
        revisions=False,
        traits=_COMPARES,
    ),
    "log": SubCommand(option_table(_LOG, clusters=False), traits=_LISTS, shows_changes=True),
    "show": SubCommand(option_table(_LOG, clusters=False), traits=_LISTS, shows_changes=True),
    "reflog": SubCommand(
        option_table(_LOG, clusters=False), traits=_LISTS, names_files=False, most=1, shows_changes=True
    ),
    "stash list": SubCommand(
        option_table(
            "-# -n:number --max-count:number --oneline --date:date --format:format --pretty?format", clusters=False
        ),
        traits=_LISTS,
        most=0,
    ),
    "stash show": SubCommand(
        option_table("--stat?widths --name-only --name-status --numstat --shortstat", clusters=False),
        traits=frozenset({"log", "stash"}),
        names_files=False,
        most=1,
    ),
    "diff": SubCommand(
        option_table(f"{_DIFF} --staged --cached --merge-base -0 --base --ours --theirs", clusters=False),
        traits=_COMPARES,
        shows_changes=True,
        outside=False,
    ),
    "branch": SubCommand(
        option_table(
            "-a -r -v -vv -l --all --remotes --verbose --show-current --list --sort:order --no-color --color?word "
            "--merged --no-merged --contains --column?word -i --ignore-case --points-at:order --abbrev?number",
            clusters=False,
        ),
        needs=("--list", "-l", "--merged", "--no-merged", "--contains"),
        names_files=False,
    ),
    "tag": SubCommand(
        option_table("-l --list --sort:order --no-color -n -# --contains --merged --column?word -i", clusters=False),
        needs=("-l", "--list", "--contains", "--merged"),
        names_files=False,
    ),
    "ls-files": SubCommand(
        option_table(
            "-cdmoistkuf --cached --deleted --modified --others --ignored --stage --exclude-standard --full-name --eol "
            "--error-unmatch --deduplicate -z --killed --unmerged --directory --exclude:glob -x:glob"
        ),
        revisions=False,
        traits=_COMPARES,
    ),
    "ls-tree": SubCommand(
        option_table(
            "-d -r -t -l -z --long --name-only --name-status --full-name --full-tree --abbrev?number", clusters=True
        ),
        names_files=False,
    ),
    "rev-parse": SubCommand(
        option_table(
            "--show-toplevel --abbrev-ref --short?number --verify --quiet --is-inside-work-tree --show-prefix "
            "--symbolic-full-name -q --git-dir --absolute-git-dir --show-cdup --is-bare-repository --all --branches "
            "--tags --remotes --git-common-dir --is-inside-git-dir --is-shallow-repository",
            clusters=False,
        ),
        names_files=False,
    ),
    "rev-list": SubCommand(
        option_table(
            "--count --all -n:number -# --max-count:number --since:text --until:text --after:text --before:text "
            "--no-merges --merges --first-parent --branches?glob --tags?glob --remotes?glob --left-right --reverse "
            "--author:pattern --grep:pattern --oneline --abbrev-commit --date-order --topo-order --parents --children",
            clusters=False,
        ),
        traits=_LISTS,
        names_files=False,
    ),
    "merge-base": SubCommand(option_table("-a --all --is-ancestor --octopus --fork-point", clusters=False)),
    "name-rev": SubCommand(option_table("--name-only --tags --always", clusters=False)),
    "cat-file": SubCommand(
        option_table("-t -s -e", clusters=False), needs=("-t", "-s", "-e"), most=1, names_files=False
    ),
    "count-objects": SubCommand(option_table("-vH --verbose --human-readable"), most=0),
    "show-ref": SubCommand(
        option_table(
            "-s -d -q --head --heads --tags --branches --hash?number --abbrev?number --dereference", clusters=False
        ),
        revisions=False,
        names_files=False,
    ),
    "symbolic-ref": SubCommand(option_table("-q --quiet --short", clusters=False), names_files=False, most=1),
    "shortlog": SubCommand(
        option_table("-snec --summary --numbered --email --committer --all --no-merges --since:text --until:text -#"),
        traits=_LISTS,
        names_files=False,
    ),
    "blame": SubCommand(
        option_table(
            "-L:list -s -e -w -l -t -c -f -n -M -C --show-email --show-name --show-number --date:date --porcelain -p "
            "--line-porcelain --root --since:text --abbrev:width",
            clusters=False,
        ),
        traits=frozenset({"blame", "worktree"}),
    ),
    "describe": SubCommand(
        option_table(
            "--tags --always --dirty --long --all --abbrev:number --exact-match --first-parent", clusters=False
        )
    ),
    "remote": SubCommand(option_table("-v --verbose", clusters=False), most=0, traits=frozenset({"remote"})),
    "remote get-url": SubCommand(option_table("--all --push", clusters=False), names_files=False, most=1),
    "worktree list": SubCommand(option_table("-v --verbose --porcelain -z", clusters=False), most=0),
    "check-ignore": SubCommand(
        option_table("-qvn --quiet --verbose --non-matching --no-index"), revisions=False, names_files=False
    ),
    "grep": SubCommand(
        option_table(
            "-iInhHlLcowWvEFGqpr -e:pattern -A:number -B:number -C:number -# -m:number --ignore-case --word-regexp "
            "--invert-match --full-name --extended-regexp --basic-regexp --fixed-strings --line-number --column "
            "--files-with-matches --name-only --files-without-match --count --color?word --no-color --break --heading "
            "--show-function --after-context:number --before-context:number --context:number --function-context "
            "--max-depth:number --cached --quiet --all-match --text -a --no-textconv --only-matching --recursive"
        ),
        traits=frozenset({"search"}),
        outside=False,
    ),
}
