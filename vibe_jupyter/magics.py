"""`%vibe` and `%%vibe`: parse the line, call the app, show the result.

Imported by `%load_ext`, so it imports nothing heavy: the app is imported with the first prompt.
"""

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, cast

from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import Magics, line_cell_magic, magics_class, no_var_expand

from vibe_jupyter.commands.completion import Completion, TabSources, unregister_completion
from vibe_jupyter.commands.registry import help_page, run_command
from vibe_jupyter.context.read_ahead import ReadAhead
from vibe_jupyter.errors import ConfigError, NotebookError, RunFailed, RunStopped, VibeError, open_files_named
from vibe_jupyter.kernel.interrupts import Presses
from vibe_jupyter.lazy_patterns import lazy_pattern
from vibe_jupyter.options import Options, parse_line, whole_prompt
from vibe_jupyter.safe_imports import without_collections, without_working_folder

if TYPE_CHECKING:
    from vibe_jupyter.app import App
    from vibe_jupyter.app.run_view import Reply
    from vibe_jupyter.commands.panel import PanelAnswer
    from vibe_jupyter.kernel.pump import Pump

_QUESTION = lazy_pattern(r"^(\s*)%vibe[ \t]+(.*\?)[ \t]*$", re.MULTILINE)
_YES = lazy_pattern(r"^\s*--yes=\S+")
# Message below the transcript of a run that the user stopped.
STOPPED = "the run was stopped; the cells queued after this one do not run"
_ASKED = 'vibe_jupyter.ask("look at my data")'


