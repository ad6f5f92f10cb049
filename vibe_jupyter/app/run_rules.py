"""The rules of a kernel's runs, made of the settings: its middleware, and how the conversation is compacted."""

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

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


class Allowance(NamedTuple):
    """Turns, US dollars, tokens and seconds that a run may use; of all but turns, 0 stands for no limit."""

    turns: int
    price: float
    tokens: int
    seconds: float


def allowed_by(settings: config.Settings, options: Options) -> Allowance:
    """Return the limits of a run: those of its own line before those of the settings."""
    unasked = settings.approves_all
    tokens = settings.max_tokens if options.max_tokens is None else options.max_tokens
    seconds = settings.max_seconds if options.max_seconds is None else options.max_seconds
    return Allowance(
        turns=settings.max_turns if options.max_turns is None else options.max_turns,
        price=settings.max_price if options.max_price is None else options.max_price,
        tokens=UNASKED_TOKENS * unasked if tokens is None else tokens,
        seconds=UNASKED_SECONDS * unasked if seconds is None else seconds,
    )


class RunRules:
    """Middleware and compaction settings of one conversation. Middleware keeps its state between runs. Main thread."""

    def __init__(self, setup: KernelSettings) -> None:
        self._setup = setup
        self._own: OwnMiddleware | None = None
        self._warning = ContextWarning()
        self._prompts = ReadCache[str]()  # the prompt that requests a summary

    def load(self, current: CurrentSettings) -> list[str]:
        """Load the user's middleware. Return the problems to report."""
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
        """Return the middleware of a run, in the order in which it is called."""
        allowed = allowed_by(settings, options)
        threshold = _threshold(settings, model)
        self._warning.threshold = threshold
        return (
            TurnLimit(allowed.turns),
            PriceLimit(allowed.price),
            TokenLimit(allowed.tokens),
            TimeLimit(allowed.seconds),
            LoopGuard(),
            *(self._own.present if self._own is not None else ()),
            *((self._warning,) if settings.context_warnings else ()),
            AutoCompact(threshold),
        )

    def compaction(self, current: CurrentSettings, model: Model, report: FreshReport) -> CompactionTerms:
        """Return how to compact a conversation with this model.

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
        """Return the prompt as written, with its variables."""
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
