"""All settings in one value, each key documented below it."""

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
from vibe_jupyter.permissions.secret_shapes import MOST_RULES, OwnRule
from vibe_jupyter.protocol import LazyModel, Level
from vibe_jupyter.safe_imports import without_working_folder
from vibe_jupyter.tools.contract import FORMER_NAMES, TASK
from vibe_jupyter.ui.front_end import Form, RunRetention

M = TypeVar("M", bound=BaseModel)

# Name of a file in a `prompts` folder, without a path.
PromptName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-][A-Za-z0-9_.-]*$")]
DEFAULT_ROUNDS: Final = 16  # model requests for one answer of the gateway
# Former names of keys, still accepted, and their current names.
RENAMED: Final = {"auto_approve": "bypass_tool_permissions"}


# Types of keys whose form in a single layer differs from the merged form.
WRITTEN_AS: Final[Mapping[str, Any]] = {"allowed_models": Patterns}


class _OptionModels(Mapping[str, type[BaseModel]]):
    """Mapping of options models that imports a tool when its options are requested."""

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


# Models of the tools' options, which are defined beside the tools; tools not listed have none.
TOOL_OPTIONS: Final = _OptionModels()

# Names of our tools in later versions of Mistral Vibe, and our former names; settings may use these as well.
OTHER_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "read_file": ("read",),
    "search_replace": ("edit",),
    **FORMER_NAMES,
}

# Options of Mistral Vibe's tools; where ours don't have them, they are ignored without a warning.
UNUSED_OPTIONS: Final = frozenset(
    {"codeignore_file", "denylist_standalone", "exclude_patterns", "max_content_bytes", "max_output_bytes", "max_todos"}
    | {"max_inline_bytes"}
    | {"max_read_bytes", "max_state_history", "max_timeout", "model", "timeout", "user_agent"}
    | {"chunk_size", "create_backup", "create_parent_dirs", "default_max_matches", "default_timeout"}
    | {"fuzzy_threshold", "max_content_size", "max_write_bytes"}
)
# Tools of Mistral Vibe that files may name, whether or not they exist here.
OTHER_TOOLS: Final = frozenset({"skill", "task", "web_fetch", "web_search"})


# Whether the model may be sent what the agent reads, or names, types and counts only.
PrivacyMode = Literal["open", "schema"]


def _check_protected(pattern: str) -> str:
    if problem := check_pattern(pattern):
        raise ValueError(f"{pattern!r} {problem}")
    return pattern


ProtectedPattern = Annotated[str, AfterValidator(_check_protected)]


class Privacy(Entry):
    """Limits on what may be sent, and the user's exceptions. Can't be set by a project, trusted or not."""

    mode: PrivacyMode = "open"

    allow: Patterns = ()
    """Names of variables, keys and columns, and kinds such as `JWT`."""

    protected_files: Annotated[tuple[ProtectedPattern, ...], Field(max_length=MOST_OWN)] = ()
    """Further files that need approval like those in `files/secret_files.txt`: `name`, `folder/name` or `folder/`."""

    rules: Annotated[tuple[OwnRule, ...], Field(max_length=MOST_RULES)] = ()
    """Further secrets that are recognized by their form."""

    def allows(self, name: str) -> bool:
        """Return whether a name or a kind is an exception."""
        return any(matches_pattern(pattern, name) for pattern in self.allow)

    @property
    def schema_only(self) -> bool:
        """True if no value of the user's data may be sent."""
        return self.mode == "schema"


class Sandbox(Entry):
    """Execution without approval of code that can't have effects. Can't be set by a project, trusted or not."""

    explore: Literal["sandbox", "ask"] = "sandbox"
    """Whether read-only code and commands run in a sandbox without approval, if this machine supports one."""

    @property
    def is_used(self) -> bool:
        """True if the sandbox may be used on this platform."""
        return self.explore == "sandbox" and sys.platform == "linux"


class Variables(Entry):
    """Options for descriptions of variables. Can't be set by a project, trusted or not."""

    ai_repr: tuple[str, ...] = ()
    """Classes whose `_ai_repr_` is called, as `package.module.Class`."""


OutsideWorkdir = Literal["ask", "deny"]  # handling of calls that reach outside the project


class ToolEntry(LazyModel):
    """Settings of a tool. Keys other than the fields are the tool's own options."""

    model_config = ConfigDict(frozen=True, extra="allow")

    permission: Level | None = None
    """None for the tool's default level."""
    allowlist: tuple[str, ...] = ()
    denylist: tuple[str, ...] = ()
    sensitive_patterns: tuple[str, ...] | None = None
    """Globs of paths that need approval each time, whatever the level."""
    outside_workdir: OutsideWorkdir | None = None
    """None for the top-level setting."""

    @property
    def options(self) -> Mapping[str, JsonValue]:
        """The tool's own options, as written."""
        return self.model_extra or {}


