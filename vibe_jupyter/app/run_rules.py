"""The rules of a kernel's runs, made of the settings: its middleware, and how the conversation is compacted."""

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from vibe_jupyter import config
from vibe_jupyter.agent.compaction import CompactionTerms, FreshReport
from vibe_jupyter.agent.limits import UNASKED_SECONDS, UNASKED_TOKENS, PriceLimit, TimeLimit, TokenLimit, TurnLimit
from vibe_jupyter.agent.middleware import AutoCompact, ContextWarning, LoopGuard, Middleware
from vibe_jupyter.app.instructions import default_shell, written_theme
from vibe_jupyter.app.project import MIDDLEWARE, PROJECT_FOLDER, CurrentSettings, KernelSettings
from vibe_jupyter.context.prompt_files import PromptFiles, fill_variables, prompt_variables
from vibe_jupyter.files.file_stamps import ReadCache, stamp_files
from vibe_jupyter.llm.request import Model
from vibe_jupyter.options import Options
from vibe_jupyter.safe_imports import without_working_folder

if TYPE_CHECKING:
    from vibe_jupyter.app.own_middleware import OwnMiddleware


class RunRules:
    """Of one conversation: what a middleware remembers, it remembers from run to run. Main thread."""

    def __init__(self, setup: KernelSettings) -> None:
        self._setup = setup
        self._own: OwnMiddleware | None = None
        self._warning = ContextWarning()
        self._prompts = ReadCache[str]()
        """What asks for a summary."""

    def load(self, current: CurrentSettings) -> list[str]:
        """Read the user's own middleware; gives what is to be reported of it."""
        own = current.home / MIDDLEWARE
        theirs = any(path.startswith(f"{PROJECT_FOLDER}/{MIDDLEWARE}/") for path in current.files)
        if self._own is None and not theirs and not own.is_dir():
            return []
        if self._own is None:
            with without_working_folder():
                from vibe_jupyter.app.own_middleware import OwnMiddleware
            self._own = OwnMiddleware(self._setup)
        return self._own.load(current)

    def middleware(self, settings: config.Settings, options: Options, model: Model) -> Sequence[Middleware]:
        """What is asked before and after each turn, in this order."""
        unasked = settings.approves_all
        tokens, seconds = settings.max_tokens, settings.max_seconds
        threshold = _threshold(settings, model)
        self._warning.threshold = threshold
        return (
            TurnLimit(settings.max_turns if options.max_turns is None else options.max_turns),
            PriceLimit(settings.max_price if options.max_price is None else options.max_price),
            TokenLimit(UNASKED_TOKENS * unasked if tokens is None else tokens),
            TimeLimit(UNASKED_SECONDS * unasked if seconds is None else seconds),
            LoopGuard(),
            *(self._own.present if self._own is not None else ()),
            *((self._warning,) if settings.context_warnings else ()),
            AutoCompact(threshold),
        )

    def compaction(self, current: CurrentSettings, model: Model, report: FreshReport) -> CompactionTerms:
        """How a conversation with this model is compacted.

        Raises:
            ConfigError: the model that writes summaries cannot be used, or there is no prompt of the name that asks.
        """
        settings = current.reading.settings
        entry = settings.compaction_model
        writer: Model | None = None
        if entry is not None:
            with_it = settings.model_copy(update={"models": (entry, *settings.models)})
            writer = config.choose_model(with_it, entry.known_as, self._setup.environ)
        written = self._summary_prompt(current)
        return CompactionTerms(
            prompt=lambda: _filled(written, current, model),
            model=writer,
            on_overflow=_threshold(settings, model) > 0,
            must_succeed=settings.raise_on_compaction_failure,
            report=report,
        )

    def _summary_prompt(self, current: CurrentSettings) -> str:
        """As it is written, with its variables."""
        kept = self._prompts.standing(current)
        if kept is not None:
            return kept
        prompts, name = PromptFiles(current.files, current.home), current.reading.settings.compaction_prompt_id
        stamps = stamp_files([prompts.own_path(name)])
        return self._prompts.get(stamps, current, lambda: prompts.utility_prompt(name).text)

    def forget(self) -> None:
        """Begin a new conversation."""
        self._warning = ContextWarning()
        if self._own is not None:
            self._own.forget()


def _filled(written: str, current: CurrentSettings, model: Model) -> str:
    theme, now = written_theme(current.reading.tree), datetime.now().astimezone()
    return fill_variables(written, prompt_variables(model=model.alias, theme=theme, shell=default_shell(), now=now))


def _threshold(settings: config.Settings, model: Model) -> int:
    return settings.auto_compact_threshold if model.compact_at is None else model.compact_at
