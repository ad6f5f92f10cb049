"""Table of all `%vibe` commands: help text, arguments and action.

The magic's dispatch, `%vibe help`, completion and the table in docs/commands.md are derived from `COMMANDS`. It is
imported with the extension, so actions import what they need when they run.
"""

import textwrap
from collections.abc import Callable, Iterable, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from vibe_jupyter.errors import ConfigError, NotebookError
from vibe_jupyter.options import PROMPT_HELP, RARE_OPTIONS_HELP, SERVER_ACTIONS, SETTINGS_HELP
from vibe_jupyter.safe_imports import without_working_folder

if TYPE_CHECKING:
    from vibe_jupyter.app import App
    from vibe_jupyter.app.context_commands import ContextCommands

# Argument words after which the rest of the line can't be a prompt.
_NO_PROMPTS: Final = (("model", "check"), ("context", "drop"), ("undo", "list"))
_AS_PROMPT: Final = "To send it as a prompt, write it below %%vibe."
_USAGE_WIDTH: Final = 24  # characters of the help page's first column
_PAGE_WIDTH: Final = 80  # characters of a small terminal
_ON_A_SERVER: Final = frozenset(SERVER_ACTIONS) - {"add", "serve"}  # `%vibe mcp` actions that take the name of a server


class TypedCommand(NamedTuple):
    """A command as typed by the user."""

    words: Sequence[str]  # the words after the command's name
    text: str  # the same text with its blanks and quotes
    build_app: Callable[[], "App"]  # returns the kernel's app, which is created on first use
    present_app: "App | None"  # None before its first use


class KnownNames(Protocol):
    """Names for completion, looked up on demand."""

    def models(self) -> Iterable[str]:
        """Return the names and aliases of models."""
        ...

    def servers(self) -> Iterable[str]:
        """Return the names of declared MCP servers."""
        ...

    def agents(self) -> Iterable[str]:
        """Return the names of agents that can take a prompt."""
        ...

    def sessions(self) -> Iterable[str]:
        """Return the ids of saved conversations, latest first."""
        ...


class VibeCommand(NamedTuple):
    """A sub-command of `%vibe`."""

    name: str
    help: tuple[tuple[str, str], ...]  # lines of the help page: usage and description
    # Returns the text to print, which may be "", or None if the line isn't this command.
    run: Callable[[TypedCommand], str | None]
    following: tuple[str, ...] = ()  # possible arguments
    # Returns completions after the given arguments; None to offer just `following`.
    complete: Callable[[Sequence[str], KnownNames], Iterable[str]] | None = None
    is_prompt: bool = False  # True if it makes a prompt of any words that follow
    is_rare: bool = False  # True if only `%vibe help all` describes it; the short help page just lists its name

    def completions(self, words: Sequence[str], names: KnownNames) -> Iterable[str]:
        """Return completions for the next argument."""
        if self.complete is not None:
            return self.complete(words, names)
        return () if words else self.following


def run_command(line: str, build_app: Callable[[], "App"], present_app: "App | None") -> str | None:
    """Run a line as a command. Returns the text to print, or None if the line is a prompt.

    Raises:
        ConfigError: A setting is invalid, or the line resembles a command without being one. It isn't sent as a prompt,
            which would cost tokens.
        NotebookError: The user interrupted a question.
    """
    name, *words = line.split() or ["help"]
    command = next((one for one in COMMANDS if one.name == name), None)
    call = TypedCommand(words, line.strip().removeprefix(name), build_app, present_app)
    if command is not None or name in ("--help", "-h"):
        said = (command or _HELP).run(call)
        if said is not None:
            return said
    _refuse_misspelt(command, call, name)
    return None


def help_page(*, whole: bool = False) -> str:
    """Return the output of `%vibe help`: a page for a small terminal, or the whole list."""
    shown = [command for command in COMMANDS if whole or not command.is_rare]
    lines = [f"{usage:<{_USAGE_WIDTH}}{words}" for command in shown for usage, words in command.help]
    if whole:
        return "\n".join([PROMPT_HELP, RARE_OPTIONS_HELP, *lines, SETTINGS_HELP])
    rare = ", ".join(command.name for command in COMMANDS if command.is_rare)
    more = textwrap.fill(f"More, listed by %vibe help all: {rare}", _PAGE_WIDTH)
    return "\n".join([PROMPT_HELP, *lines, more, SETTINGS_HELP])


