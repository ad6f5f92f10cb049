"""The application object of a kernel: builds the parts and runs each prompt through them."""

import contextlib
import os
from collections.abc import Awaitable, Callable, Generator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from IPython.core.interactiveshell import InteractiveShell

from vibe_jupyter import config
from vibe_jupyter.agent.agent import Agent, Subagent
from vibe_jupyter.agent.engine import Engine, keep_quiet
from vibe_jupyter.agent.loop import start_run
from vibe_jupyter.app.background_cells import BackgroundCells
from vibe_jupyter.app.connect_form import ConnectForm, FormParts
from vibe_jupyter.app.deferred_tools import DeferredCustomTools, DeferredTools, LazyMcp, tool_lists
from vibe_jupyter.app.hooks import command_hooks, hold_guards
from vibe_jupyter.app.instructions import (
    Instructions,
    InstructionSources,
    SubagentTerms,
    default_shell,
    written_theme,
)
from vibe_jupyter.app.kernel_parts import ContextParts, McpParts, ToolParts, serving_parts
from vibe_jupyter.app.models import ModelChoice
from vibe_jupyter.app.project import CurrentSettings, KernelSettings, TrustApproval
from vibe_jupyter.app.prompt_report import PromptReport
from vibe_jupyter.app.run_rules import RunRules
from vibe_jupyter.app.run_view import BegunRun, Reply, RunSummary, RunView, working_folder
from vibe_jupyter.app.serving import NotebookServing
from vibe_jupyter.app.sessions import KernelSessions, SessionParts, end_other_mode, kept_in, status_line, whereabouts
from vibe_jupyter.app.shell_host import Kernel, ShellHost
from vibe_jupyter.app.skills import KernelSkills
from vibe_jupyter.app.subagents import Subagents
from vibe_jupyter.app.undo import CodeOfRuns, KernelUndo
from vibe_jupyter.app.verification import KernelVerification
from vibe_jupyter.context.executions import ExecutionLog
from vibe_jupyter.context.prompt_layers import LayerSources, PromptLayer, subagents_text, unasked_names
from vibe_jupyter.context.situation import Surroundings
from vibe_jupyter.errors import ConfigError, MissingModel, NotebookError
from vibe_jupyter.files.file_stamps import LatestMade
from vibe_jupyter.files.workspace import Workspace
from vibe_jupyter.kernel.interrupts import Presses
from vibe_jupyter.kernel.main_thread import MainThread
from vibe_jupyter.kernel.pump import Pump, QueuedCell
from vibe_jupyter.llm.request import Model
from vibe_jupyter.options import STOP_CELL, Options
from vibe_jupyter.permissions.decide import Permissions, RunTerms
from vibe_jupyter.permissions.grants import Grants, GrantStore
from vibe_jupyter.permissions.redaction import Redactor
from vibe_jupyter.protocol import Interrupt, Notice
from vibe_jupyter.safe_imports import without_working_folder
from vibe_jupyter.tools.contract import (
    BUILT_IN,
    READING_TOOLS,
    TASK,
    BriefToolset,
    FilteredToolset,
    JoinedToolsets,
    present_names,
)
from vibe_jupyter.tools.shell_path import why_no_shell
from vibe_jupyter.variables.own_words import allow_ai_repr

if TYPE_CHECKING:
    from vibe_jupyter.app.notebook_access import NotebookAccess
    from vibe_jupyter.notebook.replay import Replay
    from vibe_jupyter.ui.front_end import FrontEnd

# Used as the name of a redacted secret instead of a variable's name, because the key may come from the keyring.
_MODEL_KEY = "key of the model"


# A prompt in progress: yields each of its runs and receives that run's summary.
Steps = Generator[BegunRun, RunSummary, Reply]


class _MadeParts:
    """Cache of objects built from settings and environment, reused until those change."""

    def __init__(self) -> None:
        self.models = LatestMade[Model]()
        self.redactors = LatestMade[Redactor]()
        # The cache key, the sources and the text of the system prompt.
        self.prompt: tuple[object, InstructionSources, str] | None = None
        self.taken: object = None  # the settings and rules that tools and permissions were last built from


