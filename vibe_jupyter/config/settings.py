"""Everything that can be set, in one value. What each key means stands beside it."""

import importlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Final, Literal, TypeVar, cast

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, JsonValue

from vibe_jupyter.agent.limits import DEFAULT_PRICE, DEFAULT_TURNS, MAX_TURNS
from vibe_jupyter.config.mcp_servers import AnyMcpServer
from vibe_jupyter.config.providers import DEFAULT_MODELS, DEFAULT_PROVIDERS, ModelEntry, ProviderEntry
from vibe_jupyter.config.tables import Entry, Patterns, is_chosen, matches_pattern
from vibe_jupyter.files.secret_names import MOST_OWN, check_pattern
from vibe_jupyter.protocol import LazyModel, Level
from vibe_jupyter.safe_imports import without_working_folder
from vibe_jupyter.tools.contract import FORMER_NAMES, TASK
from vibe_jupyter.ui.front_end import Form, RunRetention

M = TypeVar("M", bound=BaseModel)

PromptName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-][A-Za-z0-9_.-]*$")]
"""Of a file in a ``prompts`` folder; no path."""
DEFAULT_ROUNDS: Final = 16
"""Requests to the model for one answer of the gateway."""
RENAMED: Final = {"auto_approve": "bypass_tool_permissions"}
"""Older name of a key to the present one; both are taken."""


WRITTEN_AS: Final[Mapping[str, Any]] = {"allowed_models": Patterns}
"""Keys that one layer writes in another form than all layers together have."""


class _OptionModels(Mapping[str, type[BaseModel]]):
    """Imports a tool when its options are asked for."""

    _classes: Final = {
        "bash": "BashOptions",
        "grep": "GrepOptions",
        "read_file": "ReadFileOptions",
        "search_replace": "SearchReplaceOptions",
        "todo": "TodoOptions",
        "write_file": "WriteFileOptions",
    }

    def __getitem__(self, name: str) -> type[BaseModel]:
        class_name = self._classes[name]
        with without_working_folder():
            return getattr(importlib.import_module(f"vibe_jupyter.tools.{name}"), class_name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._classes)

    def __len__(self) -> int:
        return len(self._classes)


TOOL_OPTIONS: Final = _OptionModels()
"""Tool to the model of its options, which stands beside the tool. Tools that are missing here have none of ours."""

OTHER_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "read_file": ("read",),
    "search_replace": ("edit",),
    **FORMER_NAMES,
}
"""What later versions of Mistral Vibe call our tools, and what we called them: settings may use these names too."""

UNUSED_OPTIONS: Final = frozenset(
    {"codeignore_file", "denylist_standalone", "exclude_patterns", "max_content_bytes", "max_output_bytes", "max_todos"}
    | {"max_inline_bytes"}
    | {"max_read_bytes", "max_state_history", "max_timeout", "model", "timeout", "user_agent"}
    | {"chunk_size", "create_backup", "create_parent_dirs", "default_max_matches", "default_timeout"}
    | {"fuzzy_threshold", "max_content_size", "max_write_bytes"}
)
"""Options of Mistral Vibe's tools. Where ours have no such option, it means nothing and is no reason for a word."""
OTHER_TOOLS: Final = frozenset({"skill", "task", "web_fetch", "web_search"})
"""Tools of Mistral Vibe's that files may speak of, whether there is one here or not."""


PrivacyMode = Literal["open", "schema"]
"""What the model may be sent: what the agent reads, or names, types and counts alone."""


def _check_protected(pattern: str) -> str:
    if problem := check_pattern(pattern):
        raise ValueError(f"{pattern!r} {problem}")
    return pattern


ProtectedPattern = Annotated[str, AfterValidator(_check_protected)]


class Privacy(Entry):
    """What may be sent, and exceptions of the user. A project's settings say nothing of it, trusted or not."""

    mode: PrivacyMode = "open"

    allow: Patterns = ()
    """Names of variables, keys and columns, and kinds such as ``JWT``."""

    protected_files: Annotated[tuple[ProtectedPattern, ...], Field(max_length=MOST_OWN)] = ()
    """Names of files that ask like those of `files/secret_files.txt`: ``name``, ``folder/name`` or ``folder/``."""

    def allows(self, name: str) -> bool:
        """Whether a name or a kind is an exception."""
        return any(matches_pattern(pattern, name) for pattern in self.allow)

    @property
    def schema_only(self) -> bool:
        """Whether no value of the user's data may be sent."""
        return self.mode == "schema"