def _help(call: TypedCommand) -> str | None:
    return help_page(whole=bool(call.words)) if call.words in ([], ["all"]) else None


def _refuse_misspelt(command: VibeCommand | None, call: TypedCommand, name: str) -> None:
    with without_working_folder():
        from vibe_jupyter.commands.misspelt import is_word_behind, meant_command
    words = call.words
    if command is None:
        known = {one.name: one.following for one in COMMANDS}
        if meant := meant_command(name, words, known, lambda line: call.build_app().skills.are_called(line)):
            raise ConfigError(f"There is no command {name!r}. Did you mean %vibe {meant}? {_AS_PROMPT}")
        return
    if command.is_prompt:
        return
    written = f"%vibe {' '.join([name, *words])}"
    if not words or (len(words) == 1 and words[0] in command.following):
        raise ConfigError(f"{written} lacks a word: it is written {command.help[0][0]}. {_AS_PROMPT}")
    if len(words) == 1 or is_word_behind(command.following, words[0]) or (name, words[0]) in _NO_PROMPTS:
        known = ", ".join([f"%vibe {name}", *(f"%vibe {name} {word}" for word in command.following)])
        raise ConfigError(f"There is no {written}. There is: {known}. {_AS_PROMPT}")


def _alone(run: Callable[[TypedCommand], str]) -> Callable[[TypedCommand], str | None]:
    """Wrap an action so that it rejects arguments."""
    return lambda call: None if call.words else run(call)


def _stop_run(call: TypedCommand) -> str:
    return "No run is active." if call.present_app is None else call.present_app.stop()


def _show_config(call: TypedCommand) -> str | None:
    if call.words not in ([], ["path"]):
        return None
    setup = call.build_app().setup
    with without_working_folder():
        from vibe_jupyter.config.listing import list_places, list_settings
    if call.words:
        return list_places(setup.environ, str(setup.project.folder))
    with without_working_folder():
        from vibe_jupyter.app.hooks import list_hooks
    current = setup.current()
    reading, hooks = current.reading, setup.strike()(list_hooks(current))
    return f"{list_settings(reading, setup.environ)}\n\n{hooks}\n\n{setup.redaction(reading.settings)}"


def _trust_folder(call: TypedCommand) -> str | None:
    if not call.words:
        return call.build_app().trusting.command()
    if call.words != ["forget"]:
        return None
    project = call.build_app().setup.project
    return "Forgotten: you will be asked again." if project.forget() else f"No decision is saved for {project.folder}."


def _show_permissions(call: TypedCommand) -> str | None:
    match call.words:
        case []:
            return call.build_app().grants.listing()
        case ["revoke", *_]:
            return call.build_app().grants.revoke(call.text.strip().removeprefix("revoke"))
        case _:
            return None


def _manage_servers(call: TypedCommand) -> str:
    app = call.build_app()
    if call.words[:1] == ["serve"]:
        return app.outside.command(list(call.words[1:]))
    servers = app.mcp.present
    with without_working_folder():
        from vibe_jupyter.commands.mcp import mcp_command
    return mcp_command(call.text, servers, app.setup, say=print)


def _serve_gateway(call: TypedCommand) -> str | None:
    try:
        with without_working_folder():
            from vibe_jupyter.commands.serve import GATEWAY
    except ImportError as error:
        raise ConfigError(
            f"{error.name} is missing. Install it with: %pip install 'vibe-jupyter[gateway]', then restart the kernel."
        ) from error
    match call.words:
        case [] | ["status"]:
            return GATEWAY.status()
        case ["start"]:
            return GATEWAY.start(call.build_app().folder)
        case ["stop"]:
            return GATEWAY.stop()
        case _:
            return None


