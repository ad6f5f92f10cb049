"""Building blocks of command explanations, and the table of common commands."""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from vibe_jupyter.errors import ToolError
from vibe_jupyter.files.sizes import bytes_text
from vibe_jupyter.files.workspace import Located, Workspace
from vibe_jupyter.permissions.shell import UnknownCommand
from vibe_jupyter.permissions.shell.command_parts import WordOfPart, shell_words
from vibe_jupyter.permissions.shell.measuring import Meter, count_text, expand_glob
from vibe_jupyter.permissions.shell.options import CommandArgument
from vibe_jupyter.permissions.shell.read_only_commands import readers

if TYPE_CHECKING:
    from vibe_jupyter.protocol import Risk  # `vibe-jupyter permission` starts without pydantic

NAMES_SHOWN: Final = 3  # operands that are listed individually


class EffectTag(NamedTuple):
    """Label of an effect and its risk level."""

    words: str
    risk: "Risk"


HARMLESS: Final = EffectTag("Harmless", "low")
READS_OUTSIDE: Final = EffectTag("Reads outside the project", "low")
CHANGES: Final = EffectTag("Changes files", "medium")
RUNS_CODE: Final = EffectTag("Runs code", "medium")
DOWNLOADS: Final = EffectTag("Downloads", "medium")
INSTALLS: Final = EffectTag("Installs software", "medium")
STOPS: Final = EffectTag("Stops programs", "medium")
CHANGES_GIT: Final = EffectTag("Changes the repository", "medium")
CHANGES_SYSTEM: Final = EffectTag("Changes this computer", "medium")
UNKNOWN: Final = EffectTag("Unclear", "medium")
DELETES: Final = EffectTag("Can't be undone", "high")
LEAVES: Final = EffectTag("Leaves this computer", "high")
AFFECTS_OTHERS: Final = EffectTag("Affects others", "high")
READS_SECRETS: Final = EffectTag("Reads secrets", "high")
RUNS_DOWNLOADED: Final = EffectTag("Runs downloaded code", "high")
AS_ADMINISTRATOR: Final = EffectTag("Runs as administrator", "high")

CANNOT_TELL: Final = "Vibe can't tell what this does"


class Finding(NamedTuple):
    """Explanation of one command."""

    text: str  # sentence without its period; names are in backticks
    tag: EffectTag
    detail: str = ""  # further sentences, or ''
    action: str = ""  # effect as the label of a button, or '' for the default label


NOT_EXPLAINED: Final = Finding(CANNOT_TELL, UNKNOWN)


@dataclass(frozen=True)
class PartCall:
    """A command to explain."""

    words: Sequence[WordOfPart]
    workspace: Workspace
    here: Path | None  # working directory, or None if unknown
    meter: Meter | None  # None if nothing is to be measured
    explain_inner: "Callable[[PartCall], Finding]"  # explains a command started by this one
    fed_by: str = ""  # name of the command piped into this one, or ''

    @property
    def name(self) -> str:
        """Name of the program without its directory."""
        return os.path.basename(self.words[0].text)

    @property
    def arguments(self) -> Sequence[WordOfPart]:
        """All words but the name."""
        return self.words[1:]

    def has(self, *options: str) -> bool:
        """Return whether one of the options is given. ``-rf`` counts as ``-r`` and ``-f``."""
        return any(_is_option(word.text, option) for word in self.arguments for option in options)

    def value(self, *options: str) -> WordOfPart | None:
        """Return the value of an option, from the same word or the next one."""
        for at, word in enumerate(self.arguments):
            name, equals, inside = word.text.partition("=")
            if name in options and equals:
                return word._replace(text=inside, raw=inside)
            if word.text in options:
                return self.arguments[at + 1] if at + 1 < len(self.arguments) else None
        return None

    def operands(self, valued: str = "", long: Sequence[str] = ()) -> list[WordOfPart]:
        """Return the arguments that aren't options.

        Args:
            valued: Letters of options that take the next word as their value.
            long: Long options that do.
        """
        out: list[WordOfPart] = []
        words = iter(self.arguments)
        for word in words:
            if word.text == "--":
                return [*out, *words]
            if not word.text.startswith("-") or word.text == "-":
                out.append(word)
            elif word.text in long or (not word.text.startswith("--") and word.text[-1] in valued):
                next(words, None)
        return out

    def inner(self, words: Sequence[WordOfPart]) -> Finding:
        """Explain a command started by this one."""
        if not words:
            return NOT_EXPLAINED
        return self.explain_inner(PartCall(words, self.workspace, self.here, self.meter, self.explain_inner))

    def located(self, word: WordOfPart) -> Located | None:
        """Resolve a path, or return None if that is impossible."""
        if not word.literal or word.wild or self.here is None:
            return None
        try:
            return self.workspace.resolve(str(self.here / word.text))
        except ToolError:
            return None

    def paths(self, words: Sequence[WordOfPart]) -> list[Path] | None:
        """Resolve words to paths, expanding globs against the file system. None if they can't be resolved."""
        if self.here is None or not all(word.literal for word in words):
            return None
        here = self.here
        return [path for word in words for path in (expand_glob(word.text, here) if word.wild else [here / word.text])]


