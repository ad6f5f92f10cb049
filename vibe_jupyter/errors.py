"""All exceptions that this package raises deliberately, and who reads their text.

    VibeError
    ├── ConfigError      user: the invalid setting, and the next step
    ├── NotebookError    user: the kernel or the notebook can't do what was requested
    ├── ModelError       user: the model server failed; includes the text received so far
    ├── JournalError     user: the conversation can't be recorded, so the run stops
    └── ToolError        model: what happened, and what to try instead
        ├── NothingDone  model: the call certainly changed nothing
        └── ServerError  model and user: an MCP server failed; its last output and the next step

    RunFailed            fails the cell of an unfinished run, so that the queued cells don't run
    RunStopped           the same after ■ or Stop; a KeyboardInterrupt

The last two are displayed as one line without a traceback. Any other exception is a bug and shows its traceback.
"""

import errno
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Literal

ModelErrorKind = Literal[
    "connection",  # no TCP or TLS connection, or it broke before a response began
    "auth",  # 401 or 403
    "not_found",  # 404: wrong address or unknown model
    "rate_limit",  # 429 after all retries
    "overflow",  # the conversation exceeds the model's context window
    "http",  # any other status of 400 or above
    "provider",  # an error object in a stream or a 200 response
    "truncated",  # the stream ended before its finish reason
    "bad_json",  # a data line, or the whole body, isn't JSON
    "not_sse",  # the response is neither an event stream nor a JSON object
    "empty",  # a complete response with neither text nor tool calls
    "unreadable_call",  # the model repeatedly writes tool calls as text that can't be parsed
    "limit",  # one of our own limits on size or time was exceeded
]


class VibeError(Exception):
    """Base of all errors of this package. Its text is one or two sentences for a user."""


class ConfigError(VibeError):
    """A setting is missing or invalid. The text names the setting, its location, and the next step."""


class MissingModel(ConfigError):
    """No model is available: none is selected, or the selected one lacks its key, provider or entry."""


class NotebookError(VibeError):
    """The kernel or the notebook can't do what was requested."""


class JournalError(VibeError):
    """The conversation couldn't be written to disk. Nothing with effects happens afterwards."""


class RunFailed(Exception):
    """A prompt's run failed. The cell output explains why; the text repeats it for programs."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.earlier = error_of_user()

    def _render_traceback_(self) -> list[str]:
        """Return the traceback that IPython shows."""
        return [f"{type(self).__name__}: the cells queued after this one do not run (--keep-going lets them)"]


class RunStopped(KeyboardInterrupt):
    """The user stopped a run, or a prompt before its run began."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.earlier = error_of_user()

    def _render_traceback_(self) -> list[str]:
        """Return the traceback that IPython shows."""
        return [f"{type(self).__name__}: {self}"]


def error_of_user() -> BaseException | None:
    """Return the last error shown in a cell, looking past errors that ended our own runs. None if there was none."""
    error: BaseException | None = getattr(sys, "last_value", None)
    return error.earlier if isinstance(error, RunFailed | RunStopped) else error


class ToolError(VibeError):
    """A tool failed. The text is sent to the model as the result of the call."""


class NothingDone(ToolError):
    """A tool refused a call before changing anything, for example because a file has changed since it was read."""


class ServerError(ToolError):
    """An MCP server couldn't be started, didn't respond, or exited."""

    def __init__(self, sentence: str, *, server: str, last_words: str = "", next_step: str = "") -> None:
        told = ["Its last output:", *(f"  {line}" for line in last_words.splitlines())] if last_words else []
        super().__init__("\n".join(filter(None, (sentence, *told, next_step))))
        self.sentence = sentence  # the first sentence of the message: what happened
        self.server = server  # name of the server
        self.last_words = last_words  # its last output on stderr


class ModelError(VibeError):
    """The model server refused the request, failed, or broke off."""

    def __init__(
        self,
        message: str,
        *,
        kind: ModelErrorKind,
        status: int | None = None,
        provider_message: str = "",
        partial_text: str = "",
        passing: bool = True,
    ) -> None:
        super().__init__(message)
        self.kind: ModelErrorKind = kind
        self.passing = passing  # False if the same request would certainly fail again
        self.status = status  # HTTP status; None without a response, or if a 200 stream failed
        self.provider_message = provider_message  # the server's own message, shortened; never contains the key
        # Text received before the failure; shown and marked as incomplete, never sent again.
        self.partial_text = partial_text


@contextmanager
def open_files_named() -> Generator[None]:
    """Explain the limit on open files if the operating system refuses to open another one.

    Raises:
        NotebookError: The limit was reached.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.EMFILE, errno.ENFILE):
            raise
        raise NotebookError(
            "Too many files are open. Close some, or raise the limit (ulimit -n) and restart; then try again."
        ) from None