class App:
    """State of one kernel. Main thread only, except where its parts document otherwise."""

    def __init__(
        self,
        shell: InteractiveShell,
        pump: Pump | None,
        presses: Presses,
        *,
        front_end: "Callable[[], FrontEnd] | None" = None,
        read_ahead: "Replay | None" = None,
    ) -> None:
        self.folder = folder = working_folder()
        keep_quiet()
        self.setup = KernelSettings(folder, unsandboxed=("run_code",) if pump is None else ())
        self._rules, self._made = RunRules(self.setup), _MadeParts()
        self.models = ModelChoice(load=self.setup.settings)
        self._pump, self._presses, self._engine, self._main_thread = pump, presses, Engine(), MainThread(pump, presses)
        self._host = ShellHost(shell, self._main_thread, page_answers=self._page_answers, front_end=front_end)
        self._workspace, home = Workspace(folder), config.vibe_home(os.environ)
        self.grants = Grants(GrantStore(home, self._workspace.root))
        self._permissions = Permissions(self._workspace, grants=self.grants)
        log = ExecutionLog(shell, self._host.namespace, read_ahead)
        self._notebook = _open_notebook(shell, pump, self._main_thread, log, self._page_loaded)
        around = (self._engine, self._main_thread, self._host, self._workspace, self._notebook)
        kernel = Kernel(shell, pump, presses, *around, folder=folder, home=home)
        self.report = PromptReport(kernel, log)
        self.background = BackgroundCells(kernel)
        session_parts = SessionParts(kernel, self.setup, lambda: self.is_serving, self.background, self.forget)
        self.sessions = KernelSessions(session_parts)
        self.setup.secrets, code = self._host.secrets, CodeOfRuns(shell, self._host.namespace)
        self.undo = KernelUndo(kernel, self.sessions, code)
        self.verification = KernelVerification(kernel)
        parts = ToolParts(kernel, self.models.sees_images, self.sessions, self.setup.plan, self.undo)
        self._built_in, self._own_tools = DeferredTools(parts), DeferredCustomTools(self.setup, parts)
        self._run_view = RunView(kernel)
        self.background.go_on, self.background.look = self.prompt, lambda: (self._keep, self._run_view.find_cell)
        self.connect_form = ConnectForm(kernel, partial(_form_parts, self))
        self.trusting = TrustApproval(self.setup.project, self._run_view, self._host)
        self.skills = KernelSkills(self.setup, parts)
        self._tools = JoinedToolsets(self._built_in, self._own_tools, self.skills)
        self.mcp = LazyMcp(
            self.setup,
            McpParts(
                *(kernel, self._run_view, self.grants, self.models.sees_images),
                taken=lambda: BUILT_IN.union(spec.name for spec in self._tools.specs()),
            ),
        )
        self.take_settings(config.SettingsReading(config.DEFAULT_SETTINGS, config.NO_SETTINGS, ()))
        self.instructions = Instructions(self._engine, self.setup.project.folder, home)
        self.context = ContextParts(
            *(kernel, self._run_view, self.report, self.instructions, self._rules),
            *(self._permissions, self.setup, lambda: self.sessions.conversation, self._build_agent),
        )
        self._enders: list[str] = []  # code of the queued cells that stopped the current run
        # `_runs_again` is True once the user runs the active run's cell again.
        self._cell_said_stop = self._runs_again = False
        # External clients that use this notebook's tools.
        self.outside = NotebookServing(serving_parts(kernel, self._permissions, self.setup))
        if pump is not None:
            pump.on_execute = self._on_queued

    def prompt(self, text: str, options: Options) -> Reply:
        """Run a prompt to completion and leave its transcript in the cell output.

        Raises:
            ConfigError: No model, an unknown agent or tool, or an invalid setting; nothing was sent.
            JournalError: The conversation can't be recorded; nothing was sent.
            NotebookError: Another run is active, or this isn't the main thread; nothing was sent.
            KeyboardInterrupt: The user interrupted before the run began; nothing was sent.
        """
        keeps = self.setup.current().reading.settings.keep_answers if options.keep is None else options.keep
        if keeps and self._notebook is not None:
            with without_working_folder():
                from vibe_jupyter.app.kept_answers import KeptAnswers

            kept = KeptAnswers(self._engine, self._run_view, self._notebook).shown(options.key(text))
            if kept is not None:
                return kept
        steps = self._take_prompt(text, options)
        return _drive(steps, lambda begun: self._run_view.show(begun, self._keep))

    async def prompt_beside(self, text: str, options: Options) -> Reply:
        """Async variant of `prompt` for a cell that awaits it. This thread's event loop stays free during the run."""
        steps = self._take_prompt(text, options)
        return await _drive_beside(steps, lambda begun: self._run_view.show_beside(begun, self._keep))

    def _take_prompt(self, text: str, options: Options) -> "Steps":
        """Run a prompt to completion except for displaying its runs. Raises like `prompt`."""
        self._run_view.check_free()
        options = options._replace(allowed=present_names(options.allowed)) if options.allowed else options
        self.trusting.before_prompt()
        key = options.key(text)
        reply = yield from _run_connected(self, text, options, key)
        while (accepted := self.setup.accepted_plan()) is not None and reply.reason == "stop":
            if options.agent is None:
                self.setup.choose_agent(accepted.agent)
            reply = yield from self.run_prompt(accepted.prompt, options._replace(agent=accepted.agent), key)
        return reply

    def run_prompt(self, text: str, options: Options, key: str) -> "Steps":
        """Run the agent once for the prompt with this cache key. Raises like `prompt`."""
        current = self.setup.current(options.agent)
        reading = current.reading
        guards = hold_guards(current, lambda: self._host.attended)
        changed_mode = _take_current(self, current)
        with self._presses.raising():  # loading tools and rules runs the user's code
            problems = self._own_tools.load(current)
            problems += self._rules.load(current)
        problems = [
            *(*guards, *current.profiles.problems, *problems),
            *(*self.skills.before_prompt(current), *self.mcp.before_prompt(reading)),
        ]
        self._built_in.before_prompt(text)
        self._presses.check()
        self.setup.begin_plan(current)
        agent = self._build_agent(options, current)
        terms = RunTerms(
            presence=self._run_view.attended,
            allowed=options.allowed,
            levels=reading.rules.levels,
            approve_all=reading.settings.approves_all,
            only_reads=reading.rules.only_reads,
            bars=self.skills.why_barred,
        )
        around = self.report.look(text, options.allowed)
        offer = _begin_beside(self, options, attended=around.attended)
        conversation = self.sessions.open_conversation(reading.settings)
        agent = agent._replace(
            snapshots=self.undo.begin(agent.redactor(text)),
            newly_lost=partial(self._main_thread.call, self.undo.code.newly_lost, raises=False),
        )
        with self._presses.raising():  # reads the user's objects, whose methods may block
            told = self.sessions.report(schema_only=self.schema_only) + self.undo.report()
            told += self.report.sections(around, self._permissions.levels, current)
            agent = self._instruct(agent, current, around)
        hooks = self.skills.run_hooks(
            text, self.report.with_pictures(text, reading.rules.levels, self.mcp.run_hooks(text), agent.model)
        )
        run = start_run(agent, conversation, text, terms=terms, context=told, run_hooks=hooks)
        for said in filter(None, (changed_mode, offer)):
            run.emit(Notice(level="info", text=said))
        for news in self.setup.news(current.look, [*reading.warnings, *problems]):
            run.emit(Notice(level="warning", text=news))
        self._enders, self._runs_again = _queued_stops(self._pump), False
        self._cell_said_stop = bool(self._enders)
        if self._cell_said_stop:
            run.send(Interrupt())
        try:
            self._presses.check()
            self.sessions.begin_run()
            shown = yield BegunRun(run, f"the conversation is {kept_in(conversation)}", key, self.undo.present)
            return shown.reply(self._run_view.find_cell)
        finally:
            self.sessions.end_run()
            self.undo.end_run()
            with contextlib.suppress(KeyboardInterrupt), self._presses.raising():
                self.report.remember()

    @property
    def is_serving(self) -> bool:
        """True while a run or another cell of ours occupies the main thread: the caller is then code started by it."""
        return self._main_thread.is_serving

    @property
    def stopped_for_queue(self) -> bool:
        """True if the last run was ended by a queued cell that will still run.

        That is either the run's own cell, executed again, or a `%vibe stop` with no cell before it that relied on the
        run.
        """
        stopped_by_next = self._pump is not None and self._pump.behind_running()[:1] == self._enders[:1] != []
        return self._runs_again or stopped_by_next

    def status(self) -> str:
        """Summarize model, server, agent, conversation and permissions for the user."""
        try:
            model = self.models.current()
            where = f"{model.alias} at {model.server.host}"
        except ConfigError as error:
            where = f"none. {error}"
        lines = [f"Model: {where}", self.setup.agent_line(), f"Folder: {self._workspace.root}"]
        if self.setup.settings().privacy.schema_only:
            lines.append("Privacy: no values of your data are sent, only names, types and counts")
        lines.append(status_line(self.sessions.conversation))
        lines += [*self.sessions.background.lines(), *self.background.lines()]
        if reason := why_no_shell():
            lines.append(f"Shell: {reason}")
        granted = self._permissions.granted()
        lines.append(f"Allowed for this session: {', '.join(granted) or 'nothing'}")
        lines.append(f"Run: {'active' if self._run_view.run is not None else 'none active'}")
        return "\n".join(lines)

    def reset(self) -> str:
        """Start a new conversation and clear session permissions. The user's variables stay."""
        if self._main_thread.is_serving:
            raise NotebookError("A run is active in this kernel. End it with Stop or ■, then reset.")
        self.forget()
        return "New conversation. Your variables are unchanged; permissions for this session were cleared."

    def forget(self) -> None:
        """Discard all state of the current conversation."""
        self._run_view.abandon()
        self.outside.stop()
        self.sessions.forget()
        self.instructions.forget()
        self._made.prompt = None
        self._rules.forget()
        self._permissions.forget()
        self._built_in.forget()
        self._own_tools.forget()
        self.skills.forget()
        self.mcp.forget()
        if self._notebook is not None:
            self._notebook.cells.reads.remembered.forget()
        self.report.forget()

    def stop(self) -> str:
        """Stop the active run, or one left over from an exception. Returns the message to print."""
        said, self._cell_said_stop = self._cell_said_stop, False
        if self._run_view.run is None:
            return "Stopped." if said else "No run is active."
        if self._main_thread.is_serving:  # called from code of that run
            self._run_view.run.send(Interrupt())
            return "Stopped."
        return "Stopped." if self._run_view.end() else "The run does not end. Restart the kernel."

    def end_run(self) -> None:
        """Stop a run that an exception left open, if any."""
        if not self._main_thread.is_serving:
            self._run_view.end()

    def close(self) -> None:
        """Stop all threads, connections and servers of this app.

        Raises:
            NotebookError: A run is active, and code of that run called this.
        """
        if self._main_thread.is_serving:
            raise NotebookError("A run is active in this kernel, so the extension stays loaded. Stop the run first.")
        self._run_view.abandon()
        self.outside.stop()
        self.sessions.forget()
        self.background.close()
        self.report.close()
        if self._notebook is not None:
            self._notebook.close()
        self.mcp.close()
        self._engine.close()
        self.models.close()

    def tool_names(self, reading: config.SettingsReading | None = None) -> list[str]:
        """Return the tool names that `--yes` accepts, under `reading` or else the current settings."""
        specs = (*self._own_tools.specs(), *self.skills.specs())
        own = (spec.name for spec in specs)
        return list(dict.fromkeys((*self._built_in.names(), *own, *self.mcp.tool_names(reading))))

    def _build_agent(self, options: Options, current: CurrentSettings) -> Agent:
        reading, settings = current.reading, current.reading.settings
        self.take_settings(reading)
        self._permissions.hooks = command_hooks(current, self.setup.environ, partial(whereabouts, self.sessions))
        if options.allowed:
            names = self.tool_names(reading)
            unknown = sorted(name for name in options.allowed.difference(names) if not self.mcp.may_have(name))
            if unknown:
                if unused := next((why for name in unknown if (why := self.mcp.why_unused(name))), ""):
                    raise ConfigError(f"--yes names a tool of an MCP server that is not in use: {unused}")
                raise ConfigError(f"--yes names no tool: {', '.join(unknown)}. The tools are: {', '.join(names)}.")
        choice = (current, options.model, self.models.chosen)
        model = self._made.models.get(choice, lambda: self.models.for_run(options.model, settings))
        # A key in the keyring may change between prompts, so don't cache the model.
        if model.server.key_from.endswith(config.IN_KEYRING):
            self._made.models = LatestMade[Model]()
        secrets = self.mcp.secrets
        tools = JoinedToolsets(self.offered_tools, *self.mcp.toolsets)
        return Agent(
            name=current.profile.name,
            model=model,
            client=self.sessions.open_client(),
            tools=tools if settings.include_prompt_detail else BriefToolset(tools),
            permissions=self._permissions,
            middleware=(
                *([self.setup.plan] if current.plans else []),
                *self._rules.middleware(settings, options, model),
            ),
            instructions="",
            schema_only=self.schema_only,
            redactor=self._made.redactors.get(
                (current, model, secrets),
                lambda: self.setup.redactor(
                    settings, {_MODEL_KEY: model.server.api_key or "", **secrets}, (_MODEL_KEY, *secrets)
                ),
            ),
        )

    def _instruct(self, agent: Agent, current: CurrentSettings, around: Surroundings) -> Agent:
        """Return the agent with its system prompt, compaction options and sub-agents."""
        specs, servers = self.offered_tools.specs(), self.mcp.offering(current.reading)
        seen = (around.allowed, around.attended, around.is_live, around.has_notebook)
        made_of = (current, agent.model, agent.redactor, seen, specs, servers, self.skills.section)
        if self._made.prompt is None or self._made.prompt[0] != made_of:
            sources = _instruction_sources(self, current, around, agent.model, agent.redactor)
            self._made.prompt = made_of, sources, self.instructions.text(sources)
        _, sources, instructions = self._made.prompt
        compaction = self._rules.compaction(
            current,
            agent.model,
            lambda: self.report.fresh(around, self._permissions.levels, current, self._main_thread),
        )
        agent = agent._replace(instructions=instructions, compaction=compaction)

        def write_prompt(subagent: SubagentTerms) -> str:
            return self.instructions.text_for_subagent(sources.for_subagent(subagent))

        async def find_subagent(name: str) -> Subagent:
            subagents = Subagents(self.setup, self._rules, self.models, self._main_thread)
            return await subagents.find(name, agent, current, write_prompt)

        return agent._replace(find_subagent=find_subagent)

    def take_settings(self, reading: config.SettingsReading) -> None:
        """Apply settings: rebuild tools and permissions that depend on them, unless they are unchanged."""
        settings = reading.settings
        if self._made.taken == (settings, reading.rules):
            return
        self._built_in.take(settings)
        allow_ai_repr(settings.variables.ai_repr)
        self._permissions.levels = settings.levels()
        self._permissions.lists = tool_lists(settings)
        self._permissions.outside = settings.denies_outside()
        reads = all(map(reading.offers_tool, READING_TOOLS))
        self._permissions.explore = reads and settings.sandbox.is_used
        self.offered_tools = FilteredToolset(self._tools, reading.leaves_tool, forbids=reading.forbids_tool)
        self._keep = settings.keep()
        self.schema_only = settings.privacy.schema_only
        self.report.take(schema_only=self.schema_only)
        self._made.taken = (settings, reading.rules)

    def _on_queued(self, cell: QueuedCell) -> bool:
        """Handle a queued cell. Returns True if the agent executes it itself; some other cells end the run at once."""
        if self._notebook is not None and self._notebook.take(cell):
            return True
        if self._run_view.run is not None:
            if says_stop := STOP_CELL.fullmatch(cell.code) is not None:
                self._cell_said_stop = True
                self._enders.append(cell.code)
            # Executing the cell again clears its output, including any approval card: nobody could answer it.
            self._runs_again = self._runs_again or (self._notebook is not None and self._notebook.runs_in(cell))
            if says_stop or self._runs_again:
                self._run_view.run.send(Interrupt())
        elif self._notebook is not None and self.connect_form.is_open and self._notebook.runs_in(cell):
            self._runs_again = True
            self.connect_form.call_off()
        return False

    def _page_answers(self) -> bool:
        """Return whether a page with our extension shows this notebook."""
        if self._notebook is None:
            return False
        self._notebook.begin()
        panel = self._engine.submit(self._notebook.page()).result()
        return panel is not None and panel.is_seen

    def _page_loaded(self, client: str) -> None:
        """Display the active run again after a page reload cleared it. Runs on the control thread."""
        if self._notebook is not None:
            self._engine.submit(_show_again(self, self._run_view, self._notebook, client))
            self.outside.page_loaded()