@dataclass(frozen=True)
class Words:
    """Sentence templates for a command."""

    on: str  # template, with `{}` for the operands
    alone: str = ""  # text without operands, or '' if the effect is unknown then
    tag: EffectTag = HARMLESS
    valued: str = ""  # letters of options that take the next word as their value
    risky: Mapping[str, EffectTag] = field(default_factory=dict[str, EffectTag])  # options that change the effect
    opens: bool = True  # True if the operands are files that the command reads

    def explain(self, call: PartCall) -> Finding:
        """Describe a call with the templates."""
        for option, tag in self.risky.items():
            if call.has(option):
                return Finding(f"Runs `{call.name}` with `{option}`, which changes files", tag)
        operands = call.operands(self.valued)
        text = self.on.format(name_list(operands)) if operands else self.alone
        if not text:
            return NOT_EXPLAINED
        if self.tag is not HARMLESS:
            return Finding(text, self.tag)
        found = reading(call, operands, text) if self.opens else Finding(text, self.tag)
        return found if found.tag is READS_SECRETS or only_reads(call) else NOT_EXPLAINED


def _is_option(word: str, option: str) -> bool:
    if option.startswith("--"):
        return word == option or word.startswith(f"{option}=")
    return word.startswith("-") and not word.startswith("--") and option[1:] in word[1:]


def only_reads(call: PartCall) -> bool:
    """Return whether the options of a command are known to make it only read, wherever its operands are."""
    arguments = [CommandArgument(word.text) for word in call.arguments]
    row = readers().get(call.name)
    try:
        if row is not None and not row.words:
            row.parse(arguments, call.name)
    except UnknownCommand:
        return False
    return True


def name_list(words: Sequence[WordOfPart]) -> str:
    """List names in backticks, at most `NAMES_SHOWN`: "`a`, `b` and 3 more"."""
    shown = [f"`{word.raw}`" for word in words[:NAMES_SHOWN]]
    if len(words) > NAMES_SHOWN:
        return f"{', '.join(shown)} and {len(words) - NAMES_SHOWN:,} more"
    return " and ".join(filter(None, (", ".join(shown[:-1]), shown[-1]))) if shown else ""


def reading(call: PartCall, operands: Sequence[WordOfPart], text: str) -> Finding:
    """Describe a command that only reads its operands, with the risk of the places they are in."""
    places = [place for word in operands if (place := call.located(word)) is not None]
    for place in places:
        if why := place.protection("read"):
            return Finding(text, READS_SECRETS, f"{place.shown} {why}.", "read secrets")
    outside = any(not place.inside for place in places)
    return Finding(text, READS_OUTSIDE if outside else HARMLESS)


def deleting(call: PartCall, words: Sequence[WordOfPart], verb: str = "Deletes") -> Finding:
    """Describe a command that deletes its operands, with their number and size."""
    paths = call.paths(words) if call.meter is not None else None
    if paths is None or call.meter is None:
        named = name_list(words) or "what it finds"
        return Finding(f"{verb} {named}; what is deleted doesn't go to the trash", DELETES, "", "delete files")
    sizes = [(path, call.meter.size_of(path)) for path in paths]
    there = [(path, size) for path, size in sizes if size is not None]
    missing = [word for word in words if not word.wild and call.here and not os.path.lexists(call.here / word.text)]
    if not there:
        return Finding(f"{verb} {name_list(words)}, which isn't there now", DELETES, "", "delete files")
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
    text = f"{verb} {what} ({more and 'over '}{size}); {pronoun} go to the trash"
    return Finding(text, DELETES, " ".join(details), f"delete {counted}")


