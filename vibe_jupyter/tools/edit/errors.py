"""Why an edit cannot be done."""

from typing import Literal

from vibe_jupyter.errors import ToolError

EditErrorKind = Literal[
    "empty_content",  # nothing was sent
    "no_blocks",  # no whole block in it
    "malformed",  # a block is cut, or can be read in two ways
    "too_large",  # over a limit
    "empty_search",  # nothing to look for
    "not_found",  # it is not in the file
    "ambiguous",  # it is in the file more than once
    "no_change",  # the file reads so already
    "undecodable",  # the file is no text in an encoding that can be told
]


class EditError(ToolError):
    """An edit that was not done; the file is as it was."""

    def __init__(self, kind: EditErrorKind, message: str) -> None:
        super().__init__(message)
        self.kind: EditErrorKind = kind
