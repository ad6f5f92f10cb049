"""Copies of a kernel for the tool `run_code`: of the agent, and of external clients."""

from pathlib import Path

from IPython.core.interactiveshell import InteractiveShell

from vibe_jupyter.app.shell_host import ShellHost
from vibe_jupyter.kernel.main_thread import MainThread
from vibe_jupyter.notebook.tools.exploration import CodeExploration, SecretNames
from vibe_jupyter.permissions.secret_shapes import is_secret_name
from vibe_jupyter.sandbox.availability import machine_refusal


def kernel_copies(
    main_thread: MainThread, shell: InteractiveShell, host: ShellHost, project: Path
) -> CodeExploration | None:
    """Return what runs code in copies of this kernel, or None if this machine can make none."""
    if machine_refusal():
        return None
    names = SecretNames(is_secret_name, found=host.secrets, learn=host.secrets.learn)
    return CodeExploration(main_thread, shell, project, names)
