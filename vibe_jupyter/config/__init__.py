"""Settings of the user, the project and the environment, as plain values.

Start reading at `vibe_jupyter.config.loading`. The files are Mistral Vibe's own (docs/settings.md), so that its users
can use theirs unchanged. Only `vibe_jupyter.app` uses `Settings`, and turns it into models, levels and limits for the
other packages.
"""

from vibe_jupyter.config.agents import (
    BUILT_IN_AGENTS,
    AgentProfile,
    ProfileFile,
    Profiles,
    list_profile_demands,
    own_profile_paths,
    read_profile,
)
from vibe_jupyter.config.loading import (
    NO_SETTINGS,
    SettingsReading,
    effective_environment,
    load_settings,
    read_settings,
    settings_variables,
)
from vibe_jupyter.config.model_choice import IN_KEYRING, check_allowed, choose_model, key_variables
from vibe_jupyter.config.project import ProjectFile, list_demanded_servers, list_demands, named_paths
from vibe_jupyter.config.providers import DEFAULT_ACTIVE_MODEL
from vibe_jupyter.config.settings import DEFAULT_SETTINGS, Settings
from vibe_jupyter.config.toml_file import config_path, env_path, vibe_home

__all__ = [
    "BUILT_IN_AGENTS",
    "DEFAULT_ACTIVE_MODEL",
    "DEFAULT_SETTINGS",
    "IN_KEYRING",
    "NO_SETTINGS",
    "AgentProfile",
    "ProfileFile",
    "Profiles",
    "ProjectFile",
    "Settings",
    "SettingsReading",
    "check_allowed",
    "choose_model",
    "config_path",
    "effective_environment",
    "env_path",
    "key_variables",
    "list_demanded_servers",
    "list_demands",
    "list_profile_demands",
    "load_settings",
    "named_paths",
    "own_profile_paths",
    "read_profile",
    "read_settings",
    "settings_variables",
    "vibe_home",
]
