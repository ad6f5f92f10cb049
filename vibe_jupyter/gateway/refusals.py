"""What the gateway itself says to a request that it does not serve, in the form that OpenAI's clients read."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from pydantic import JsonValue

from vibe_jupyter.errors import ModelError

JSON: Final = "application/json"
_PASSED_HEADERS: Final = ("content-type", "retry-after", "retry-after-ms", "x-should-retry", "x-request-id")
"""Of the model server's, that reach the client."""

_TYPES: Final = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    500: "server_error",
    502: "upstream_error",
    503: "server_error",
    504: "upstream_error",
}


class Refused(Exception):
    """A request that is answered with an error; the text is for whoever sent it."""

    def __init__(self, status: int, message: str, *, code: str = "", param: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.param = param

    @property
    def body(self) -> bytes:
        """As JSON."""
        return error_body(self.status, str(self), code=self.code, param=self.param)


def invalid_fields(problems: Sequence[Mapping[str, Any]]) -> Refused:
    """What is said of fields that are wrong, which the first stands for."""
    first = problems[0]
    place = ".".join(str(part) for part in first["loc"] if part != "body")
    return Refused(422, f"{place}: {first['msg']}", code="validation_error", param=place)


class Refusal(NamedTuple):
    """An answer of the model server that is no success, passed on as it came."""

    status: int
    headers: Mapping[str, str]
    body: bytes


def error_object(status: int, message: str, *, code: str = "", param: str = "") -> dict[str, JsonValue]:
    """What stands in ``error``."""
    kind = _TYPES.get(status, "invalid_request_error")
    return {"message": message, "type": kind, "param": param or None, "code": code or None}


def error_body(status: int, message: str, *, code: str = "", param: str = "") -> bytes:
    """A whole body, which clients of OpenAI and of Anthropic read."""
    return json.dumps({"type": "error", "error": error_object(status, message, code=code, param=param)}).encode()


def passed_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Those of the model server that reach the client."""
    return {name: headers[name] for name in _PASSED_HEADERS if name in headers}


def unreachable_status(failure: ModelError) -> int:
    """The status that says why the model server gave no answer."""
    return 504 if failure.kind == "limit" else 502
