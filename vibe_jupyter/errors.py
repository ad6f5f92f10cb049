"""Every exception this package raises on purpose.

    VibeError
    ├── ConfigError      the user reads it: what is wrong in which setting, and the next step
    ├── NotebookError    the user reads it: the kernel or the notebook cannot do what was asked
    ├── ModelError       the user reads it: the model server failed, with the text already received
    ├── JournalError     the user reads it: the conversation cannot be recorded, so nothing more is done
    └── ToolError        the model reads it: what happened and what to try instead
        ├── NothingDone  the same, where it is certain that the call changed nothing
        └── ServerError  the user reads it too: a server of further tools failed; its last words and the next step

    RunFailed            ends the cell of a run that did not come to its end, so that the cells behind it do not run
    RunStopped           the same after ■ or Stop; a KeyboardInterrupt

The last two are shown as one line, without a traceback. Anything else that escapes is a bug and keeps its traceback.
"""

import errno
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Literal

ModelErrorKind = Literal[
    "connection",  # no TCP or TLS connection, or it broke before an answer began
    "auth",  # 401 or 403
    "not_found",  # 404: wrong address or unknown model
    "rate_limit",  # 429 after all retries
    "overflow",  # the conversation is longer than the model's context window
    "http",  # any other status of 400 or more
    "provider",  # an error object inside a stream or inside a 200 answer
    "truncated",  # the stream ended before its finish
    "bad_json",  # a data line, or the whole body, is not JSON
    "not_sse",  # the answer is neither an event stream nor a JSON object
    "empty",  # a complete answer with neither text nor calls
    "limit",  # one of our own bounds on size or time was passed
]


class VibeError(Exception):
    """Base of all errors of this package; its text is one or two sentences for a user."""


class ConfigError(VibeError):
    """A setting is missing or wrong. The text names the setting, where it stands, and the next step."""


class MissingModel(ConfigError):
    """No model can be asked: none is chosen, or what is chosen lacks its key, its provider or its entry."""


class NotebookError(VibeError):
    """The kernel or the notebook cannot do what was asked."""


class JournalError(VibeError):
    """The conversation could not be written to disk. Nothing with effects happens after it."""


class RunFailed(Exception):
    """A prompt that did not come to its end. The cell has shown why; the text says it once more, for programs."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.earlier = error_of_user()

    def _render_traceback_(self) -> list[str]:
        """What IPython shows."""
        return [f"{type(self).__name__}: the cells queued after this one do not run (--keep-going lets them)"]


class RunStopped(KeyboardInterrupt):
    """The user stopped a run, or a prompt that was about to become one."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.earlier = error_of_user()

    def _render_traceback_(self) -> list[str]:
        """What IPython shows."""
        return [f"{type(self).__name__}: {self}"]


def error_of_user() -> BaseException | None:
    """The last error that a cell has shown, and that is not the end of a run of ours; None where there was none."""
    error: BaseException | None = getattr(sys, "last_value", None)
    return error.earlier if isinstance(error, RunFailed | RunStopped) else error


class ToolError(VibeError):
    """A tool could not do its work. The text goes to the model as the result of its call."""


class NothingDone(ToolError):
    """A tool refused before it changed anything, such as a file that is not as it was shown."""


class ServerError(ToolError):
    """A server of further tools could not be started, did not answer, or ended."""

    def __init__(self, sentence: str, *, server: str, last_words: str = "", next_step: str = "") -> None:
        told = ["Its last output:", *(f"  {line}" for line in last_words.splitlines())] if last_words else []
        super().__init__("\n".join(filter(None, (sentence, *told, next_step))))
        self.sentence = sentence
        """What happened, alone."""
        self.server = server
        """Its name."""
        self.last_words = last_words
        """What it wrote last on standard error."""


class ModelError(VibeError):
    """The model server refused, failed or broke off."""

    def __init__(
        self,
        message: str,
        *,
        kind: ModelErrorKind,
        status: int | None = None,
        provider_message: str = "",
        partial_text: str = "",
    ) -> None:
        super().__init__(message)
        self.kind: ModelErrorKind = kind
        self.status = status
        """HTTP status; None when no response arrived or the failure came inside a 200 stream."""
        self.provider_message = provider_message
        """The server's own words, shortened; never holds the key."""
        self.partial_text = partial_text
        """Answer text received before the failure; shown and marked, never sent again."""


@contextmanager
def open_files_named() -> Generator[None]:
    """Name the limit on open files where the system refused one more.

    Raises:
        NotebookError: it did.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.EMFILE, errno.ENFILE):
            raise
        raise NotebookError(
            "Too many files are open. Close some, or raise the limit (ulimit -n) and restart; then try again."
        ) from None
