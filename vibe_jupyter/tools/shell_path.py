"""Where the bash is that runs commands. It imports little: each start of a kernel's agent asks for it."""

import os
import shutil
import sys
from typing import Final

SHELLS: Final = ("/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash", "/opt/homebrew/bin/bash")
"""Where the one shell is looked for: what was judged as bash is run by bash, whatever ``$SHELL`` says."""


def find_shell() -> str | None:
    """The bash commands are run by; None on Windows, where none that was judged is there."""
    if sys.platform == "win32":
        return None
    return next((path for path in SHELLS if os.access(path, os.X_OK)), None) or shutil.which("bash")


def why_no_shell() -> str:
    """Why the tool is not offered, as one sentence for the user; empty where it is."""
    if sys.platform == "win32":
        return "bash is not offered on Windows: it was not tried there. Run the kernel in WSL to have it."
    return "" if find_shell() else "bash is not offered: there is no bash on this machine."