@magics_class
class VibeMagics(Magics):
    """The magics, and the kernel's app from its first prompt on."""

    def __init__(self, shell: InteractiveShell, pump: "Pump | None") -> None:
        super().__init__(shell)
        self._ipython = shell
        self.pump = pump
        self._presses = Presses()
        self._read_ahead = None if pump is None else ReadAhead(shell)
        self._app: App | None = None

    @property
    def app(self) -> "App":
        """The app, created on first use."""
        if self._app is None:
            # An interrupted import would leave modules half-initialized, so interrupts wait until it is done.
            with self._presses.raising(False), without_working_folder(), without_collections():
                from vibe_jupyter.app import App

                read_ahead = self._read_ahead.replay if self._read_ahead is not None else None
                self._app = App(self._ipython, self.pump, self._presses, read_ahead=read_ahead)
            self._end_read_ahead()
        return self._app

    @property
    def folder(self) -> Path:
        """The project folder: the working folder at the time the app was created."""
        return Path.cwd() if self._app is None else self._app.folder

    @no_var_expand  # the prompt is the user's text: `{x}` in it doesn't ask to send the value of x
    @line_cell_magic
    def vibe(self, line: str, cell: str | None = None, __tracebackhide__: bool = True) -> None:
        """Send a prompt to the agent, or run one of the commands that `%vibe help` lists.

        `__tracebackhide__` hides this frame in the traceback of an interrupt that arrives before we handle interrupts.
        """
        try:
            with self._presses.owned():
                self._vibe(line, cell)
            self._presses.check()
        except KeyboardInterrupt:
            raise RunStopped(STOPPED) from None

    def ask(self, prompt: str, options: Options) -> "Reply":
        """Run one prompt to completion.

        Raises:
            VibeError: The run couldn't begin; nothing was sent.
            RunStopped: The user stopped it.
        """
        try:
            with self._presses.owned(), open_files_named():
                reply = self._prompt(prompt, options)
            self._presses.check()
            return reply
        except KeyboardInterrupt:
            raise RunStopped(STOPPED) from None

    async def ask_beside(self, prompt: str, options: Options) -> "Reply":
        """Async variant of `ask`. This thread's event loop stays free during the run."""
        try:
            with self._presses.owned():
                self._presses.check()
                try:
                    reply = await self.app.prompt_beside(prompt, options)
                except BaseException:
                    self.app.end_run()
                    raise
                self._check_end(reply, options)
            self._presses.check()
            return reply
        except KeyboardInterrupt:
            raise RunStopped(STOPPED) from None

    def _vibe(self, line: str, cell: str | None) -> None:
        if cell is None and self._is_command(line):
            return
        keep_going = False
        try:
            options, rest = parse_line(line)
            keep_going = options.keep_going
            prompt = rest if cell is None else whole_prompt(rest, cell)
            if rest == "fix":
                with without_working_folder():
                    from vibe_jupyter.context.last_error import fix_prompt

                schema_only = self.app.setup.settings().privacy.schema_only
                prompt = fix_prompt(self._ipython, (cell or "").strip(), schema_only=schema_only).strip("\n")
            if not prompt.strip():
                print(help_page())
                return
            if cell is None:
                options = _without_keep(options)
            with open_files_named():
                reply = self._prompt(prompt, options)
        except VibeError as error:
            print(f"vibe: {error}", file=sys.stderr)
            if keep_going:
                return
            raise RunFailed(str(error)) from None
        if reply.reason not in ("stop", "interrupted") and not keep_going:
            raise RunFailed(f"The run ended early: {reply.reason}.")

    def _prompt(self, text: str, options: Options) -> "Reply":
        """Run a prompt to completion. On any exception, the run is ended as well.

        Raises:
            KeyboardInterrupt: The user stopped it, and the queued cells shouldn't run.
        """
        app = self.app
        self._presses.check()
        try:
            reply = app.prompt(text, options)
        except BaseException:
            app.end_run()
            raise
        self._check_end(reply, options)
        return reply

    def _check_end(self, reply: "Reply", options: Options) -> None:
        """Check whether the user stopped the run.

        Raises:
            KeyboardInterrupt: They did, and the queued cells shouldn't run.
        """
        if reply.reason == "interrupted" and not self.app.stopped_for_queue and not options.keep_going:
            raise KeyboardInterrupt

    def panel(self, command: str = "") -> "PanelAnswer":
        """Return the state for JupyterLab's side panel, after running the command of a button there, if any."""
        with self._presses.owned():
            app = self.app
            with without_working_folder():
                from vibe_jupyter.commands.panel import PanelAnswer, panel_state
            with self._presses.raising():
                return PanelAnswer(panel_state(app, command))

    def panel_models(self) -> "PanelAnswer":
        """Return the models that the current model's server lists, for the side panel."""
        with self._presses.owned():
            app = self.app
            with without_working_folder():
                from vibe_jupyter.commands.panel import PanelAnswer, panel_models
            with self._presses.raising():
                return PanelAnswer(panel_models(app))

    def panel_undo(self, conversation: str, run: int) -> "PanelAnswer":
        """Preview what undoing the run would change, for the Undo button below its output."""
        with self._presses.owned():
            app = self.app
            with without_working_folder():
                from vibe_jupyter.commands.panel import PanelAnswer, panel_undo
                from vibe_jupyter.ui.run_output import UndoableRun
            with self._presses.raising():
                return PanelAnswer(panel_undo(app, UndoableRun(conversation, run)))

    def close(self) -> None:
        """Stop everything this kernel has started."""
        if self._app is not None:
            self._app.close()
            self._app = None
        self._end_read_ahead()
        if self.pump is not None:
            self.pump.uninstall()

    def _end_read_ahead(self) -> None:
        if self._read_ahead is not None:
            self._read_ahead.close()
            self._read_ahead = None

    def _is_command(self, line: str) -> bool:
        """Run a sub-command. Returns False if the line is a prompt."""
        try:
            with self._presses.raising(), open_files_named():
                return self._run_command(line)
        except VibeError as error:
            print(f"vibe: {error}", file=sys.stderr)
            return True

    def _run_command(self, line: str) -> bool:
        # `vibe-jupyter run --yes` inserts the option before every line.
        said = run_command(_YES.sub("", line), lambda: self.app, self._app)
        if said:
            print(said)
        return said is not None


def _without_keep(options: Options) -> Options:
    """Return the options of a line magic, whose answer can't be stored because the cell's output may contain more.

    Raises:
        ConfigError: The options ask to store it.
    """
    if options.keep:
        raise ConfigError("--keep requires a whole cell: write the prompt under %%vibe --keep.")
    return options._replace(keep=False)


def question_marks(lines: list[str]) -> list[str]:
    """Prevent IPython from treating a prompt that ends in `?` as a request for help."""
    if lines and lines[0].lstrip().startswith("%%"):
        return lines
    return [_QUESTION.sub(lambda m: f"{m[1]}get_ipython().run_line_magic('vibe', {m[2]!r})", line) for line in lines]


