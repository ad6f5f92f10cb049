"""HTTP connections of our server, closed if the client stays silent or sends ambiguous requests."""

import asyncio
import time
from typing import Any, Final, cast

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from vibe_jupyter.mcp_server.framing import StrictConnection

MAX_SILENT: Final = 32  # idle connections without a complete request; beyond this the oldest is closed
HEADER_WAIT: Final = 5.0  # seconds from the start of a connection or request to the end of its headers
MAX_HEAD: Final = 16 * 1024  # bytes of a request's headers, or of a line between chunks


class Connection(H11Protocol):
    """An HTTP connection that is closed if it stays idle.

    Any local process can open many connections and stay silent. These limits prevent it from locking out other clients.
    """

    most_silent = MAX_SILENT

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.conn = StrictConnection(h11.SERVER, MAX_HEAD)
        self._since = time.monotonic()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def _is_silent(self) -> bool:
        return self.cycle is None and not self.transport.is_closing()  # pyright: ignore[reportUnnecessaryComparison] (it is None before the first request)

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._watch_idle()
        ours = cast("set[Connection]", self.connections)  # uvicorn is given no other protocol
        silent = [one for one in ours if one._is_silent]
        if len(silent) > self.most_silent:
            min(silent, key=lambda one: one._since).transport.close()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch_idle()

    def send_400_response(self, msg: str) -> None:
        """Reject a request and close its connection, because data that follows can't be separated from its body."""
        cycle = cast("RequestResponseCycle | None", self.cycle)  # None before the first request
        if cycle is not None and not cycle.response_complete:
            # The body broke while the request is handled; don't let the handler send a second response
            cycle.disconnected = True
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(self.conn.refusal or msg)
        else:
            self.transport.close()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch_idle()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._forget_timer()

    def _watch_idle(self) -> None:
        """Start or cancel the timeout, which covers waiting for the first request and for the headers of each."""
        in_headers = self.conn.their_state is h11.IDLE and bool(self.conn.trailing_data[0])
        if not (in_headers or self._is_silent):
            self._forget_timer()
        elif self._timer is None:
            self._timer = self.loop.call_later(HEADER_WAIT, self.transport.close)

    def _forget_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