def _shown_path(path: Path, call: PartCall) -> str:
    normal = os.path.normpath(path)
    root = str(call.workspace.root)
    return os.path.relpath(normal, root) if normal.startswith(f"{root}{os.sep}") else normal


def overwriting(call: PartCall, word: WordOfPart, text: str) -> Finding:
    """Describe a command that writes a file, and warn if one would be replaced."""
    if call.here is not None and word.literal and not word.wild:
        target = call.here / word.text
        size = call.meter.size_of(target) if call.meter is not None and target.is_file() else None
        if size is not None and size.bytes:
            return Finding(text, CHANGES, f"`{word.raw}` exists ({bytes_text(size.bytes)}): its content is replaced.")
    return Finding(text, CHANGES)


def _copy(call: PartCall) -> Finding:
    operands = call.operands("tS", ("--target-directory", "--suffix"))
    target = call.value("-t", "--target-directory")
    if target is None and len(operands) > 1:
        *operands, target = operands
    if target is None or not operands:
        return NOT_EXPLAINED
    verb = "Copies" if call.name == "cp" else "Moves"
    text = f"{verb} {name_list(operands)} to `{target.raw}`"
    secret = reading(call, operands, text)
    return secret if secret.tag is READS_SECRETS else overwriting(call, target, text)


def _remove(call: PartCall) -> Finding:
    words = call.operands()
    return deleting(call, words) if words else NOT_EXPLAINED


def _change_mode(call: PartCall) -> Finding:
    operands = [word for word in call.arguments if not word.text.startswith("-") or word.text[1:2] in "rwx"]
    if len(operands) < 2:
        return NOT_EXPLAINED
    mode, *files = operands
    what = "who may read, change or run" if call.name == "chmod" else "who owns"
    below = " and everything in it" if call.has("-R", "--recursive") else ""
    return Finding(f"Changes {what} {name_list(files)}{below} (`{mode.raw}`)", CHANGES)


def _stream_edit(call: PartCall) -> Finding:
    in_place = any(word.text.startswith(("-i", "--in-place")) or _is_option(word.text, "-i") for word in call.arguments)
    files = call.operands("ef", ("--expression", "--file"))
    if not call.has("-e", "-f", "--expression", "--file"):
        files = files[1:]
    if in_place:
        return Finding(f"Edits {name_list(files) or 'files'} in place", CHANGES)
    if not only_reads(call):
        return NOT_EXPLAINED
    return reading(call, files, f"Shows {name_list(files) or 'its input'}, with changes")


def _search(call: PartCall) -> Finding:
    if call.has("--pre"):
        return NOT_EXPLAINED
    operands = call.operands("efmABCgtT", ("--include", "--exclude", "--glob", "--type"))
    pattern = call.value("-e", "--regexp", "--file") or (operands.pop(0) if operands else None)
    if pattern is None:
        return NOT_EXPLAINED
    where = name_list(operands) or ("its input" if call.fed_by else "the folder")
    return reading(call, operands, f"Searches {where} for `{pattern.raw}`")


def _select(call: PartCall) -> Finding:
    files = call.operands("f", ("--arg", "--argjson"))[1:]
    return reading(call, files, f"Shows parts of {name_list(files) or 'its input'}")


def _tee(call: PartCall) -> Finding:
    files = call.operands()
    if not files:
        return Finding("Passes its input on", HARMLESS)
    if call.has("-a", "--append"):
        return Finding(f"Appends its input to {name_list(files)}", CHANGES)
    return overwriting(call, files[0], f"Writes its input to {name_list(files)}")


# Letters and long options of tar that start no program and delete nothing.
_TAR_MODE: Final = re.compile(r"[xctvzjJapkmhfC]*")
_TAR_LONG: Final = frozenset(
    {
        *("--extract", "--create", "--list", "--file", "--verbose", "--gzip", "--bzip2", "--xz", "--zstd", "--exclude"),
        *("--directory", "--strip-components", "--auto-compress", "--wildcards"),
    }
)


