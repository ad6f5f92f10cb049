"""The scripted model: the replies it was given, and the requests it received."""

import threading
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Literal, Self

from vibe_jupyter.testing.requests import ModelRequest, find_complaints
from vibe_jupyter.testing.server import ModelServer
from vibe_jupyter.testing.strictness import Strictness, find_refusal, signatures_of, with_thoughts
from vibe_jupyter.testing.wire import WIRES, Call, Raw, Reply, ScriptedAnswer, Status, Wire, spoken_dialect

Script = Callable[[ModelRequest], Reply]


class ScriptedModel:
    """A server on 127.0.0.1 that sends the replies of a list in order, or those of a function.

    The function is called on a thread of the server, once per request. Unless `strict` is False, a request that a
    strict server would reject (a call without its result, arguments that aren't JSON) gets a 400 response and consumes
    no reply. With `api_key`, requests without that key get a 401.

    With `strictness`, it also rejects what one kind of server rejects, with that server's error messages; see
    `vibe_jupyter.testing.Strictness`. Together with ``strict=False``, it rejects only that.

    The server implements Chat Completions, or Mistral's variant with ``dialect="mistral"``, and always Ollama's API
    below ``/api``.
    """

    def __init__(
        self,
        script: Iterable[Reply] | Script = (),
        *,
        name: str = "scripted",
        api_key: str | None = None,
        strict: bool = True,
        dialect: Literal["openai", "mistral"] = "openai",
        strictness: Strictness | None = None,
    ) -> None:
        self.name = name  # name of the model in GET /v1/models
        # All requests so far, including rejected ones; to wait for one, use `wait_for_request`
        self.requests: list[ModelRequest] = []
        self._script = script if callable(script) else None
        self._replies: deque[Reply] = deque(() if callable(script) else script)
        self._given = len(self._replies)
        self._api_key = api_key
        self._strict = strict
        self._strictness: Strictness | None = strictness
        self._dialect: Literal["openai", "mistral"] = dialect
        self._calls = 0
        self._signatures: set[str] = set()  # those that were sent with calls
        self._changed = threading.Condition()
        self._server: ModelServer | None = None

    @property
    def url(self) -> str:
        """The `api_base` to configure, such as ``http://127.0.0.1:40123/v1``."""
        if self._server is None:
            raise RuntimeError("The scripted model is not running: use `with ScriptedModel(...) as model:` or start().")
        return self._server.url

    def start(self) -> Self:
        """Start listening on a free port."""
        if self._server is None:
            self._server = ModelServer(self.name, self._make_reply)
        return self

    def stop(self) -> None:
        """Close all connections, release paused replies, and end all threads."""
        server, self._server = self._server, None
        if server is not None:
            server.stop()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def will_reply(self, *replies: Reply) -> None:
        """Append replies to the script. A function is only called when none of them is left."""
        with self._changed:
            self._replies.extend(replies)
            self._given += len(replies)

    def wait_for_request(self, number: int = 1, timeout: float = 10.0) -> ModelRequest:
        """Wait for the request with this number, counted from 1, and return it.

        Raises:
            TimeoutError: it did not arrive within `timeout` seconds.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: len(self.requests) >= number, timeout):
                raise TimeoutError(f"Only {len(self.requests)} of {number} requests came within {timeout} s.")
            return self.requests[number - 1]

    def _make_reply(self, request: ModelRequest) -> Status | Raw | Wire:
        """Return the response to a request. Called on threads of the server."""
        with self._changed:
            self.requests.append(request)
            number = len(self.requests)
            self._changed.notify_all()
        if self._api_key is not None and request.headers.get("authorization") != f"Bearer {self._api_key}":
            return _refused_status(401, "Incorrect API key provided.")
        dialect = spoken_dialect(request.path, self._dialect)
        if self._strict and (wrong := find_complaints(request.body, dialect)):
            return _refused_status(400, "; ".join(wrong))
        if (refusal := self._find_refusal(request)) is not None:
            return refusal
        reply = self._next_reply(request)
        if isinstance(reply, Status | Raw):
            return reply
        answer = with_thoughts(self._number_calls(_as_answer(reply)), self._strictness, number)
        with self._changed:
            self._signatures.update(signatures_of(answer))
        return WIRES[dialect](answer, request, self.name, number)

    def _find_refusal(self, request: ModelRequest) -> Status | None:
        if self._strictness is None:
            return None
        with self._changed:
            given = frozenset(self._signatures)
        return find_refusal(request.body, self._strictness, given)

    def _next_reply(self, request: ModelRequest) -> Reply:
        with self._changed:
            if self._replies:
                return self._replies.popleft()
        if self._script is None:
            said = f"The scripted model has no reply left: it was given {self._given}."
            return _refused_status(500, said)
        try:
            return self._script(request)
        except Exception as problem:  # noqa: BLE001 - whatever the test's own function raises is reported to the client
            return _refused_status(500, f"The script of the model raised {type(problem).__name__}: {problem}")

    def _number_calls(self, answer: ScriptedAnswer) -> ScriptedAnswer:
        """Assign ids to the calls. They have nine characters, because Mistral's API accepts no others."""
        with self._changed:
            first = self._calls + 1
            self._calls += len(answer.calls)
        calls = (replace(c, id=c.id or f"call{number:05}") for number, c in enumerate(answer.calls, first))
        return replace(answer, calls=tuple(calls))


def _as_answer(reply: str | Call | ScriptedAnswer) -> ScriptedAnswer:
    match reply:
        case str():
            return ScriptedAnswer(text=reply)
        case Call():
            return ScriptedAnswer(calls=(reply,))
        case ScriptedAnswer():
            return reply


def _refused_status(status: int, message: str) -> Status:
    """Return an error response that clients shouldn't retry."""
    body = {"error": {"message": message, "type": "scripted_model"}}
    return Status(status, body, {"x-should-retry": "false"})
