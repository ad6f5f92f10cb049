"""Reject requests that a proxy in front of the server could delimit differently than the server does.

h11 accepts a few forms that RFC 9112 allows or requires a server to reject. Two programs that parse such a request
differently disagree about where the next one begins ("request smuggling"), so each of them is an error here. h11 itself
rejects invalid lengths, other transfer codings, malformed chunks and malformed header lines.
"""

import re
from typing import Any, Final

import h11

VERSIONS: Final = (b"1.0", b"1.1")
_BARE_LINE_END: Final = re.compile(rb"\r(?!\n)|(?<!\r)\n")
_CONTINUATION: Final = re.compile(rb"\n[ \t]")
_CONTROL: Final = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_LENGTH: Final = re.compile(rb"(?im)^content-length:[ \t]*(.*?)[ \t]*\r?$")
_ABSOLUTE: Final = re.compile(rb"https?://([^/?#]*)([^#]*)", re.IGNORECASE)


class StrictConnection(h11.Connection):
    """Server side of an HTTP connection. Raises on ambiguous requests."""

    refusal = ""  # why the last request was rejected, for the client; "" if h11 rejected it

    def next_event(self) -> Any:
        """Return the client's next event.

        Raises:
            h11.RemoteProtocolError: the request is invalid or ambiguous.
        """
        before = self.trailing_data[0] if self.their_state is h11.IDLE else b""
        event = super().next_event()
        if not isinstance(event, h11.Request):
            return event
        head = before[: len(before) - len(self.trailing_data[0])]
        self.refusal = _ambiguity(head, event)
        if self.refusal:
            raise h11.RemoteProtocolError(self.refusal)
        return _in_origin_form(event)


def _ambiguity(head: bytes, request: h11.Request) -> str:
    """Return a sentence about what is ambiguous in a request's head, or ""."""
    names = [name for name, _ in request.headers]
    if request.http_version not in VERSIONS:
        return "The request's version of HTTP is unknown. Send HTTP/1.1."
    if _BARE_LINE_END.search(head):
        return "A line of the request's head ends without CR LF. End each line with CR LF."
    if _CONTINUATION.search(head):
        return "A header of the request goes on in the next line. Send each header in one line."
    if _CONTROL.search(head):
        return "A control character stands in the request's head. Remove it."
    lengths = _LENGTH.findall(head)
    if len(lengths) > 1 or any(not length.isdigit() for length in lengths):
        return "The request gives several values of Content-Length. Send one number."
    if b"transfer-encoding" in names:
        if lengths:
            return "The request has both Content-Length and Transfer-Encoding. Send one of them."
        if request.http_version == b"1.0":
            return "The request has Transfer-Encoding, which HTTP/1.0 does not know. Send Content-Length."
    return "" if _names_one_host(request) else "The request's target and its Host header differ. Send the path alone."


def _names_one_host(request: h11.Request) -> bool:
    """Return whether the target is a path, or a URL with the same host as the Host header."""
    target, method = request.target, request.method
    if target.startswith(b"/") or (target == b"*" and method == b"OPTIONS"):
        return True
    absolute = _ABSOLUTE.fullmatch(target)
    host = next((value for name, value in request.headers if name == b"host"), b"")
    return absolute is not None and absolute[1].lower() == host.lower() != b""


def _in_origin_form(request: h11.Request) -> h11.Request:
    """Replace an absolute URL as target, as clients of a proxy send it, by its path."""
    absolute = _ABSOLUTE.fullmatch(request.target)
    if absolute is None:
        return request
    path = absolute[2] if absolute[2].startswith(b"/") else b"/" + absolute[2]
    return h11.Request(
        method=request.method,
        headers=list(request.headers.raw_items()),
        target=path,
        http_version=request.http_version,
    )