async def _show_again(app: App, run_view: RunView, notebook: "NotebookAccess", client: str) -> None:
    """Display the active run again in a newly loaded page, unless the page that ran the cell still responds."""
    panel = await notebook.page()
    if panel is None or not panel.ran or client in ("", panel.client):
        view = run_view.page_loaded()
        if not app.background.page_loaded(view) and view is not None:
            await notebook.show(view)
            run_view.page_loaded()  # again: the new page missed what the run added to the cell while it was shown
        app.connect_form.page_loaded()
    await notebook.ends.deliver()


def _form_parts(app: App) -> FormParts:
    from vibe_jupyter.app.model_setup import ModelSetup

    notebook = app._notebook  # pyright: ignore[reportPrivateUsage]
    return FormParts(ModelSetup(app.setup, app.models), app.sessions.open_client().last_refusal, notebook)


def list_prompt_layers(app: App) -> Sequence[PromptLayer]:
    """Return the system prompt of this conversation, or a preview of it before the first prompt.

    Raises:
        ConfigError: No model, an invalid setting, or an unknown prompt name in the settings.
    """
    if app.instructions.layers:
        return app.instructions.layers
    current = app.setup.current()
    app.skills.before_prompt(current)
    around = app.report.look("", frozenset())
    sources = _instruction_sources(app, current, around, app.models.current(), app.setup.strike())
    return app.instructions.preview(sources)