def _archive(call: PartCall) -> Finding:
    first = call.arguments[0].text if call.arguments else ""
    mode = "" if first.startswith("--") else first.lstrip("-")
    file = call.value("-f", "--file")
    if file is None and "f" in mode and len(call.arguments) > 1:
        file = call.arguments[1]
    named = f"`{file.raw}`" if file is not None else "an archive"
    long = [word.text.partition("=")[0] for word in call.arguments if word.text.startswith("--")]
    short = [word.text[1:] for word in call.arguments if word.text.startswith("-") and not word.text.startswith("--")]
    if not all(map(_TAR_MODE.fullmatch, (mode, *short))) or not _TAR_LONG.issuperset(long):
        return NOT_EXPLAINED
    if "x" in mode or "--extract" in long:
        return Finding(f"Unpacks {named}; files of the same names are replaced", CHANGES)
    if "c" in mode or "--create" in long:
        return Finding(f"Packs files into {named}", CHANGES)
    if "t" in mode or "--list" in long:
        return Finding(f"Lists what is in {named}", HARMLESS)
    return NOT_EXPLAINED


def _raw_copy(call: PartCall) -> Finding:
    target = call.value("of")
    if target is None:
        return NOT_EXPLAINED
    if target.text.startswith("/dev/"):
        return Finding(f"Overwrites the device `{target.raw}`", DELETES, "", f"overwrite {target.text}")
    return overwriting(call, target, f"Writes raw data to `{target.raw}`")


def _kill(call: PartCall) -> Finding:
    words = [word for word in call.arguments if not word.text.startswith("-")]
    if call.has("-l", "-L"):
        return Finding("Lists signals", HARMLESS)
    what = "the process" if call.name == "kill" else "every program that matches"
    hard = " at once, without letting it save anything" if call.has("-9", "-KILL", "-SIGKILL") else ""
    return Finding(f"Stops {what} {name_list(words)}{hard}", STOPS) if words else NOT_EXPLAINED


def _shred(call: PartCall) -> Finding:
    files = call.operands("ns")
    return Finding(f"Destroys the content of {name_list(files)}", DELETES, "", "destroy files")


def _truncate(call: PartCall) -> Finding:
    files = call.operands("sr", ("--size", "--reference"))
    return Finding(f"Cuts {name_list(files)} to another size; what is cut off is lost", DELETES, "", "cut files")


def _always(text: str, tag: EffectTag, action: str = "") -> Callable[[PartCall], Finding]:
    return lambda call: Finding(text, tag, "", action)