def _choose_model(call: TypedCommand) -> str | None:
    match call.words:
        case []:
            return call.build_app().models.listing()
        case ["check", *names] if len(names) < 2:
            models = call.build_app().models
            with without_working_folder():
                from vibe_jupyter.app.model_check import check_model
            check_model(models.current(*names), print, whole=True)
            return ""
        case [name]:
            return call.build_app().models.choose(name)
        case [name, *_]:
            _refuse_name_and_prompt("model", name, dict(call.build_app().models.choices()))
            return None
        case _:
            return None


def _refuse_name_and_prompt(command: str, name: str, known: Iterable[str]) -> None:
    """Check that no prompt follows a name in a `%vibe model` or `%vibe agent` line.

    Raises:
        ConfigError: One does. It would be sent, including the name, to the previous model or agent.
    """
    if name in known or "@http" in name:
        raise ConfigError(
            f"%vibe {command} {name} chooses the {command} from the next prompt on, and takes no prompt itself. "
            f"For one prompt alone: %%vibe --{command} {name}, with the prompt below it. {_AS_PROMPT}"
        )


def _choose_agent(call: TypedCommand) -> str | None:
    app = call.build_app()
    if len(call.words) > 1:
        _refuse_name_and_prompt("agent", call.words[0], app.setup.agent_names())
        return None
    if not call.words:
        return app.setup.list_agents()
    if app.is_serving:  # code of a run must not select an agent with more permissions
        raise NotebookError("A run is active in this kernel. Choose the agent when it is over.")
    return app.setup.choose_agent(call.words[0])


def _show_sent(call: TypedCommand) -> str | None:
    if len(call.words) > 1:
        return None
    with without_working_folder():
        from vibe_jupyter.commands.sent import sent_command
    sent = call.present_app.sessions.sent if call.present_app is not None else None
    return sent_command(sent, *call.words)


def _show_context(call: TypedCommand) -> str | None:
    match call.words:
        case []:
            return _context_commands(call).show()
        case ["drop", number] if number.isdecimal():
            return _context_commands(call).drop(int(number))
        case _:
            return None


def _list_sessions(call: TypedCommand) -> str | None:
    if call.words not in ([], ["all"]):
        return None
    return _session_commands().list_command(call.build_app().sessions, everywhere=bool(call.words))


def _resume_session(call: TypedCommand) -> str:
    return call.build_app().sessions.resume(call.text.strip())


def _fork_session(call: TypedCommand) -> str | None:
    return call.build_app().sessions.fork(*call.words) if len(call.words) < 2 else None


def _rename_session(call: TypedCommand) -> str | None:
    return f"{call.build_app().sessions.rename(call.text)} {_AS_PROMPT}" if call.words else None


def _delete_session(call: TypedCommand) -> str | None:
    match call.words:
        case [name]:
            return _session_commands().delete_command(call.build_app().sessions, name, is_sure=False)
        case [name, "yes"]:
            return _session_commands().delete_command(call.build_app().sessions, name, is_sure=True)
        case _:
            return None


def _compact(call: TypedCommand) -> str:
    return _context_commands(call).compact(call.text.strip())


def _context_commands(call: TypedCommand) -> "ContextCommands":
    parts = call.build_app().context
    with without_working_folder():
        from vibe_jupyter.app.context_commands import ContextCommands
    return ContextCommands(parts)


def _export_session(call: TypedCommand) -> str | None:
    if len(call.words) > 2:
        return None
    return _session_commands().export_command(call.build_app().sessions, call.words)


def _show_history(call: TypedCommand) -> str | None:
    match call.words:
        case []:
            return _session_commands().history_command(call.build_app().sessions)
        case [number] if number.isdecimal():
            return _session_commands().recall_command(call.build_app().sessions, int(number))
        case _:
            return None


def _session_commands() -> ModuleType:
    with without_working_folder():
        from vibe_jupyter.commands import sessions
    return sessions


def _undo_run(call: TypedCommand) -> str | None:
    with without_working_folder():
        from vibe_jupyter.commands.undo import undo_command
    return undo_command(call.build_app(), call.words)