_TREE_BOUNDS: Final = frozenset({"max_chars", "truncation_buffer", "max_depth", "max_files", "max_dirs_per_level"})


class ProjectContext(Entry):
    """Limits of the project context in the system prompt."""

    tree: bool | None = None
    """Whether the folder's tree is included; None to include it if one of its limits is set."""
    readme: bool | None = None
    """Whether the README is included; None to include it if its limit is set."""
    max_chars: int = Field(default=40_000, ge=0)
    """Characters of the tree, including the note on its truncation."""
    truncation_buffer: int = Field(default=1_000, ge=0)
    """Characters reserved for that note."""
    max_doc_bytes: int = Field(default=32_768, ge=0)
    max_depth: int = Field(default=3, ge=0)
    max_files: int = Field(default=1_000, ge=0)
    max_dirs_per_level: int = Field(default=20, ge=0)
    default_commit_count: int = Field(default=5, ge=0)
    timeout_seconds: float = Field(default=2.0, gt=0)
    """Seconds for each git command."""

    @property
    def shows_tree(self) -> bool:
        """True if the tree is included, by `tree` or by one of its limits: Mistral Vibe's files have no such switch."""
        return not _TREE_BOUNDS.isdisjoint(self.model_fields_set) if self.tree is None else self.tree

    @property
    def shows_readme(self) -> bool:
        """True if the README is included, by `readme` or by its limit."""
        return "max_doc_bytes" in self.model_fields_set if self.readme is None else self.readme


class SessionLogging(Entry):
    """Settings of the conversation journals."""

    unused: ClassVar = frozenset({"generate_titles"})

    enabled: bool = True
    save_dir: str = ""
    """Folder of the journals, or "" for `logs/session` in the user's folder."""
    session_prefix: str = "session"


# Handling of MCP tools by the gateway: run the calls, return them to the client, or offer no tools.
McpMode = Literal["execute", "passthrough", "off"]
WorkTool = Literal["bash", "run_code", "read_file"]  # the gateway's own tools


class Gateway(Entry):
    """Settings of `vibe-jupyter serve`. Can't be set by a project, trusted or not."""

    mcp_mode: McpMode = "execute"
    mcp_modes: dict[str, McpMode] = {}
    """`mcp_mode` of single MCP servers, by name."""
    tools: tuple[WorkTool, ...] = ()
    """Tools offered in addition to those of MCP servers."""
    allow: Patterns = ()
    """Tools that run without approval when a request comes in; others ask, or are denied."""
    max_rounds: int = Field(default=DEFAULT_ROUNDS, ge=1, le=MAX_TURNS)
    """Model requests for one answer."""
    always_events: bool = False
    """Whether streams also contain named events for clients that haven't indicated support."""
    hosts: tuple[str, ...] = ()
    """Host names of the gateway other than this machine's, such as `gateway.example.org`, with a port if needed."""
    origins: tuple[str, ...] = ()
    """Origins of web pages that may send requests, such as `https://chat.example.org`."""
    prefix: str = Field(default="", pattern=r"^(/[A-Za-z0-9._~-]+)*/?$")
    """Path prefix behind a proxy, such as `/services/vibe`."""
    file_origins: tuple[str, ...] = ()
    """Origins from which a request's `file_url` is fetched, such as `https://files.example.org`."""
    store: str = Field(default="", pattern=r"^((rediss?|unix)://.+)?$")
    """Redis shared by gateways on several machines, such as `redis://cache.example.org:6379/0`; "" for a local file."""


def _grouped(written: object) -> object:
    """Wrap a single list into the list of all layers' lists."""
    if not isinstance(written, list | tuple):
        return written
    items = cast("Sequence[object]", written)
    if any(isinstance(one, list | tuple) for one in items):
        return tuple(tuple(cast("list[object]", one)) if isinstance(one, list) else one for one in items)
    return (tuple(items),) if items else ()


