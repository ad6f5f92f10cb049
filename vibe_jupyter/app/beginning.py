"""Before a run begins: may it, in which folder, and where it is kept."""

import concurrent.futures
import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from vibe_jupyter import config
from vibe_jupyter.agent.run import Run
from vibe_jupyter.errors import NotebookError
from vibe_jupyter.session.conversation import Conversation
from vibe_jupyter.session.journal import Journal


def check_free(run: Run | None, left: "concurrent.futures.Future[None] | None") -> None:
    """A run begins on the main thread, and two never write one conversation.

    Args:
        run: the one that is open.
        left: one that did not end in time.

    Raises:
        NotebookError: it may not begin; says what to do.
    """
    if threading.current_thread() is not threading.main_thread():
        raise NotebookError("A run must start in a cell of the main shell, not in a subshell or another thread.")
    if run is not None:
        raise NotebookError("A run is open in this kernel already. Wait for it, or end it with Stop or ■.")
    if left is not None and not left.done():
        raise NotebookError(
            "The run before has not come to its end yet. Wait a moment and run the cell again, or begin a new "
            "conversation with %vibe reset."
        )


def new_conversation(environ: Mapping[str, str], session_id: str) -> Conversation:
    """One that is kept in a journal of its own.

    Raises:
        JournalError: it cannot be kept.
    """
    now = datetime.now(UTC).strftime("%Y%m%d_%H%M%S")
    folder = config.vibe_home(environ) / "logs" / "session" / f"session_{now}_{session_id[:8]}"
    return Conversation(Journal.create(folder, session_id=session_id))


def working_folder() -> Path:
    """The folder that the agent may read in.

    Raises:
        NotebookError: it was removed while the kernel runs in it.
    """
    try:
        return Path.cwd()
    except OSError as error:
        raise NotebookError(
            f"The kernel's working folder is gone or cannot be entered ({error.strerror}). Go to one that is there, "
            'such as with %cd "~", then run the cell again.'
        ) from error
