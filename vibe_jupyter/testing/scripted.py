"""The scripted model: what it was told to say, and what it was asked."""

import threading
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Literal, Self

from vibe_jupyter.testing.requests import ModelRequest, find_complaints
from vibe_jupyter.testing.server import ModelServer
from vibe_jupyter.testing.wire import WIRES, Call, Raw, Reply, ScriptedAnswer, Status, Wire, spoken_dialect

Script = Callable[[ModelRequest], Reply]


class ScriptedModel:
    """A server on 127.0.0.1 that gives the replies of a list in order, or those of a function.

    The function is called on a thread of the server, once a request. Unless `strict` is false, a request that a
    strict server would refuse (a call without its result, arguments that are no JSON) is answered with 400 and
    uses up no reply. With `api_key`, requests without that key get 401.

    It speaks Chat Completions; with ``dialect="mistral"`` as Mistral's API does, and below ``/api`` always as Ollama.
    """

    def __init__(
        self,
        script: Iterable[Reply] | Script = (),
        *,
        name: str = "scripted",
        api_key: str | None = None,
        strict: bool = True,
        dialect: Literal["openai", "mistral"] = "openai",
    ) -> None:
        self.name = name
        """The model's name, as GET /v1/models says it."""
        self.requests: list[ModelRequest] = []
        """Every request so far, refused ones included. Wait with `wait_for_request`."""
        self._script = script if callable(script) else None
        self._replies: deque[Reply] = deque(() if callable(script) else script)
        self._given = len(self._replies)
        self._api_key = api_key
        self._strict = strict
        self._dialect: Literal["openai", "mistral"] = dialect
        self._calls = 0
        self._changed = threading.Condition()
        self._server: ModelServer | None = None

    @property
    def url(self) -> str:
        """The api_base to configure, such as ``http://127.0.0.1:40123/v1``."""
        if self._server is None:
            raise RuntimeError("The scripted model is not running: use `with ScriptedModel(...) as model:` or start().")
        return self._server.url

    def start(self) -> Self:
        """Begin to listen, on a port that is free."""
        if self._server is None:
            self._server = ModelServer(self.name, self._make_reply)
        return self

    def stop(self) -> None:
        """End all connections and threads; held replies are let go."""
        server, self._server = self._server, None
        if server is not None:
            server.stop()

    def __enter__(self) -> Self:
        """Start."""
        return self.start()

    def __exit__(self, *_: object) -> None:
        """Stop."""
        self.stop()

    def will_reply(self, *replies: Reply) -> None:
        """Add replies to the end of the script; a function is asked only when none of these is left."""
        with self._changed:
            self._replies.extend(replies)
            self._given += len(replies)

    def wait_for_request(self, number: int = 1, timeout: float = 10.0) -> ModelRequest:
        """The request of that number, from 1.

        Raises:
            TimeoutError: it did not come in time (seconds).
        """
        with self._changed:
            if not self._changed.wait_for(lambda: len(self.requests) >= number, timeout):
                raise TimeoutError(f"Only {len(self.requests)} of {number} requests came within {timeout} s.")
            return self.requests[number - 1]

    def _make_reply(self, request: ModelRequest) -> Status | Raw | Wire:
        """What to send; called on the threads of the server."""
        with self._changed:
            self.requests.append(request)
            number = len(self.requests)
            self._changed.notify_all()
        if self._api_key is not None and request.headers.get("authorization") != f"Bearer {self._api_key}":
            return _refused_status(401, "Incorrect API key provided.")
        dialect = spoken_dialect(request.path, self._dialect)
        if self._strict and (wrong := find_complaints(request.body, dialect)):
            return _refused_status(400, "; ".join(wrong))
        reply = self._next_reply(request)
        if isinstance(reply, Status | Raw):
            return reply
        return WIRES[dialect](self._number_calls(_as_answer(reply)), request, self.name, number)

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
        """Give ids to the calls: nine characters, since Mistral takes no other."""
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
    """An error that asking again would not help."""
    body = {"error": {"message": message, "type": "scripted_model"}}
    return Status(status, body, {"x-should-retry": "false"})