class Sandbox(Entry):
    """What runs unasked because it can have no effects. A project's settings say nothing of it, trusted or not."""

    explore: Literal["sandbox", "ask"] = "sandbox"
    """Whether code and commands that only look run in a sandbox without asking, where this machine has one."""

    @property
    def is_used(self) -> bool:
        """Whether anything may run in it here."""
        return self.explore == "sandbox" and sys.platform == "linux"


class Variables(Entry):
    """How variables are described. A project's settings say nothing of it, trusted or not."""

    ai_repr: tuple[str, ...] = ()
    """Classes whose `_ai_repr_` is asked: ``package.module.Class``."""


OutsideWorkdir = Literal["ask", "deny"]
"""What becomes of calls that reach outside the project."""


class ToolEntry(LazyModel):
    """One tool. Other keys than these are the tool's own options."""

    model_config = ConfigDict(frozen=True, extra="allow")

    permission: Level | None = None
    """None leaves the tool's own level."""
    allowlist: tuple[str, ...] = ()
    denylist: tuple[str, ...] = ()
    sensitive_patterns: tuple[str, ...] | None = None
    """Globs of paths that are asked about each time, whatever the level."""
    outside_workdir: OutsideWorkdir | None = None
    """None for that of the whole file."""

    @property
    def options(self) -> Mapping[str, JsonValue]:
        """The tool's own, as written."""
        return self.model_extra or {}


_TREE_BOUNDS: Final = frozenset({"max_chars", "truncation_buffer", "max_depth", "max_files", "max_dirs_per_level"})


class ProjectContext(Entry):
    """Bounds of what is shown."""

    tree: bool | None = None
    """Whether the folder's tree is shown; None where setting one of its bounds decides."""
    readme: bool | None = None
    """Whether the README is loaded; None where setting its bound decides."""
    max_chars: int = Field(default=40_000, ge=0)
    """Of the tree, with what is said of its cut."""
    truncation_buffer: int = Field(default=1_000, ge=0)
    """Characters of them kept free for that."""
    max_doc_bytes: int = Field(default=32_768, ge=0)
    max_depth: int = Field(default=3, ge=0)
    max_files: int = Field(default=1_000, ge=0)
    max_dirs_per_level: int = Field(default=20, ge=0)
    default_commit_count: int = Field(default=5, ge=0)
    timeout_seconds: float = Field(default=2.0, gt=0)
    """For each question to git."""

    @property
    def shows_tree(self) -> bool:
        """Return `tree`, or whether a bound of the tree is set: files of Mistral Vibe have no switch for it."""
        return not _TREE_BOUNDS.isdisjoint(self.model_fields_set) if self.tree is None else self.tree

    @property
    def shows_readme(self) -> bool:
        """Return `readme`, or whether its bound is set."""
        return "max_doc_bytes" in self.model_fields_set if self.readme is None else self.readme


class SessionLogging(Entry):
    """The user's choice on journals."""

    unused: ClassVar = frozenset({"generate_titles"})

    enabled: bool = True
    save_dir: str = ""
    """Empty for ``logs/session`` in the user's folder."""
    session_prefix: str = "session"


McpMode = Literal["execute", "passthrough", "off"]
WorkTool = Literal["bash", "run_code", "read_file"]
"""What the gateway can do by itself."""
"""What the gateway does with MCP tools: it runs what is called, returns the calls to the client, or offers none."""


class Gateway(Entry):
    """`vibe-jupyter serve`. A project's settings say nothing of it, trusted or not."""

    mcp_mode: McpMode = "execute"
    mcp_modes: dict[str, McpMode] = {}
    """The same for single MCP servers, by name."""
    tools: tuple[WorkTool, ...] = ()
    """Those that are offered beside the tools of MCP servers."""
    allow: Patterns = ()
    """Tools that run without asking when a request comes in; others ask, or are denied."""
    max_rounds: int = Field(default=DEFAULT_ROUNDS, ge=1, le=MAX_TURNS)
    """Requests to the model for one answer."""
    always_events: bool = False
    """Whether streams have named events also for clients that did not show that they know them."""
    hosts: tuple[str, ...] = ()
    """Names under which it is reached, beside those of this machine: ``gateway.example.org``, with a port if any."""
    origins: tuple[str, ...] = ()
    """Origins of web pages that may ask it: ``https://chat.example.org``."""
    prefix: str = Field(default="", pattern=r"^(/[A-Za-z0-9._~-]+)*/?$")
    """The path below which a proxy has it: ``/services/vibe``."""
    file_origins: tuple[str, ...] = ()
    """Where it reads a request's ``file_url``: ``https://files.example.org``."""
    store: str = Field(default="", pattern=r"^((rediss?|unix)://.+)?$")
    """The Redis that gateways on several machines share: ``redis://cache.example.org:6379/0``; a file where empty."""