def _verify_notebook(call: TypedCommand) -> str | None:
    if len(call.words) > 1:
        return None
    with without_working_folder():
        from vibe_jupyter.commands.verify import verify_command
    return verify_command(call.build_app(), *call.words)


def _write_report(call: TypedCommand) -> str:
    with without_working_folder():
        from vibe_jupyter.commands.report import report_command
    return report_command(call.build_app())


def _show_prompt(call: TypedCommand) -> str | None:
    if len(call.words) > 1:
        return None
    app = call.build_app()
    with without_working_folder():
        from vibe_jupyter.app.app import list_prompt_layers
        from vibe_jupyter.commands.prompt import prompt_command
    return prompt_command(list_prompt_layers(app), *call.words)


def _set_autoload(call: TypedCommand) -> str | None:
    with without_working_folder():
        from vibe_jupyter.commands.autoload import autoload_command
    return autoload_command(call.words)


def _set_up(call: TypedCommand) -> str:
    app = call.build_app()
    if app.is_serving:  # code of a run must not choose where prompts are sent
        raise NotebookError("A run is active in this kernel. Connect a model when it is over.")
    with without_working_folder():
        from vibe_jupyter.commands.setup import setup_command
    return setup_command(app, print)


def _leave_to_prompt(_: TypedCommand) -> None:
    return None


def _model_words(words: Sequence[str], names: KnownNames) -> Iterable[str]:
    match words:
        case []:
            return [*names.models(), "check"]
        case ["check"]:
            return names.models()
        case _:
            return ()


def _agent_words(words: Sequence[str], names: KnownNames) -> Iterable[str]:
    return () if words else names.agents()


def _undo_words(words: Sequence[str], _: KnownNames) -> Iterable[str]:
    return () if words else ("list",)


def _no_words(_: Sequence[str], __: KnownNames) -> Iterable[str]:
    return ()


def _session_words(words: Sequence[str], names: KnownNames) -> Iterable[str]:
    return () if words else names.sessions()


def _server_words(words: Sequence[str], names: KnownNames) -> Iterable[str]:
    if len(words) == 1 and words[0] in _ON_A_SERVER:
        return names.servers()
    return () if words else SERVER_ACTIONS


_HELP: Final = VibeCommand("help", (("%vibe help [all]", "this page; or every command"),), _help, following=("all",))