def load_magics(shell: InteractiveShell) -> None:
    """Register the magics and install the pump. Loading again replaces them."""
    unload_magics(shell)
    magics = VibeMagics(shell, _installed_pump(shell))
    shell.register_magics(magics)
    sources = TabSources(
        folder=lambda: magics.folder,
        tools=lambda: magics.app.tool_names(),
        servers=lambda: magics.app.mcp.names(),
        agents=lambda: magics.app.setup.agent_names(),
        sessions=lambda: magics.app.sessions.saved.ids(),
        skills=lambda: magics.app.skills.slash_names(),
        offers=lambda: magics._app and magics._app.mcp.offers,  # pyright: ignore[reportPrivateUsage]
    )
    Completion(shell, sources).register()
    shell.input_transformers_cleanup.append(question_marks)


def unload_magics(shell: InteractiveShell) -> None:
    """Undo `load_magics`."""
    registry = _magics_registry(shell)
    loaded = registry.get(VibeMagics.__name__)
    if isinstance(loaded, VibeMagics):
        loaded.close()  # raises while a run is active, so that everything stays registered
        del registry[VibeMagics.__name__]
        held = cast("list[object]", shell.configurables)
        if loaded in held:  # IPython's `Magics` registers itself there
            held.remove(loaded)
        magics = cast("dict[str, dict[str, object]]", shell.magics_manager.magics)  # pyright: ignore[reportUnknownMemberType]
        for kind in ("line", "cell"):
            magics[kind].pop("vibe", None)
    unregister_completion(shell)
    cleanup = shell.input_transformers_cleanup
    cleanup[:] = [one for one in cleanup if getattr(one, "__name__", "") != question_marks.__name__]


def ask(
    prompt: str,
    *,
    model: str | None = None,
    agent: str | None = None,
    max_turns: int | None = None,
    yes: str | tuple[str, ...] = (),
) -> "Reply":
    """Run the agent on a prompt and wait until it finishes. The run is displayed as with `%%vibe`.

    Args:
        prompt: The task.
        model: Alias, name, or NAME@URL; None for the selected model.
        agent: Name of the agent; None for the session's.
        max_turns: Limit of model requests, 1-200; None for the configured limit.
        yes: Name or names of tools that run without approval, in this run only.

    Raises:
        NotebookError: There is no IPython shell.
        ConfigError: No model is configured, a setting is invalid, or the prompt is empty.
        RunStopped: The user stopped it; a KeyboardInterrupt.
    """
    return _present_magics(prompt).ask(prompt, _options(model, agent, max_turns, yes))


async def aask(
    prompt: str,
    *,
    model: str | None = None,
    agent: str | None = None,
    max_turns: int | None = None,
    yes: str | tuple[str, ...] = (),
) -> "Reply":
    """Run the agent like `ask`, for a cell that awaits it: other tasks of the kernel's event loop continue meanwhile.

    Takes the arguments of `ask` and raises the same errors, and `NotebookError` if another run is active.
    """
    return await _present_magics(prompt).ask_beside(prompt, _options(model, agent, max_turns, yes))


def _options(model: str | None, agent: str | None, max_turns: int | None, yes: str | tuple[str, ...]) -> Options:
    allowed = frozenset({yes} if isinstance(yes, str) else yes)
    return Options(model=model, agent=agent, max_turns=max_turns, allowed=allowed)


def _present_magics(prompt: str) -> VibeMagics:
    """Return the magics of the current shell, loading them if necessary."""
    if not isinstance(prompt, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigError(f"The prompt is no text but {type(prompt).__name__}. Pass one: {_ASKED}.")
    if not prompt.strip():
        raise ConfigError(f"The prompt is empty. Pass one: {_ASKED}.")
    from IPython import get_ipython

    shell = get_ipython()
    if shell is None:
        raise NotebookError("vibe_jupyter.ask works in an IPython session. Start ipython or a notebook, and ask there.")
    if VibeMagics.__name__ not in _magics_registry(shell):
        load_magics(shell)
    return cast("VibeMagics", _magics_registry(shell)[VibeMagics.__name__])


def _magics_registry(shell: InteractiveShell) -> dict[str, object]:
    """Return the magics objects of a shell by class name."""
    return cast("dict[str, object]", shell.magics_manager.registry)  # pyright: ignore[reportUnknownMemberType]


def _installed_pump(shell: InteractiveShell) -> "Pump | None":
    """Return the installed pump of a kernel, or None in a terminal and for kernels that don't support it."""
    if not hasattr(shell, "kernel"):
        return None
    with without_working_folder():
        from vibe_jupyter.kernel.pump import Pump

    try:
        pump = Pump(shell)
    except NotebookError as error:
        print(f"vibe: {error}", file=sys.stderr)
        return None
    pump.install()
    return pump
