"""Loopback redirect URI for OAuth sign-in, and the listener behind it (RFC 8252, section 7.3)."""

import asyncio
import html
import os
import secrets
import socket
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qs, urlsplit

PATH: Final = "/callback"
HOST: Final = "127.0.0.1"
REQUEST_LIMIT: Final = 16 * 1024  # bytes of the browser's request
REQUEST_TIMEOUT: Final = 10.0  # seconds for the browser's request to arrive
_PAGE: Final = "<!doctype html><meta charset=utf-8><title>vibe-jupyter</title><p>{words}</p>"


class SignInError(Exception):
    """Signing in failed. The message is the reason, for the user."""


class PortTaken(SignInError):
    """The redirect port is taken, for example by another kernel's sign-in."""


class NobodyAsked(SignInError):
    """The sign-in page could not be shown, or the user declined it."""


@dataclass(frozen=True)
class RedirectAnswer:
    """Parameters of the authorization response."""

    code: str
    state: str
    issuer: str | None
    error: str = ""


def read_redirect(address: str) -> RedirectAnswer | None:
    """Parse an authorization response from a redirect URL, or None if it is something else."""
    try:
        query = parse_qs(urlsplit(address).query)
    except ValueError:
        return None
    given = {name: values[0] for name, values in query.items()}
    if "state" not in given or not (given.get("code") or given.get("error")):
        return None
    error = given.get("error_description") or given.get("error", "")
    return RedirectAnswer(given.get("code", ""), given["state"], given.get("iss"), error)


def free_port(wanted: int = 0) -> int:
    """Return a free port, preferably the wanted one."""
    for port in dict.fromkeys((wanted, 0)):
        with socket.socket() as probe:
            if os.name == "posix":  # like asyncio: a port is free again right after a sign-in closed it
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise SignInError("No port is free on this machine for the browser to come back to.")


class RedirectListener:
    """Listener for the browser of one sign-in. Requests with another state are rejected and change nothing."""

    def __init__(self, port: int, state: str) -> None:
        # Resolved when the browser returns
        self.came: asyncio.Future[RedirectAnswer] = asyncio.get_running_loop().create_future()
        self._port = port
        self._state = state
        self._server: asyncio.Server | None = None

    async def open(self) -> None:
        """Start listening.

        Raises:
            PortTaken: another process has taken the port in the meantime.
        """
        try:
            self._server = await asyncio.start_server(self._answer_browser, HOST, self._port, limit=REQUEST_LIMIT)
        except OSError as error:
            raise PortTaken(f"Port {self._port} is taken ({error.strerror}). Try again.") from error

    def close(self) -> None:
        if self._server is not None:
            self._server.close()
        self.came.cancel()

    def take(self, back: RedirectAnswer | None) -> bool:
        """Accept a response that belongs to this sign-in, and return whether it does."""
        if back is None or not self.fits(back):
            return False
        if not self.came.done():
            self.came.set_result(back)
        return True

    def fits(self, back: RedirectAnswer | None) -> bool:
        """Return whether a response belongs to this sign-in."""
        return back is not None and secrets.compare_digest(back.state.encode(), self._state.encode())

    async def _answer_browser(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT):
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            status, words = self._judge_request(head)
            page = _PAGE.format(words=html.escape(words)).encode()
            writer.write(
                f"HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {len(page)}\r\n"
                "Cache-Control: no-store\r\nReferrer-Policy: no-referrer\r\nConnection: close\r\n\r\n".encode()
                + page
            )
            await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # the browser disconnected, or the client is not a browser
        finally:
            writer.close()

    def _judge_request(self, head: str) -> tuple[str, str]:
        line, *headers = head.split("\r\n")
        method, _, rest = line.partition(" ")
        target = rest.partition(" ")[0]
        hosts = [header.partition(":")[2].strip() for header in headers if header.lower().startswith("host:")]
        here = hosts in ([f"{HOST}:{self._port}"], [f"localhost:{self._port}"])
        if method != "GET" or not here or urlsplit(target).path != PATH:
            return "404 Not Found", "Nothing is here."
        back = read_redirect(target)
        if not self.take(back):
            return (
                "400 Bad Request",
                "This is not the sign-in that the notebook is waiting for. Go back to the notebook.",
            )
        if back is not None and back.error:
            return "200 OK", "You were not signed in. Go back to the notebook; you can close this page."
        return "200 OK", "You are signed in. Go back to the notebook; you can close this page."
