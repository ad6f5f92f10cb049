"""Tab in a prompt: sub-commands, options and their values on the magic's line; variables and paths after ``@``.

Registered by `%load_ext`, so it imports nothing heavy: settings and tools come with the first Tab that asks for them.
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

IDENTIFIER: Final = "vibe_jupyter"
"""Under which IPython knows the matcher, for `IPCompleter.disable_matchers` too."""
_PRIORITY: Final = 2_000
"""Before jedi: what it would say of a prompt is noise, and slow."""
_CELL: Final = lazy_pattern(r"\s*%%vibe(?=\s|$)")
_LINE: Final = lazy_pattern(r"[ \t]*%{1,2}vibe[ \t]+(?P<words>.*)")
_SLASH: Final = lazy_pattern(r"(?:--\S+[ \t]+)*(?=/)(?P<before>(?:\S+[ \t]+)*)(?P<last>\S*)$")
"""On the magic's line a skill, or a prompt of an MCP server: ``/server:prompt name=value``."""
_FIRST_WORD: Final = lazy_pattern(r"\s*(?P<last>/\S*)")
"""Of a cell's prompt."""
_MAGIC: Final = lazy_pattern(r"\s*%{1,2}vibe(?=\s|$)")
_CELLS: Final = 30
"""Cells offered after ``@``."""
_TURNS: Final = ("10", "50", "200")
"""Offered after --max-turns."""


class ServerOffers(Protocol):
    """What MCP servers that run offer beside tools."""

    def servers(self) -> Iterable[str]:
        """Names of those with resources."""
        ...

    def resources(self, server: str) -> Iterable[str]:
        """Addresses on a server."""
        ...

    def prompts(self) -> Iterable[str]:
        """As ``/server:prompt``."""
        ...

    def arguments(self, words: str, last: str) -> Iterable[str]:
        """What may follow these words of a call, where `last` was begun."""
        ...


class CompletionMatch:
    """What fits, and the end of the text it replaces."""

    def __init__(self, fragment: str, texts: Iterable[str], kind: str) -> None:
        self.fragment = fragment
        folded = fragment.casefold()
        self.completions = [SimpleCompletion(text=one, type=kind) for one in texts if one.casefold().startswith(folded)]


class TabSources(NamedTuple):
    """Where names come from, each asked when Tab needs it."""

    folder: Callable[[], Path]
    """Where relative paths begin."""
    tools: Callable[[], Iterable[str]]
    """Names of the tools; building them is left until they are asked for."""
    servers: Callable[[], Iterable[str]]
    """Names of the MCP servers that are declared."""
    agents: Callable[[], Iterable[str]]
    """Names of the agents that can take a prompt."""
    sessions: Callable[[], Iterable[str]]
    """Ids of the conversations that are saved."""
    skills: Callable[[], Iterable[str]]
    """Slash commands of skills."""
    offers: Callable[[], ServerOffers | None]
    """None before the first prompt, when no server runs."""


class Completion:
    """Knows what may follow in a prompt. Main thread only."""

    def __init__(self, shell: InteractiveShell, sources: TabSources) -> None:
        self._shell = cast(Any, shell)
        self._sources = sources

    def register(self) -> None:
        """Offer this to IPython; takes the place of an earlier one."""
        unregister_completion(self._shell)
        matchers = _custom_matchers(self._shell)
        if matchers is not None:
            mark = cast(Any, completer).completion_matcher(identifier=IDENTIFIER, priority=_PRIORITY, api_version=2)
            matchers.append(mark(_as_function(self._match_context)))

    def models(self) -> list[str]:
        """See `KnownNames`."""
        return _model_names()

    def servers(self) -> list[str]:
        """See `KnownNames`."""
        return _known_names(self._sources.servers)

    def agents(self) -> list[str]:
        """See `KnownNames`."""
        return _known_names(self._sources.agents)

    def sessions(self) -> list[str]:
        """See `KnownNames`."""
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
        # Outside of a whole-cell prompt, what stands above the line is code.
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
        """Of the cells that ran, the newest first; one that ran again as it was has its newest number only."""
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
        """Skills and prompts of servers; behind one of these its arguments."""
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
        """Files and folders of the project; a folder's end is a slash, so that the next Tab goes on inside."""
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
    """Addresses after ``@server:``; those that a bare mention cannot hold are offered in quotes alone."""
    start = f"{begun.server}:"
    fitting = [uri for uri in offers.resources(begun.server) if begun.is_quoted or not re.search(r"[\s\"]", uri)]
    texts = [f'{start}{uri}"' if begun.is_quoted else f"{start}{uri}" for uri in fitting if uri]
    return CompletionMatch(start + begun.uri, texts, "path")


def unregister_completion(shell: InteractiveShell) -> None:
    """Take away what `register` put there."""
    matchers = _custom_matchers(shell)
    if matchers is not None:
        matchers[:] = [one for one in matchers if getattr(one, "matcher_identifier", "") != IDENTIFIER]


def _as_function(match: Matcher) -> Matcher:
    """IPython marks a matcher by attributes, which a bound method cannot take."""

    def matcher(context: CompletionContext) -> SimpleMatcherResult:
        return match(context)

    return matcher


def _custom_matchers(shell: InteractiveShell) -> list[Matcher] | None:
    """IPython's list of added matchers; None in a shell that completes nothing."""
    return cast("list[Matcher] | None", getattr(getattr(shell, "Completer", None), "custom_matchers", None))


def _open_option(words: list[str]) -> str | None:
    """The option whose value comes next, empty where another option may; None once the prompt has begun."""
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
    except VibeError:  # running the prompt says what is wrong; a Tab must not
        return []


def _model_names() -> list[str]:
    with without_working_folder():
        from vibe_jupyter import config

    try:
        return [*config.load_settings().model_names(), TOUR]
    except VibeError:
        return [TOUR]
