"""Signing in to a remote server in the person's browser, by the SDK's provider: PKCE, a state, and a loopback redirect.

Imports the SDK: imported itself when the first server with a sign-in starts.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from http import HTTPStatus
from typing import Final
from urllib.parse import parse_qs, urlsplit

import httpx2
from mcp.client.auth import OAuthClientProvider, OAuthFlowError
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientMetadata
from pydantic import AnyUrl, ValidationError

from vibe_jupyter.tools.mcp.addresses import is_loopback
from vibe_jupyter.tools.mcp.elicitation import host_of
from vibe_jupyter.tools.mcp.pause import Pause
from vibe_jupyter.tools.mcp.redirect import HOST, PATH, CameBack, Redirect, SignInError, came_back
from vibe_jupyter.tools.mcp.secret_store import SecretStore
from vibe_jupyter.tools.mcp.tokens import Tokens

SIGN_IN_TIMEOUT: Final = 600.0
"""Seconds that a person may take in the browser."""
_LONG_AGO: Final = 1.0
"""Seconds since 1970."""

ShowPage = Callable[[str, str], Awaitable[str | None]]
"""Shows the person an address and its host; gives what they typed, or None when they said no. Cancelled when the
browser came back. Raises SignInError where nobody is there."""


class SignIn(OAuthClientProvider):
    """Signs the requests to one server; asks the person when it has to."""

    def __init__(self, url: str, store: SecretStore, show: ShowPage, pause: Pause) -> None:
        storage = Tokens(store, url)
        metadata = OAuthClientMetadata(
            redirect_uris=[AnyUrl(f"http://{HOST}:1{PATH}")],  # the port is known when the store was read
            client_name="vibe-jupyter",
            grant_types=["authorization_code", "refresh_token"],
            response_types=["code"],
            token_endpoint_auth_method="none",
        )
        super().__init__(url, metadata, storage, self._show_page, self._back)
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
                    # The SDK would ask the person at once; a token that ran out early is first renewed.
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
            raise SignInError(f"it wants a key or a sign-in, and signing in failed: {first}") from error
        finally:
            await flow.aclose()

    def _may_renew(self, response: httpx2.Response) -> bool:
        return response.status_code == HTTPStatus.UNAUTHORIZED and self.context.can_refresh_token()

    async def _show_page(self, address: str) -> None:
        """Remember it; it is shown when somebody listens."""
        if not host_of(address) or (urlsplit(address).scheme != "https" and not is_loopback(address)):
            raise SignInError("its page for signing in is not at an https address, so it is not shown")
        self._page = address

    async def _back(self) -> AuthorizationCodeResult:
        """Wait for the browser, or for the address of its last page as the person pasted it."""
        uris = self.context.client_metadata.redirect_uris or []
        state = parse_qs(urlsplit(self._page).query).get("state", [""])[0]
        redirect = Redirect(urlsplit(str(uris[0])).port or 0, state)
        with self._pause.running():
            await redirect.open()
            shown = asyncio.ensure_future(self._ask(redirect))
            try:
                await asyncio.wait({shown, redirect.came}, timeout=SIGN_IN_TIMEOUT, return_when="FIRST_COMPLETED")
                back = self._outcome(redirect, shown)
            finally:
                shown.cancel()
                redirect.close()
                with suppress(asyncio.CancelledError, SignInError):
                    await shown
        return AuthorizationCodeResult(code=back.code, state=back.state, iss=back.issuer)

    async def _ask(self, redirect: Redirect) -> None:
        """Until the person pasted what fits, or said no."""
        while True:
            typed = await self._show(self._page, host_of(self._page))
            if typed is None:
                raise SignInError("it wants you to sign in, and you did not")
            if redirect.take(came_back(typed.strip())):
                return

    def _outcome(self, redirect: Redirect, shown: "asyncio.Future[None]") -> CameBack:
        if redirect.came.done():
            back = redirect.came.result()
            if back.error:
                raise SignInError(f"signing in was refused: {back.error[:300]}")
            return back
        if shown.cancelled():
            raise SignInError("it wants you to sign in, and the run was interrupted")
        if shown.done():
            shown.result()
        raise SignInError(f"nobody signed in within {SIGN_IN_TIMEOUT / 60:.0f} minutes")