def _instruction_sources(
    app: App, current: CurrentSettings, around: Surroundings, model: Model, redactor: Redactor
) -> InstructionSources:
    settings = current.reading.settings
    tools = frozenset(spec.name for spec in app.offered_tools.specs())
    subagents = current.profiles.subagents() if TASK in tools else ()
    layers = LayerSources(
        settings,
        around._replace(prompt="", listing=None),
        model=model.name,
        shell=default_shell(),
        sees_images=model.sees_images,
        tools=tools,
        unasked=() if current.reading.rules.only_reads else unasked_names(settings, around.allowed),
        servers=app.mcp.offering(current.reading),
        instructions=current.profile.instructions,
        skills=app.skills.section,
        subagents=subagents_text((one.name, one.description) for one in subagents),
    )
    theme = written_theme(current.reading.tree)
    return InstructionSources(layers, current.files, model.alias, theme, partial(redactor, look=False))


def _run_connected(app: App, text: str, options: Options, key: str) -> Steps:
    """Run the prompt, and show the connect form if it fails because no model is connected."""
    try:
        first: Reply | MissingModel = yield from app.run_prompt(text, options, key)
    except MissingModel as missing:
        first = missing
    if isinstance(first, Reply) and first.reason != "error":
        return first
    return (yield from app.connect_form.until_connected(first, partial(app.run_prompt, text, key=key), options))


