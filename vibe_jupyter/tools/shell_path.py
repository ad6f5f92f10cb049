"""Location of the bash that runs commands. Imports little, because each agent start needs it."""

import os
import shutil
import sys
from typing import Final

# Candidates for bash. Commands are analyzed as bash, so they must run in bash, whatever ``$SHELL`` is.
SHELLS: Final = ("/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash", "/opt/homebrew/bin/bash")


def find_shell() -> str | None:
    """Return the path of bash, or None if there is none or on Windows, where it is untested."""
    if sys.platform == "win32":
        return None
    return next((path for path in SHELLS if os.access(path, os.X_OK)), None) or shutil.which("bash")


def why_no_shell() -> str:
    """Return why the tool is not offered, as a sentence for the user, or ""."""
    if sys.platform == "win32":
        return "bash is not offered on Windows: it was not tried there. Run the kernel in WSL to have it."
    return "" if find_shell() else "bash is not offered: there is no bash on this machine."
