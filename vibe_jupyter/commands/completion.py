"""Tab completion in a prompt: sub-commands and options on the magic's line, variables and paths after `@`.

Registered by `%load_ext`, so it imports nothing heavy: settings and tools are imported at the first Tab that needs
them.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol, cast

from IPython.core import completer
from IPython.core.completer import CompletionContext, SimpleCompletion, SimpleMatcherResult
from IPython.core.interactiveshell import InteractiveShell

from vibe_jupyter.commands.registry import COMMANDS
from vibe_jupyter.context.mention_syntax import (
    Mention,
    ResourceMention,
    unfinished_cell,
    unfinished_mention,
    unfinished_resource,
)
from vibe_jupyter.errors import VibeError
from vibe_jupyter.kernel.ipython_types import user_names
from vibe_jupyter.lazy_patterns import lazy_pattern
from vibe_jupyter.options import OPTION_NAMES, TOUR
from vibe_jupyter.safe_imports import without_working_folder

Matcher = Callable[[CompletionContext], SimpleMatcherResult]

IDENTIFIER: Final = "vibe_jupyter"  # name of the matcher in IPython, for example in `IPCompleter.disable_matchers`
_PRIORITY: Final = 2_000  # above jedi, whose completions are slow and meaningless in a prompt
_CELL: Final = lazy_pattern(r"\s*%%vibe(?=\s|$)")
_LINE: Final = lazy_pattern(r"[ \t]*%{1,2}vibe[ \t]+(?P<words>.*)")
# A skill, or a prompt of an MCP server such as `/server:prompt name=value`, on the magic's line.
_SLASH: Final = lazy_pattern(r"(?:--\S+[ \t]+)*(?=/)(?P<before>(?:\S+[ \t]+)*)(?P<last>\S*)$")
_FIRST_WORD: Final = lazy_pattern(r"\s*(?P<last>/\S*)")  # the first word of a cell's prompt
_MAGIC: Final = lazy_pattern(r"\s*%{1,2}vibe(?=\s|$)")
_CELLS: Final = 30  # number of cells offered after `@`
_TURNS: Final = ("10", "50", "200")  # offered after --max-turns


class ServerOffers(Protocol):
    """Prompts and resources of running MCP servers."""

    def servers(self) -> Iterable[str]:
        """Return the names of servers with resources."""
        ...

    def resources(self, server: str) -> Iterable[str]:
        """Return the URIs of a server's resources."""
        ...

    def prompts(self) -> Iterable[str]:
        """Return the prompts as `/server:prompt`."""
        ...

    def arguments(self, words: str, last: str) -> Iterable[str]:
        """Return completions of `last`, the next argument after the words of a call."""
        ...


class CompletionMatch:
    """Matching completions, and the fragment that they replace."""

    def __init__(self, fragment: str, texts: Iterable[str], kind: str) -> None:
        self.fragment = fragment
        folded = fragment.casefold()
        self.completions = [SimpleCompletion(text=one, type=kind) for one in texts if one.casefold().startswith(folded)]


class TabSources(NamedTuple):
    """Sources of names, each called when a completion needs it."""

    folder: Callable[[], Path]  # folder that relative paths start from
    tools: Callable[[], Iterable[str]]  # names of the tools, which are only built when this is called
    servers: Callable[[], Iterable[str]]  # names of the declared MCP servers
    agents: Callable[[], Iterable[str]]  # names of the agents that can take a prompt
    sessions: Callable[[], Iterable[str]]  # ids of saved conversations
    skills: Callable[[], Iterable[str]]  # slash commands of skills
    offers: Callable[[], ServerOffers | None]  # None before the first prompt, when no server is running


