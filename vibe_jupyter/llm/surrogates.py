"""Text that can always be encoded as UTF-8.

JSON may hold half a surrogate pair, and a server that cuts its text by UTF-16 units sends the two halves of one
character in two pieces.
"""

import re

_SURROGATE = re.compile("[\ud800-\udfff]")
_REPLACEMENT = "\ufffd"


def repair(text: str) -> str:
    """Join the pairs and replace what stays single."""
    if text.isascii() or not _SURROGATE.search(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


class PairJoiner:
    """Repairs text that comes in pieces, holding back a first half until its second may come."""

    def __init__(self) -> None:
        self._held = ""

    def feed(self, text: str) -> str:
        """What of the text so far can be shown."""
        if not self._held and text.isascii():
            return text
        text = self._held + text
        self._held = text[-1] if "\ud800" <= text[-1:] <= "\udbff" else ""
        return repair(text[:-1] if self._held else text)

    def end(self) -> str:
        """What is left at the end of the text."""
        held, self._held = self._held, ""
        return _REPLACEMENT if held else ""
