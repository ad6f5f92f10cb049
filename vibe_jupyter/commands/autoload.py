"""`%vibe autoload`: a startup file of the IPython profile, executed by each of its kernels and `ipython` shells."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, cast

from IPython.core.getipython import get_ipython

from vibe_jupyter.errors import ConfigError

FILE_NAME: Final = "50-vibe-jupyter.py"
_STARTUP: Final = """\
# Written by `%vibe autoload on`; `%vibe autoload off` removes it.
try:
    get_ipython().extension_manager.load_extension("vibe_jupyter")
except ModuleNotFoundError:  # a kernel of another environment has this profile too
    pass
"""


def startup_file(shell: object) -> Path:
    return Path(cast(Any, shell).profile_dir.startup_dir, FILE_NAME)


def autoload_command(words: Sequence[str]) -> str | None:
    """Switch autoloading on or off, or report its state. Returns None for other arguments."""
    file = startup_file(get_ipython())
    try:
        match words:
            case []:
                return _state(file)
            case ["on"]:
                file.write_text(_STARTUP, encoding="utf-8")
                return f"{_state(file)}\nThis holds from the next start of a kernel on."
            case ["off"]:
                file.unlink(missing_ok=True)
                return _state(file)
            case _:
                return None
    except OSError as error:
        raise ConfigError(f"Cannot change {file}: {error.strerror}.") from error


def _state(file: Path) -> str:
    if file.is_file():
        return f"%vibe is loaded with every kernel of this profile, by {file}. %vibe autoload off ends it."
    return "%vibe is not loaded by itself. %vibe autoload on makes every kernel of this profile load it."
