"""Forked copies of a kernel in which `run_code` executes code for the agent and for external clients."""

from pydantic import JsonValue

from vibe_jupyter.app.shell_host import Kernel
from vibe_jupyter.notebook.tools.copy_report import ReportedRun
from vibe_jupyter.notebook.tools.exploration import CodeExploration, SecretNames
from vibe_jupyter.permissions.redaction import redacted_report
from vibe_jupyter.permissions.secret_shapes import is_secret_name
from vibe_jupyter.protocol.messages import Value
from vibe_jupyter.sandbox.availability import machine_refusal


def kernel_copies(kernel: Kernel) -> CodeExploration | None:
    """Return a runner of code in copies of this kernel, or None if this machine can't fork one."""
    if machine_refusal():
        return None
    names = SecretNames(is_secret_name, found=kernel.host.secrets, redact=redact_by_own_secrets)
    return CodeExploration(kernel.main_thread, kernel.shell, kernel.workspace.root, names)


def redact_by_own_secrets(ran: ReportedRun) -> ReportedRun:
    """Redact a report's outputs and error with the secrets found in the copy."""
    error = ran.error
    texts = _ReportedTexts(outputs=ran.outputs, error=() if error is None else (error.message, error.traceback))
    texts = redacted_report(texts, ran.secrets, ran.partly_known)
    if error is not None:
        error = error._replace(message=texts.error[0], traceback=texts.error[1])
    return ran.model_copy(update={"outputs": texts.outputs, "error": error})


class _ReportedTexts(Value):
    """Texts of a report that code in the copy produced."""

    outputs: tuple[dict[str, JsonValue], ...]
    error: tuple[str, ...]