def _take_current(app: App, current: CurrentSettings) -> str:
    """Apply the settings, and start reading the project once per conversation.

    Returns a message if a change of privacy mode ended the conversation, else "".
    """
    settings, conversation = current.reading.settings, app.sessions.conversation
    app.take_settings(current.reading)
    is_other = conversation is not None and conversation.schema_only != app.schema_only
    said = end_other_mode(settings, app.forget) if is_other else ""
    if app.instructions.project is None:
        app.instructions.look(settings, current.files)
    return said


def _begin_beside(app: App, options: Options, *, attended: bool) -> str:
    """Prepare background jobs for a run. Returns a notice on the job it continues or an earlier conversation, or ""."""
    app.background.options, app.background.open_job = options, None
    going_on = app.background.going_on
    return going_on.state if going_on is not None else app.sessions.offer(attended=attended)


def _drive(steps: Steps, show: Callable[[BegunRun], RunSummary]) -> Reply:
    """Drive the steps of a prompt to completion. Exceptions raised by `show` are thrown into the steps."""
    try:
        begun = next(steps)
        while True:
            try:
                ended = show(begun)
            except BaseException as error:  # noqa: BLE001 - rethrown inside the generator, which raises it again
                begun = steps.throw(error)
            else:
                begun = steps.send(ended)
    except StopIteration as end:
        return end.value


async def _drive_beside(steps: Steps, show: Callable[[BegunRun], Awaitable[RunSummary]]) -> Reply:
    """Async variant of `_drive`."""
    try:
        begun = next(steps)
        while True:
            try:
                ended = await show(begun)
            except BaseException as error:  # noqa: BLE001 - rethrown inside the generator, which raises it again
                begun = steps.throw(error)
            else:
                begun = steps.send(ended)
    except StopIteration as end:
        return end.value


def _open_notebook(
    shell: InteractiveShell,
    pump: Pump | None,
    main_thread: MainThread,
    log: ExecutionLog,
    on_page: Callable[[str], None],
) -> "NotebookAccess | None":
    """Open access to the notebook's page, or return None for a kernel without a pump."""
    if pump is None:
        return None
    with without_working_folder():
        from vibe_jupyter.app.notebook_access import NotebookAccess

    return NotebookAccess(shell, pump, main_thread, log, on_page)


def _queued_stops(pump: Pump | None) -> list[str]:
    """Return each `%vibe stop` queued just before this cell began: it is meant for the run that is about to begin."""
    return [] if pump is None else [code for code in pump.behind_running() if STOP_CELL.fullmatch(code)]
