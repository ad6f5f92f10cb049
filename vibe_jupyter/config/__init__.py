"""Settings: what the person, the project and the environment say, as plain values.

Start reading at `vibe_jupyter.config.reading`. The files are Mistral Vibe's own (seed 001, Configuration), so that its
users move in as they are. Nothing below the roof sees a `Settings`; `vibe_jupyter.app` turns it into models, levels and
limits.
"""

from vibe_jupyter.config.choice import key_variables, model_of
from vibe_jupyter.config.declared import Declarations, Declared, mcp_servers
from vibe_jupyter.config.environment import effective
from vibe_jupyter.config.listing import listing, places
from vibe_jupyter.config.models import DEFAULT_ACTIVE_MODEL
from vibe_jupyter.config.places import config_path, env_path, vibe_home
from vibe_jupyter.config.project import ProjectFile, demanded_servers, demands, tool_paths
from vibe_jupyter.config.reading import Reading, load, read
from vibe_jupyter.config.settings import Settings

__all__ = [
    "DEFAULT_ACTIVE_MODEL",
    "Declarations",
    "Declared",
    "ProjectFile",
    "Reading",
    "Settings",
    "config_path",
    "demanded_servers",
    "demands",
    "effective",
    "env_path",
    "key_variables",
    "listing",
    "load",
    "mcp_servers",
    "model_of",
    "places",
    "read",
    "tool_paths",
    "vibe_home",
]