_SHOWS: Final = Words("Shows {}", "Shows its input")
_NOTHING: Final = Words("Does nothing", "Does nothing", opens=False)
_PLAIN_READERS: Final[Mapping[str, Words]] = {
    "cat": _SHOWS,
    **dict.fromkeys(("tac", "nl", "rev", "fold", "fmt", "cut", "column", "paste", "expand"), _SHOWS),
    **dict.fromkeys(("od", "hexdump", "strings", "base64"), Words("Shows {}", "Shows its input", valued="nNtjAew")),
    "head": Words("Shows the beginning of {}", "Shows the beginning of its input", valued="nc"),
    "tail": Words("Shows the end of {}", "Shows the end of its input", valued="nc"),
    **dict.fromkeys(("less", "more"), Words("Shows {}", "Shows its input")),
    "wc": Words("Counts what is in {}", "Counts what is in its input"),
    "sort": Words("Sorts {}", "Sorts its input", valued="kt", risky={"-o": CHANGES, "--output": CHANGES}),
    "uniq": Words("Leaves repeated lines of {} out", "Leaves repeated lines of its input out", valued="fsw"),
    **dict.fromkeys(("md5sum", "sha1sum", "sha256sum", "sha512sum", "cksum"), Words("Computes checksums of {}")),
    "ls": Words("Lists {}", "Lists the folder"),
    "tree": Words("Lists {}", "Lists the folder", valued="LIP", risky={"-o": CHANGES}),
    "du": Words("Measures {}", "Measures the folder", valued="d"),
    "df": Words("Shows how full the disk of {} is", "Shows how full the disks are"),
    **dict.fromkeys(("stat", "file"), Words("Shows what {} is")),
    **dict.fromkeys(("diff", "cmp", "comm"), Words("Compares {}")),
    "join": Words("Joins {}", valued="12jtao"),
    "tr": Words("Replaces characters of its input", "Replaces characters of its input", opens=False),
    "echo": Words("Prints text", "Prints an empty line", opens=False),
    "printf": Words("Prints text", opens=False),
    "seq": Words("Prints numbers", opens=False),
    **dict.fromkeys(("basename", "dirname", "realpath", "readlink"), Words("Prints parts of the path {}", opens=False)),
    **dict.fromkeys(("which", "type", "whereis"), Words("Shows where {} is", opens=False)),
    "pwd": Words("Prints the current folder", "Prints the current folder"),
    **dict.fromkeys(("whoami", "id", "groups"), Words("Shows the user {}", "Shows the current user", opens=False)),
    "date": Words("Shows the date", "Shows the date", risky={"-s": CHANGES_SYSTEM, "--set": CHANGES_SYSTEM}),
    **dict.fromkeys(
        ("uname", "hostname", "uptime", "free", "nproc", "lscpu"), Words("", "Shows facts about this computer")
    ),
    "ps": Words("Lists running programs", "Lists running programs"),
    "history": Words("", "Shows the commands typed before"),
    **dict.fromkeys(("true", ":", "false", "exit", "return", "break", "continue"), _NOTHING),
    "sleep": Words("Waits {} seconds", opens=False),
    "test": Words("Tests a condition", "Tests a condition", opens=False),
    "read": Words("Reads a line into {}", "Reads a line", opens=False),
    **dict.fromkeys(("wait", "jobs"), Words("Waits for other parts", "Waits for other parts", opens=False)),
    "set": Words("Sets options of the shell", "Shows variables of the shell", opens=False),
}
_WRITERS: Final[Mapping[str, Words]] = {
    "mkdir": Words("Creates the folder {}", tag=CHANGES, valued="m"),
    "rmdir": Words("Deletes {} if it is empty", tag=CHANGES),
    "touch": Words("Creates {} if missing", tag=CHANGES, valued="dtr"),
    "ln": Words("Creates a link: {}", tag=CHANGES),
    "split": Words("Splits {} into files", tag=CHANGES, valued="blnaC"),
    "patch": Words("Changes files as {} says", "Changes files as its input says", CHANGES, valued="pid"),
    **dict.fromkeys(("gzip", "bzip2", "xz", "zstd"), Words("Compresses {} and replaces it", tag=CHANGES)),
    **dict.fromkeys(("gunzip", "bunzip2", "unxz"), Words("Unpacks {} and replaces it", tag=CHANGES)),
    "zip": Words("Packs files: {}", tag=CHANGES),
    "unzip": Words("Unpacks {}", tag=CHANGES, valued="dx"),
    **dict.fromkeys(("crontab",), Words("Changes the scheduled commands: {}", tag=CHANGES_SYSTEM)),
    **dict.fromkeys(("open", "xdg-open"), Words("Opens {} in another program", tag=RUNS_CODE)),
    **dict.fromkeys(("source", "."), Words("Runs the commands in {}, which can do anything", tag=RUNS_CODE)),
}

# Command -> function that describes a call.
EVERYDAY: Final[Mapping[str, Callable[[PartCall], Finding]]] = {
    **{name: words.explain for name, words in {**_PLAIN_READERS, **_WRITERS}.items()},
    **dict.fromkeys(("cp", "mv", "install"), _copy),
    **dict.fromkeys(("rm", "unlink"), _remove),
    **dict.fromkeys(("chmod", "chown", "chgrp"), _change_mode),
    **dict.fromkeys(("grep", "egrep", "fgrep", "rg", "ag"), _search),
    "jq": _select,
    "sed": _stream_edit,
    "tee": _tee,
    "tar": _archive,
    "dd": _raw_copy,
    **dict.fromkeys(("kill", "pkill", "killall"), _kill),
    "shred": _shred,
    "truncate": _truncate,
    **dict.fromkeys(
        ("shutdown", "reboot", "halt", "poweroff"),
        _always("Turns this computer off or restarts it", DELETES, "turn this computer off"),
    ),
    **dict.fromkeys(
        ("mkfs", "mkfs.ext4", "fdisk", "parted", "wipefs"),
        _always("Erases or repartitions a disk", DELETES, "erase a disk"),
    ),
    **dict.fromkeys(
        ("mail", "sendmail", "mutt", "nc", "ncat", "netcat", "telnet"),
        _always("Sends data to another computer", LEAVES, "send data"),
    ),
}


def command_text(words: Sequence[WordOfPart]) -> str:
    """Format the words of a started command as inline code."""
    return f"`{shell_words(words)}`"
