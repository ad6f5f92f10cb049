"""Error responses of the gateway, in the format that OpenAI's clients read."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from pydantic import JsonValue

from vibe_jupyter.errors import ModelError
from vibe_jupyter.llm import json_text
from vibe_jupyter.llm.failures import clean_text, server_reason

JSON: Final = "application/json"
# Headers of the model server that are passed to the client
_PASSED_HEADERS: Final = ("content-type", "retry-after", "retry-after-ms", "x-should-retry", "x-request-id")

_TYPES: Final = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "server_error",
    502: "upstream_error",
    503: "server_error",
    504: "upstream_error",
    529: "overloaded_error",
}


class Refused(Exception):
    """A request rejected with an error response. The message is for the sender of the request."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str = "",
        param: str = "",
        details: Mapping[str, JsonValue] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.param = param
        self.details = details

    @property
    def body(self) -> bytes:
        error = error_object(self.status, str(self), code=self.code, param=self.param)
        if self.details is not None:
            error["details"] = dict(self.details)
        return json.dumps({"type": "error", "error": error}).encode()


def invalid_fields(problems: Sequence[Mapping[str, Any]]) -> Refused:
    """Return the error for invalid fields. It describes only the first one."""
    first = problems[0]
    place = ".".join(str(part) for part in first["loc"] if part != "body")
    return Refused(422, f"{place}: {first['msg']}", code="validation_error", param=place)


class Refusal(NamedTuple):
    """An error response of the model server, passed on unmodified."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def reason(self) -> str:
        """The status and the server's error message in one sentence."""
        said = clean_text(server_reason(self.body.decode("utf-8", "replace"))).rstrip(".")
        return f"The model server answered {self.status}{said and f': {said}'}."

    @property
    def error(self) -> dict[str, JsonValue]:
        """The error object for the client: the server's own if it has a message, else one with `reason`."""
        try:
            said = json_text.parse_json_object(self.body.decode("utf-8", "replace")).get("error")
        except ValueError:
            said = None
        if isinstance(said, dict) and isinstance(said.get("message"), str) and said["message"]:
            return said
        made = error_object(self.status, self.reason)
        return {**said, "message": made["message"]} if isinstance(said, dict) else made


def error_object(status: int, message: str, *, code: str = "", param: str = "") -> dict[str, JsonValue]:
    """Build the value of ``error``."""
    kind = _TYPES.get(status, "invalid_request_error")
    return {"message": message, "type": kind, "param": param or None, "code": code or None}


def error_body(status: int, message: str, *, code: str = "", param: str = "") -> bytes:
    """Build the response body, which clients of both OpenAI and Anthropic can read."""
    return json.dumps({"type": "error", "error": error_object(status, message, code=code, param=param)}).encode()


def passed_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Select the model server's headers that are passed to the client."""
    return {name: headers[name] for name in _PASSED_HEADERS if name in headers}


def unreachable_status(failure: ModelError) -> int:
    """Return the status for a model server that gave no answer: 504 if a time or size limit was exceeded, else 502."""
    return 504 if failure.kind == "limit" else 502
