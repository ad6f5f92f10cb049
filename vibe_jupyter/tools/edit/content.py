"""A text file's bytes as text and back, without losing one."""

from dataclasses import dataclass
from typing import Final

from vibe_jupyter.tools.edit.errors import EditError

# Longest marks first: the one of UTF-32 begins with the one of UTF-16.
_MARKS: Final = (
    (b"\xff\xfe\x00\x00", "utf-32-le"),
    (b"\x00\x00\xfe\xff", "utf-32-be"),
    (b"\xff\xfe", "utf-16-le"),
    (b"\xfe\xff", "utf-16-be"),
    (b"\xef\xbb\xbf", "utf-8"),
)


@dataclass(frozen=True)
class Content:
    """A whole text file."""

    mark: bytes
    """Its byte order mark; empty for none."""
    encoding: str
    text: str

    def encoded(self, text: str) -> bytes:
        """Another text as bytes of the same kind.

        Raises:
            EditError: it holds characters that cannot be written.
        """
        try:
            return self.mark + text.encode(self.encoding)
        except UnicodeEncodeError as error:
            message = f"The new text cannot be written as {self.encoding}: {error.reason}. Nothing was changed."
            raise EditError("undecodable", message) from error


def decode(raw: bytes, shown: str) -> Content:
    """The file's text.

    Raises:
        EditError: no encoding gives back the same bytes; `shown` names the file.
    """
    mark, encoding = next(((mark, name) for mark, name in _MARKS if raw.startswith(mark)), (b"", "utf-8"))
    try:
        text = raw[len(mark) :].decode(encoding)
        if mark + text.encode(encoding) == raw:
            return Content(mark, encoding, text)
    except UnicodeError:
        pass
    raise EditError(
        "undecodable",
        f"{shown!r} cannot be decoded as {encoding.upper()}. Nothing was changed. For another encoding or binary data "
        "use run_code.",
    )