class Completion:
    """Completion of prompts. Main thread only."""

    def __init__(self, shell: InteractiveShell, sources: TabSources) -> None:
        self._shell = cast(Any, shell)
        self._sources = sources

    def register(self) -> None:
        """Register the matcher with IPython, replacing an earlier one."""
        unregister_completion(self._shell)
        matchers = _custom_matchers(self._shell)
        if matchers is not None:
            mark = cast(Any, completer).completion_matcher(identifier=IDENTIFIER, priority=_PRIORITY, api_version=2)
            matchers.append(mark(_as_function(self._match_context)))

    def models(self) -> list[str]:
        return _model_names()

    def servers(self) -> list[str]:
        return _known_names(self._sources.servers)

    def agents(self) -> list[str]:
        return _known_names(self._sources.agents)

    def sessions(self) -> list[str]:
        return _known_names(self._sources.sessions)

    def _match_context(self, context: CompletionContext) -> SimpleMatcherResult:
        lines = context.full_text.split("\n")
        line = lines[context.cursor_line][: context.cursor_position]
        found = self._find_matches("\n".join([*lines[: context.cursor_line], line]), line)
        if found is None or not found.completions:
            return {"completions": []}
        return {
            "completions": found.completions,
            "matched_fragment": found.fragment,
            "ordered": True,
            "suppress": True,
        }

    def _find_matches(self, before: str, line: str) -> CompletionMatch | None:
        magic = _LINE.match(line)
        if magic is None and not (_CELL.match(before) and "\n" in before.lstrip()):
            return None
        # Without the cell magic, the lines above the line magic are code.
        prompt = line if magic else before.lstrip().partition("\n")[2]
        offers = self._sources.offers()
        resource = unfinished_resource(prompt)
        if resource is not None and offers is not None and resource.server in offers.servers():
            return _complete_resource(resource, offers)
        cell = unfinished_cell(prompt)
        if cell is not None:
            return CompletionMatch(cell, self._numbers(), "cell")
        mention = unfinished_mention(prompt)
        if mention is not None:
            return self._complete_mention(mention)
        if magic is not None:
            return self._on_magic_line(magic["words"], is_cell=line.lstrip().startswith("%%"))
        begun = _FIRST_WORD.fullmatch(prompt)
        return None if begun is None else self._complete_slash("", begun["last"])

    def _complete_mention(self, mention: Mention) -> CompletionMatch:
        if mention.is_quoted or "/" in mention.text:
            return CompletionMatch(mention.text, self._complete_paths(mention), "path")
        names = user_names(self._shell.user_ns, self._shell.user_ns_hidden)
        found = CompletionMatch(mention.text, sorted(names), "instance")
        found.completions += CompletionMatch(mention.text, self._complete_paths(mention), "path").completions
        if not mention.text:
            found.completions += CompletionMatch("", self._numbers(), "cell").completions
        offers = self._sources.offers()
        if offers is not None and mention.text:
            found.completions += CompletionMatch(
                mention.text, [f"{name}:" for name in offers.servers()], "path"
            ).completions
        return found

    def _numbers(self) -> list[str]:
        """Return the numbers of executed cells, newest first. Repeated sources only get their newest number."""
        inputs = self._shell.history_manager.input_hist_raw
        ran = {source.strip(): number for number, source in enumerate(inputs) if number and not _MAGIC.match(source)}
        return [f"[{number}]" for source, number in sorted(ran.items(), key=lambda one: -one[1]) if source][:_CELLS]

    def _on_magic_line(self, words: str, *, is_cell: bool) -> CompletionMatch | None:
        *before, last = re.split(r"[ \t]+", words)
        if (call := _SLASH.match(words)) is not None:
            return self._complete_slash(call["before"].rstrip(), call["last"])
        option = _open_option(before)
        if option is None:
            command = next((one for one in COMMANDS if not is_cell and before[:1] == [one.name]), None)
            more = command.completions(before[1:], self) if command is not None else ()
            return CompletionMatch(last, more, "magic") if more else None
        if option:
            return self._complete_value(option, last)
        if last.startswith("--") and "=" in last:
            name, _, value = last.partition("=")
            return self._complete_value(name, value)
        if last.startswith("-"):
            return CompletionMatch(last, OPTION_NAMES, "magic")
        if last.startswith("/"):
            return self._complete_slash("", last)
        return CompletionMatch(last, sorted(one.name for one in COMMANDS if one.is_prompt or not is_cell), "magic")

    def _complete_slash(self, before: str, last: str) -> CompletionMatch:
        """Complete skills and server prompts, or the arguments after one of them."""
        offers = self._sources.offers()
        if before:
            return CompletionMatch(last, offers.arguments(before, last) if offers is not None else (), "magic")
        prompts = offers.prompts() if offers is not None else ()
        return CompletionMatch(last, [*_known_names(self._sources.skills), *prompts], "magic")

    def _complete_value(self, option: str, value: str) -> CompletionMatch | None:
        match option:
            case "--model":
                return CompletionMatch(value, _model_names(), "magic")
            case "--agent":
                return CompletionMatch(value, self.agents(), "magic")
            case "--max-turns":
                return CompletionMatch(value, _TURNS, "magic")
            case "--yes":
                return CompletionMatch(value.rpartition(",")[2], _known_names(self._sources.tools), "magic")
            case _:
                return None

    def _complete_paths(self, mention: Mention) -> Iterator[str]:
        """Yield files and folders of the project.

        Folders end in a slash, so that the next Tab completes inside them.
        """
        with without_working_folder():
            from vibe_jupyter.context.mentions import visible_names
            from vibe_jupyter.files.workspace import Workspace

        folder, slash, _ = mention.text.rpartition("/")
        try:
            located = Workspace(self._sources.folder()).resolve(f"{folder}/" if slash else ".")
        except (VibeError, OSError):
            return
        if not located.inside or located.protection("read"):
            return
        for name in visible_names(located):
            path = f"{folder}{slash}{name}"
            if mention.is_quoted:
                yield path if name.endswith("/") else f'{path}"'
            elif re.search(r"[^\w./+~=#%&$^-]", name) is None:
                yield path