def _grouped(written: object) -> object:
    """One list as the lists of all layers."""
    if not isinstance(written, list | tuple):
        return written
    items = cast("Sequence[object]", written)
    if any(isinstance(one, list | tuple) for one in items):
        return tuple(tuple(cast("list[object]", one)) if isinstance(one, list) else one for one in items)
    return (tuple(items),) if items else ()


class Settings(Entry):
    """All keys; those of sections are in a module each."""

    unused: ClassVar = frozenset(
        {"active_transcribe_model", "active_tts_model", "api_connect_timeout", "api_pool_timeout"}
        | {"api_retry_max_elapsed_time", "api_stream_idle_timeout", "api_timeout", "api_write_timeout"}
        | {"applied_migrations", "ask_confirmation_on_exit", "autocopy_to_clipboard", "catalog_model_aliases"}
        | {"catalog_recommended_model", "compaction_reasoning_limit_tokens", "connectors", "console_base_url"}
        | {"cursor_blink", "disable_welcome_banner_animation", "displayed_workdir"}
        | {"enable_auto_update", "enable_background_processes", "enable_connectors", "enable_experimental_hooks"}
        | {"enable_mouse_capture", "enable_notifications", "enable_otel"}
        | {"enable_system_trust_store", "enable_telemetry", "enable_update_checks", "experiment_overrides"}
        | {"experimental_enable_document_library_connector", "experimental_enable_model_catalog"}
        | {"experimental_enable_pr_discovery", "experimental_enable_pr_monitoring"}
        | {"experimental_enable_registry_skills", "experimental_enable_tab_status", "experiments"}
        | {"file_watcher_for_autocomplete", "instructions", "log_level", "managed_shell_tools_enabled"}
        | {"max_concurrent_subagents", "max_subagents", "narrator_enabled", "nuage_api_key_env_var", "nuage_base_url"}
        | {"nuage_enabled", "nuage_workflow_id", "otel_endpoint", "otel_redaction", "output_limit_retries"}
        | {"routed_default_model", "routed_extra_models", "routed_model_config", "show_greeting"}
        | {"show_subagent_status_list", "show_thinking_nodes", "smart_approve_available", "smart_approve_default"}
        | {"strict_config", "textual_theme", "theme", "title_prompt_id", "transcribe_models", "transcribe_providers"}
        | {"tts_models", "tts_providers", "utility_models", "vibe_base_url", "vibe_code_api_key_env_var"}
        | {"vibe_code_enabled", "vibe_code_project_name", "vibe_code_sessions_base_url", "vim_keybindings"}
        | {"vision_model", "voice_mode_enabled", "workdir", "worktree_limit"}
    )

    active_model: str = ""
    """Alias or name; empty until someone chose."""
    max_turns: int = Field(default=DEFAULT_TURNS, ge=1)
    max_price: float = Field(default=DEFAULT_PRICE, ge=0)
    """US dollars that one run may cost, where prices are known; 0 for no limit."""
    max_tokens: int | None = Field(default=None, ge=0)
    """Tokens that one run may use, sent and received; 0 for no limit. None: limited only where calls run unasked."""
    max_seconds: float | None = Field(default=None, ge=0)
    """Seconds that one run may take, without waiting for the user; 0 for no limit. None: as above."""
    transcript: Form = "full"
    """What stays of a run in the notebook."""
    transcript_times: bool = True
    """Whether seconds, tokens and price stay in it."""
    keep_answers: bool = False
    """Whether an unchanged prompt shows the answer that its cell has, as with ``--keep``."""

    providers: tuple[ProviderEntry, ...] = DEFAULT_PROVIDERS
    models: tuple[ModelEntry, ...] = DEFAULT_MODELS

    tools: dict[str, ToolEntry] = {}
    tool_paths: tuple[str, ...] = ()
    """Further files and folders with tools."""
    enabled_tools: Patterns = ()
    """Empty for all."""
    disabled_tools: Patterns = ()
    bypass_tool_permissions: bool = False
    enable_auto_approve: bool = True
    """False: ``bypass_tool_permissions`` counts for nothing, in an agent's profile too."""
    enable_subagents: bool = True
    enable_mcp: bool = True
    outside_workdir: OutsideWorkdir = "ask"
    allowed_models: Annotated[tuple[Patterns, ...], BeforeValidator(_grouped)] = ()
    """For each layer that has one, its list of models by the names that their servers know; a model is on each list."""
    ignored_guards: Patterns = ()
    """Restrictions that are not understood or not trusted and that an unattended run may go on without: keys, or
    ``project_hooks``. A project's settings say nothing of it, trusted or not."""
    mcp_servers: tuple[AnyMcpServer, ...] = ()

    default_agent: str = "default"
    agent_paths: tuple[str, ...] = ()
    enabled_agents: Patterns = ()
    disabled_agents: Patterns = ()
    installed_agents: tuple[str, ...] = ()
    skill_paths: tuple[str, ...] = ()
    enabled_skills: Patterns = ()
    disabled_skills: Patterns = ()

    system_prompt_id: PromptName = "cli"
    compaction_prompt_id: PromptName = "compact"
    compaction_model: ModelEntry | None = None
    """None for the model that is compacted."""
    auto_compact_threshold: int = Field(default=200_000, ge=0)
    """Tokens from which the history is compacted, at most `middleware.COMPACT_SHARE` of the window; 0 for never."""
    context_warnings: bool = False
    raise_on_compaction_failure: bool = False
    include_commit_signature: bool = True
    include_model_info: bool = True
    include_prompt_detail: bool = True
    include_project_context: bool = True
    project_context: ProjectContext = ProjectContext.model_construct()
    session_logging: SessionLogging = SessionLogging.model_construct()
    privacy: Privacy = Privacy.model_construct()
    sandbox: Sandbox = Sandbox.model_construct()
    variables: Variables = Variables.model_construct()
    gateway: Gateway = Gateway.model_construct()

    def levels(self) -> Mapping[str, Level]:
        """Tool name to level, where one is set."""
        return {name: entry.permission for name, entry in self.tools.items() if entry.permission is not None}

    @property
    def approves_all(self) -> bool:
        """True if calls run unasked that would ask because of their level."""
        return self.bypass_tool_permissions and self.enable_auto_approve

    def may_use_model(self, name: str) -> bool:
        """Return whether every list of allowed models names a model, by the name that its server knows."""
        return all(any(matches_pattern(pattern, name) for pattern in one) for one in self.allowed_models)

    def denies_outside(self) -> Mapping[str, bool]:
        """Return whether a tool's calls may not reach outside the project, by tool; "*" for those without a word."""
        said = {name: entry.outside_workdir for name, entry in self.tools.items() if entry.outside_workdir is not None}
        return {"*": self.outside_workdir == "deny", **{name: value == "deny" for name, value in said.items()}}

    def keep(self) -> RunRetention:
        """What stays of a run in the notebook."""
        return RunRetention(form=self.transcript, times=self.transcript_times)

    def model_names(self) -> tuple[str, ...]:
        """The aliases one may choose from, own ones first."""
        allowed = (entry for entry in self.models if self.may_use_model(entry.name))
        return tuple(dict.fromkeys(entry.known_as for entry in allowed))

    def offers_tool(self, name: str, *others: str) -> bool:
        """Whether both lists leave a tool, under any of the names it goes by."""
        names: Sequence[str] = (name, *others, *OTHER_NAMES.get(name, ()))
        if not self.enable_subagents and name == TASK:
            return False
        return is_chosen(names, enabled=self.enabled_tools, disabled=self.disabled_tools)

    def offers_skill(self, name: str) -> bool:
        """Whether both lists leave a skill."""
        return is_chosen((name,), enabled=self.enabled_skills, disabled=self.disabled_skills)

    def tool_options(self, name: str, model: type[M]) -> M:
        """The options of a tool, checked when the settings were read."""
        return options_of(self.tools.get(name), model)


DEFAULT_SETTINGS: Final = Settings.model_construct()
"""What holds where nothing is set. Nothing of it needs a check, and so no request waits until checks are ready."""


def options_of(entry: ToolEntry | None, model: type[M]) -> M:
    """A tool's options, with its defaults for the rest."""
    written = (entry or ToolEntry()).options
    return model.model_validate({key: value for key, value in written.items() if key in model.model_fields})
