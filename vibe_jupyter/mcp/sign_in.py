"""Signing in to a remote server in the user's browser (OAuth), and the tokens that gives.

Imports the SDK: imported itself when the first server with a sign-in starts.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from http import HTTPStatus
from typing import Final
from urllib.parse import parse_qs, urlsplit

import httpx2
from mcp.client.auth import OAuthClientProvider, OAuthFlowError
from mcp.client.auth.oauth2 import OAuthContext
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import AnyUrl, BaseModel, ValidationError

from vibe_jupyter.mcp.declared import is_loopback
from vibe_jupyter.mcp.elicitation import host_of
from vibe_jupyter.mcp.hooks import ServerPause
from vibe_jupyter.mcp.oauth_redirect import (
    HOST,
    PATH,
    RedirectAnswer,
    RedirectListener,
    SignInError,
    free_port,
    read_redirect,
)
from vibe_jupyter.mcp.token_store import SecretStore

SIGN_IN_TIMEOUT: Final = 600.0
"""Seconds that a user may take in the browser."""
_LONG_AGO: Final = 1.0
"""Seconds since 1970."""

ShowPage = Callable[[str, str], Awaitable[str | None]]
"""Shows the user an address and its host; gives what they typed, or None when they said no. Cancelled when the
browser came back. Raises SignInError where nobody is there."""


class SignIn(OAuthClientProvider):
    """Signs the requests to one server; asks the user when it has to."""

    def __init__(self, url: str, store: SecretStore, show: ShowPage, pause: ServerPause) -> None:
        storage = TokenStorage(store, url)
        metadata = OAuthClientMetadata(
            redirect_uris=[AnyUrl(f"http://{HOST}:1{PATH}")],  # the port is known when the store was read
            client_name="vibe-jupyter",
            grant_types=["authorization_code", "refresh_token"],
            response_types=["code"],
            token_endpoint_auth_method="none",
        )
        super().__init__(url, metadata, storage, self._show_page, self._wait_for_browser)
        storage.context = self.context
        self._show = show
        self._pause = pause
        self._page = ""

    async def _auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        flow = super()._auth_flow(request)
        renewed = False
        try:
            outgoing = await anext(flow)
            while True:
                response = yield outgoing
                if outgoing is request and not renewed and self._may_renew(response):
                    # The SDK would ask the user at once; a token that ran out early is first renewed.
                    await flow.aclose()
                    renewed, self.context.token_expiry_time = True, _LONG_AGO
                    flow = super()._auth_flow(request)
                    outgoing = await anext(flow)
                    continue
                outgoing = await flow.asend(response)
        except StopAsyncIteration:
            return
        except (OAuthFlowError, ValidationError) as error:
            first = str(error).split("\n", 1)[0][:300]
            raise SignInError(f"it requires a key or a sign-in, and signing in failed: {first}") from error
        finally:
            await flow.aclose()

    def _may_renew(self, response: httpx2.Response) -> bool:
        return response.status_code == HTTPStatus.UNAUTHORIZED and self.context.can_refresh_token()

    async def _show_page(self, address: str) -> None:
        """Remember it; it is shown when somebody listens."""
        if not host_of(address) or (urlsplit(address).scheme != "https" and not is_loopback(address)):
            raise SignInError("its page for signing in is not at an https address, so it is not shown")
        self._page = address

    async def _wait_for_browser(self) -> AuthorizationCodeResult:
        """Wait for the browser, or for the address of its last page as the user pasted it."""
        uris = self.context.client_metadata.redirect_uris or []
        state = parse_qs(urlsplit(self._page).query).get("state", [""])[0]
        redirect = RedirectListener(urlsplit(str(uris[0])).port or 0, state)
        with self._pause.running():
            await redirect.open()
            shown = asyncio.ensure_future(self._ask_user(redirect))
            try:
                await asyncio.wait({shown, redirect.came}, timeout=SIGN_IN_TIMEOUT, return_when="FIRST_COMPLETED")
                back = self._sign_in_outcome(redirect, shown)
            finally:
                shown.cancel()
                redirect.close()
                with suppress(asyncio.CancelledError, SignInError):
                    await shown
        return AuthorizationCodeResult(code=back.code, state=back.state, iss=back.issuer)

    async def _ask_user(self, redirect: RedirectListener) -> None:
        """Until the user pasted what fits, or said no."""
        while True:
            typed = await self._show(self._page, host_of(self._page))
            if typed is None:
                raise SignInError("it requires you to sign in, and you did not")
            if redirect.take(read_redirect(typed.strip())):
                return

    def _sign_in_outcome(self, redirect: RedirectListener, shown: "asyncio.Future[None]") -> RedirectAnswer:
        if redirect.came.done():
            back = redirect.came.result()
            if back.error:
                raise SignInError(f"signing in was refused: {back.error[:300]}")
            return back
        if shown.cancelled():
            raise SignInError("it requires you to sign in, and the run was interrupted")
        if shown.done():
            shown.result()
        raise SignInError(f"nobody signed in within {SIGN_IN_TIMEOUT / 60:.0f} minutes")


class _Kept(BaseModel):
    tokens: OAuthToken | None = None
    expires_at: float | None = None
    """Seconds since 1970; None where the server did not say."""
    client: OAuthClientInformationFull | None = None


def store_name(url: str) -> str:
    """Under which a server's sign-in is kept."""
    parts = urlsplit(url)
    return f"mcp {parts.scheme}://{parts.netloc}{parts.path}"


class TokenStorage:
    """The SDK's view of the store, for one server."""

    def __init__(self, store: SecretStore, url: str) -> None:
        self.context: OAuthContext | None = None
        """Of the provider that reads here."""
        self._store = store
        self._name = store_name(url)

    async def get_tokens(self) -> OAuthToken | None:
        """Those kept, with the time they still hold."""
        kept = await self._read_store()
        if kept.tokens is not None and kept.expires_at is not None and self.context is not None:
            kept.tokens.expires_in = int(kept.expires_at - time.time())
            self.context.token_expiry_time = kept.expires_at
        return kept.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Keep them."""
        kept = await self._read_store()
        kept.tokens = tokens
        kept.expires_at = time.time() + tokens.expires_in if tokens.expires_in is not None else None
        await self._write_store(kept)

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """What the authorization server knows us by, as long as the browser can come back to the address it knows."""
        kept = (await self._read_store()).client
        known = [urlsplit(str(uri)).port or 0 for uri in (kept.redirect_uris if kept else None) or ()]
        port = await asyncio.to_thread(free_port, known[0] if known else 0)
        if self.context is not None:
            self.context.client_metadata.redirect_uris = _redirect_addresses(port)
        return kept if port in known else None

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Keep it."""
        kept = await self._read_store()
        kept.client = client_info
        await self._write_store(kept)

    async def _read_store(self) -> _Kept:
        text = await asyncio.to_thread(self._store.get, self._name)
        try:
            return _Kept.model_validate_json(text) if text else _Kept()
        except ValidationError:
            return _Kept()

    async def _write_store(self, kept: _Kept) -> None:
        await asyncio.to_thread(self._store.put, self._name, kept.model_dump_json(exclude_none=True))


def _redirect_addresses(port: int) -> list[AnyUrl]:
    return [AnyUrl(f"http://{HOST}:{port}{PATH}")]