def _complete_resource(begun: ResourceMention, offers: ServerOffers) -> CompletionMatch:
    """Complete URIs after `@server:`. URIs with blanks or quotes are only offered in a quoted mention."""
    start = f"{begun.server}:"
    fitting = [uri for uri in offers.resources(begun.server) if begun.is_quoted or not re.search(r"[\s\"]", uri)]
    texts = [f'{start}{uri}"' if begun.is_quoted else f"{start}{uri}" for uri in fitting if uri]
    return CompletionMatch(start + begun.uri, texts, "path")


def unregister_completion(shell: InteractiveShell) -> None:
    """Remove what `register` added."""
    matchers = _custom_matchers(shell)
    if matchers is not None:
        matchers[:] = [one for one in matchers if getattr(one, "matcher_identifier", "") != IDENTIFIER]


def _as_function(match: Matcher) -> Matcher:
    """Wrap a matcher in a function: IPython sets attributes on it, which bound methods don't support."""

    def matcher(context: CompletionContext) -> SimpleMatcherResult:
        return match(context)

    return matcher


def _custom_matchers(shell: InteractiveShell) -> list[Matcher] | None:
    """Return IPython's list of added matchers, or None in a shell without completion."""
    return cast("list[Matcher] | None", getattr(getattr(shell, "Completer", None), "custom_matchers", None))


def _open_option(words: list[str]) -> str | None:
    """Return the option that awaits a value, "" if an option may follow, or None once the prompt has begun."""
    waiting = ""
    for word in words:
        if waiting:
            waiting = ""
        elif not word.startswith("--"):
            return None
        elif "=" not in word:
            waiting = word
    return waiting


def _known_names(names: Callable[[], Iterable[str]]) -> list[str]:
    try:
        return sorted(names())
    except VibeError:  # running the prompt reports the error; completion must not
        return []


def _model_names() -> list[str]:
    with without_working_folder():
        from vibe_jupyter import config

    try:
        return [*config.load_settings().model_names(), TOUR]
    except VibeError:
        return [TOUR]
