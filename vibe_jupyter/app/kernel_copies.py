"""Copies of a kernel for the tool `run_code`: of the agent, and of external clients."""

from pathlib import Path

from IPython.core.interactiveshell import InteractiveShell
from pydantic import JsonValue

from vibe_jupyter.app.shell_host import ShellHost
from vibe_jupyter.kernel.main_thread import MainThread
from vibe_jupyter.notebook.tools.copy_report import ReportedRun
from vibe_jupyter.notebook.tools.exploration import CodeExploration, SecretNames
from vibe_jupyter.permissions.redaction import redacted_report
from vibe_jupyter.permissions.secret_shapes import is_secret_name
from vibe_jupyter.protocol.messages import Value
from vibe_jupyter.sandbox.availability import machine_refusal


def kernel_copies(
    main_thread: MainThread, shell: InteractiveShell, host: ShellHost, project: Path
) -> CodeExploration | None:
    """Return what runs code in copies of this kernel, or None if this machine can make none."""
    if machine_refusal():
        return None
    names = SecretNames(is_secret_name, found=host.secrets, redact=redact_by_own_secrets)
    return CodeExploration(main_thread, shell, project, names)


def redact_by_own_secrets(ran: ReportedRun) -> ReportedRun:
    """Redact the outputs and the error of a report by the secrets that the copy found."""
    error = ran.error
    texts = _ReportedTexts(outputs=ran.outputs, error=() if error is None else (error.message, error.traceback))
    texts = redacted_report(texts, ran.secrets, ran.partly_known)
    if error is not None:
        error = error._replace(message=texts.error[0], traceback=texts.error[1])
    return ran.model_copy(update={"outputs": texts.outputs, "error": error})


class _ReportedTexts(Value):
    """The parts of a report that code in the copy writes."""

    outputs: tuple[dict[str, JsonValue], ...]
    error: tuple[str, ...]
