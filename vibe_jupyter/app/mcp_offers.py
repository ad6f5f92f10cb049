"""What running servers offer, for Tab: lists that are at hand, or are there within a moment. No server is started."""

import concurrent.futures
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final, TypeVar

from vibe_jupyter.agent.engine import Engine
from vibe_jupyter.errors import VibeError
from vibe_jupyter.tools.mcp.connection import Connection
from vibe_jupyter.tools.mcp.offerings import Offered, OfferedPrompt, Offerings
from vibe_jupyter.tools.mcp.prompt_call import prompt_call
from vibe_jupyter.tools.mcp.servers import Servers

T = TypeVar("T")
Key = tuple[Connection, *tuple[str, ...]]

TAB_WAIT: Final = 0.8
"""Seconds that one Tab waits, for all servers; what comes later is there for the next."""
_SAME_TAB: Final = 1.5
"""Seconds after which a question belongs to another Tab."""


class McpOffers:
    """Main thread only."""

    def __init__(self, servers: Servers, engine: Engine) -> None:
        self._servers = servers
        self._engine = engine
        self._lists: dict[Connection, Offerings] = {}
        self._asked: dict[Key, concurrent.futures.Future[Any]] = {}
        """Questions whose answer is on its way."""
        self._began = 0.0
        """When the Tab came that is being answered; monotonic seconds."""

    def servers(self) -> Sequence[str]:
        """Those that run and have resources."""
        running = self._running()
        for one in running:
            self._ask((one, "resources"), self._of(one).resources)
        return [one.server.name for one in running if self._resources(one)]

    def resources(self, server: str) -> Sequence[str]:
        """Addresses on a server; of a template, what stands before its first blank."""
        found = next((one for one in self._running() if one.server.name == server), None)
        listed = self._resources(found) if found is not None else ()
        return list(dict.fromkeys(one.name.partition("{")[0] if one.is_template else one.name for one in listed))

    def prompts(self) -> Sequence[str]:
        """All of them, as ``/server:prompt``."""
        running = self._running()
        for one in running:
            self._ask((one, "prompts"), self._of(one).prompts)
        return [f"/{one.server.name}:{prompt.name}" for one in running for prompt in self._prompts(one)]

    def arguments(self, words: str, last: str) -> Sequence[str]:
        """What may come next in a call of a prompt: ``name=``, or ``name=value`` where its server knows values.

        Args:
            words: the call as far as it is written, without the word at its end.
            last: that word.
        """
        call = prompt_call(words)
        server = next((one for one in self._running() if call is not None and one.server.name == call.server), None)
        if call is None or server is None or call.words:
            return ()
        prompt = next((one for one in self._prompts(server) if one.name == call.name), None)
        name, is_begun, value = last.partition("=")
        if prompt is not None and is_begun:
            lists = self._of(server)
            values = self._wait((server, call.name, last), lambda: lists.values(call.name, name, value), ())
            return [f'{name}="{one}"' if " " in one else f"{name}={one}" for one in values]
        return [f"{one.name}=" for one in (prompt.arguments if prompt else ()) if one.name not in call.arguments]

    def _running(self) -> list[Connection]:
        running = [one for one in self._servers.all() if one.state == "ready"]
        self._lists = {one: lists for one, lists in self._lists.items() if one in running}
        self._asked = {key: answer for key, answer in self._asked.items() if key[0] in running}
        return running

    def _left(self) -> float:
        """Seconds that this Tab may still wait."""
        now = time.monotonic()
        if now - self._began > _SAME_TAB:
            self._began = now
        return max(0.0, self._began + TAB_WAIT - now)

    def _of(self, connection: Connection) -> Offerings:
        return self._lists.setdefault(connection, Offerings(connection))

    def _resources(self, connection: Connection) -> Sequence[Offered]:
        nothing: Sequence[Offered] = ()
        return self._wait((connection, "resources"), self._of(connection).resources, nothing)

    def _prompts(self, connection: Connection) -> Sequence[OfferedPrompt]:
        nothing: Sequence[OfferedPrompt] = ()
        return self._wait((connection, "prompts"), self._of(connection).prompts, nothing)

    def _wait(self, key: Key, ask: Callable[[], Coroutine[Any, Any, T]], otherwise: T) -> T:
        """The answer, if it comes soon."""
        self._ask(key, ask)
        try:
            answer = self._asked[key].result(self._left())
        except concurrent.futures.TimeoutError:
            return otherwise
        except (VibeError, concurrent.futures.CancelledError):
            answer = otherwise
        del self._asked[key]
        return answer

    def _ask(self, key: Key, ask: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        """Begin to ask; one question is asked once at a time."""
        if key not in self._asked:
            self._asked[key] = self._engine.submit(ask())