class Settings(Entry):
    """All settings. Sections with many keys are defined in modules of their own."""

    unused: ClassVar = frozenset(
        {"active_transcribe_model", "active_tts_model", "api_connect_timeout", "api_pool_timeout"}
        | {"api_retry_max_elapsed_time", "api_write_timeout"}
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
    """Alias or name; "" until one is chosen."""
    max_turns: int = Field(default=DEFAULT_TURNS, ge=1)
    max_price: float = Field(default=DEFAULT_PRICE, ge=0)
    """US dollars a run may cost if prices are known; 0 for no limit."""
    max_tokens: int | None = Field(default=None, ge=0)
    """Tokens a run may send and receive; 0 for no limit. None limits only runs that skip approvals."""
    max_seconds: float | None = Field(default=None, ge=0)
    """Seconds a run may take, not counting waits for the user; 0 for no limit.

    None limits only runs that skip approvals.
    """
    api_timeout: float | None = Field(default=None, ge=0)
    """Seconds until a response must begin; 0 for no limit. None for `vibe_jupyter.llm.request.BEGIN_WAIT`."""
    api_stream_idle_timeout: float | None = Field(default=None, ge=0)
    """Seconds that a stream may be silent; 0 for no limit. None for the value in `AnswerLimits.of`."""
    transcript: Form = "full"
    """How much of a run's transcript remains in the notebook."""
    transcript_times: bool = True
    """Whether durations, tokens and prices remain in it."""
    keep_answers: bool = False
    """Whether an unchanged prompt shows the stored answer of its cell, as with `--keep`."""

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
    """False disables `bypass_tool_permissions`, including that of an agent's profile."""
    enable_subagents: bool = True
    enable_mcp: bool = True
    outside_workdir: OutsideWorkdir = "ask"
    allowed_models: Annotated[tuple[Patterns, ...], BeforeValidator(_grouped)] = ()
    """The allowed models of each layer that restricts them, by the server's names. A model must be in every list."""
    ignored_guards: Patterns = ()
    """Restrictions that a non-interactive run may ignore although they are unsupported or untrusted.

    Patterns of keys, or `project_hooks`. Can't be set by a project, trusted or not.
    """
    command_effects: tuple[dict[str, JsonValue], ...] = ()
    """Rows that add to `permissions/shell/effects.toml`. Can't be set by a project, trusted or not."""
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
    """None for the conversation's own model."""
    auto_compact_threshold: int = Field(default=200_000, ge=0)
    """Tokens above which the history is compacted, at most `middleware.COMPACT_SHARE` of the window; 0 for never."""
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
        """Return the level of each tool that has one."""
        return {name: entry.permission for name, entry in self.tools.items() if entry.permission is not None}

    @property
    def approves_all(self) -> bool:
        """True if calls run without the approval that their level requires."""
        return self.bypass_tool_permissions and self.enable_auto_approve

    def may_use_model(self, name: str) -> bool:
        """Return whether a model, by the server's name for it, is in every list of allowed models."""
        return all(any(matches_pattern(pattern, name) for pattern in one) for one in self.allowed_models)

    def denies_outside(self) -> Mapping[str, bool]:
        """Return which tools must not reach outside the project; "*" stands for tools without a setting."""
        said = {name: entry.outside_workdir for name, entry in self.tools.items() if entry.outside_workdir is not None}
        return {"*": self.outside_workdir == "deny", **{name: value == "deny" for name, value in said.items()}}

    def keep(self) -> RunRetention:
        """Return the transcript settings."""
        return RunRetention(form=self.transcript, times=self.transcript_times)

    def model_names(self) -> tuple[str, ...]:
        """Return the names of the allowed models, the user's own first."""
        allowed = (entry for entry in self.models if self.may_use_model(entry.name))
        return tuple(dict.fromkeys(entry.known_as for entry in allowed))

    def offers_tool(self, name: str, *others: str) -> bool:
        """Return whether both lists leave a tool enabled, under any of its names."""
        names: Sequence[str] = (name, *others, *OTHER_NAMES.get(name, ()))
        if not self.enable_subagents and name == TASK:
            return False
        return is_chosen(names, enabled=self.enabled_tools, disabled=self.disabled_tools)

    def offers_skill(self, name: str) -> bool:
        """Return whether both lists leave a skill enabled."""
        return is_chosen((name,), enabled=self.enabled_skills, disabled=self.disabled_skills)

    def tool_options(self, name: str, model: type[M]) -> M:
        """Return the options of a tool, which were validated when the settings were read."""
        return options_of(self.tools.get(name), model)


# Settings without any layer; constructed without validation, so that the first request needn't wait for validators.
DEFAULT_SETTINGS: Final = Settings.model_construct()


def options_of(entry: ToolEntry | None, model: type[M]) -> M:
    """Return a tool's options, completed by its defaults."""
    written = (entry or ToolEntry()).options
    return model.model_validate({key: value for key, value in written.items() if key in model.model_fields})