# In the order of the help page.
COMMANDS: Final = (
    VibeCommand(
        "fix", (("%vibe fix", "fix the last error; the prompt includes its frames"),), _leave_to_prompt, is_prompt=True
    ),
    VibeCommand(
        "model",
        (("%vibe model [NAME]", "choose a model; `tour` needs no key, `check` tests it"),),
        _choose_model,
        following=("NAME", "check [NAME]"),
        complete=_model_words,
    ),
    VibeCommand(
        "agent",
        (("%vibe agent [NAME]", "choose an agent: what it may do, and how it works"),),
        _choose_agent,
        following=("NAME",),
        complete=_agent_words,
    ),
    VibeCommand("setup", (("%vibe setup", "connect a model: provider, key, and a test"),), _alone(_set_up)),
    VibeCommand(
        "autoload",
        (("%vibe autoload [on]", "load %vibe in every new kernel; `off` ends it"),),
        _set_autoload,
        following=("on", "off"),
        is_rare=True,
    ),
    VibeCommand("config", (("%vibe config [path]", "every setting, and where it was set"),), _show_config, ("path",)),
    VibeCommand(
        "mcp",
        (("%vibe mcp [tools]", "MCP servers; add, remove, restart; `serve` this notebook"),),
        _manage_servers,
        following=SERVER_ACTIONS,
        complete=_server_words,
    ),
    VibeCommand(
        "serve",
        (("%vibe serve [start]", "MCP tools for other programs, as an API; `stop` ends it"),),
        _serve_gateway,
        following=("start", "stop", "status"),
        is_rare=True,
    ),
    VibeCommand(
        "skills",
        (("%vibe skills", "the skills there are, and what is wrong with their files"),),
        _alone(lambda call: call.build_app().skills.listing()),
        is_rare=True,
    ),
    VibeCommand(
        "trust",
        (("%vibe trust [forget]", "this folder's settings and tools, and if they are used"),),
        _trust_folder,
        following=("forget",),
        is_rare=True,
    ),
    VibeCommand(
        "permissions",
        (("%vibe permissions", "what you allowed in advance; `revoke N` removes an entry"),),
        _show_permissions,
        following=("revoke",),
    ),
    VibeCommand(
        "status",
        (("%vibe status", "model, server, agent, conversation, permissions"),),
        _alone(lambda call: call.build_app().status()),
    ),
    VibeCommand(
        "sent",
        (("%vibe sent [PART]", "the last request by part, with tokens; or a part as sent"),),
        _show_sent,
        following=("system", "tools", "report", "messages", "images", "settings", "all"),
        is_rare=True,
    ),
    VibeCommand(
        "prompt",
        (("%vibe prompt [PART]", "the system prompt by part, with tokens"),),
        _show_prompt,
        following=("base", "signature", "model", "platform", "tools", "servers", "skills", "sub-agents", "project"),
        is_rare=True,
    ),
    VibeCommand(
        "context",
        (("%vibe context [drop N]", "tokens of the next request by part; or leave one out"),),
        _show_context,
        following=("drop",),
        is_rare=True,
    ),
    VibeCommand(
        "compact",
        (("%vibe compact [TEXT]", "summarise the conversation now; TEXT: what to keep"),),
        _compact,
        following=("TEXT",),
        is_rare=True,
    ),
    VibeCommand(
        "sessions",
        (("%vibe sessions [all]", "saved conversations of this folder, or all"),),
        _list_sessions,
        following=("all",),
    ),
    VibeCommand(
        "resume",
        (("%vibe resume [ID]", "continue the latest here, or one by id or title"),),
        _resume_session,
        following=("ID",),
        complete=_session_words,
        is_rare=True,
    ),
    VibeCommand(
        "fork",
        (("%vibe fork [ID]", "go on in a copy of a conversation"),),
        _fork_session,
        following=("ID",),
        complete=_session_words,
        is_rare=True,
    ),
    VibeCommand("rename", (("%vibe rename TITLE", "give the conversation a title"),), _rename_session, is_rare=True),
    VibeCommand(
        "delete",
        (("%vibe delete ID [yes]", "remove a saved one; asks, unless `yes` follows"),),
        _delete_session,
        following=("ID",),
        complete=_session_words,
        is_rare=True,
    ),
    VibeCommand(
        "export",
        (("%vibe export [FILE]", "write the conversation, or `ID FILE`, as .md or .json"),),
        _export_session,
        following=("ID", "FILE"),
        complete=_session_words,
        is_rare=True,
    ),
    VibeCommand(
        "history",
        (("%vibe history [N]", "earlier prompts; N puts one into the next cell"),),
        _show_history,
        following=("N",),
        is_rare=True,
    ),
    VibeCommand(
        "undo",
        (("%vibe undo [N]", "restore what the last run changed; `list` the runs"),),
        _undo_run,
        following=("N", "list"),
        complete=_undo_words,
    ),
    VibeCommand(
        "verify",
        (("%vibe verify [CELL]", "run the notebook in a fresh kernel, effects included: which cells differ"),),
        _verify_notebook,
        following=("CELL",),
        complete=_no_words,
        is_rare=True,
    ),
    VibeCommand(
        "report",
        (("%vibe report", "a methods section: data, steps, rows lost, who approved"),),
        _alone(_write_report),
        is_rare=True,
    ),
    VibeCommand(
        "reset",
        (("%vibe reset", "begin a new conversation; your variables stay"),),
        _alone(lambda call: call.build_app().reset()),
    ),
    VibeCommand("stop", (("%vibe stop", "end the current run (also: Stop in its output, ■)"),), _alone(_stop_run)),
    _HELP,
)
