"""OAuth sign-in to a remote server in the user's browser, and storage of its tokens.

Imports the SDK, so import this module only when the first server with a sign-in starts.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from http import HTTPStatus
from typing import Final
from urllib.parse import parse_qs, urlsplit

import httpx2
from mcp.client.auth import OAuthClientProvider, OAuthFlowError, OAuthRegistrationError, OAuthTokenError
from mcp.client.auth.oauth2 import OAuthContext
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from pydantic import AnyUrl, BaseModel, ValidationError

from vibe_jupyter.mcp.declared import is_loopback
from vibe_jupyter.mcp.elicitation import host_of
from vibe_jupyter.mcp.hooks import ServerPause
from vibe_jupyter.mcp.oauth_redirect import (
    HOST,
    PATH,
    NobodyAsked,
    PortTaken,
    RedirectAnswer,
    RedirectListener,
    SignInError,
    free_port,
    read_redirect,
)
from vibe_jupyter.mcp.token_store import SecretStore, store_name

SIGN_IN_TIMEOUT: Final = 600.0  # seconds for signing in with the browser
_LONG_AGO: Final = 1.0  # seconds since 1970; an expiry in the past
_WANTS_MORE: Final = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)  # status codes that may lead to a sign-in
# Token attempts after a rejection before the user is asked: another kernel's token, and a refreshed one
_TRIES: Final = 2
# RFC 6749, section 5.2: the authorization server no longer knows our client id
_UNKNOWN_CLIENT: Final = b"invalid_client"

# Shows the user an address and its host until their input is accepted by the callback; returns False if they declined.
# Canceled when the browser returns. Raises NobodyAsked if the page is not shown.
ShowPage = Callable[[str, str, Callable[[str], bool]], Awaitable[bool]]


class SignIn(OAuthClientProvider):
    """OAuth for the requests to one server. Asks the user when necessary."""

    def __init__(self, url: str, store: SecretStore, show: ShowPage, pause: ServerPause) -> None:
        self._storage = TokenStorage(store, url)
        metadata = OAuthClientMetadata(
            redirect_uris=[AnyUrl(f"http://{HOST}:1{PATH}")],  # placeholder port, chosen when the store has been read
            client_name="vibe-jupyter",
            grant_types=["authorization_code", "refresh_token"],
            response_types=["code"],
            token_endpoint_auth_method="none",
        )
        super().__init__(url, metadata, self._storage, self._show_page, self._wait_for_browser)
        self._storage.context = self.context
        self._show = show
        self._pause = pause
        self._page = ""

    async def _auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        if self._initialized and not self.context.is_token_valid():
            self._initialized = False  # reread the store first: another kernel may have refreshed the tokens
        flow = super()._auth_flow(request)
        tried, moved = 0, False
        try:
            outgoing = await anext(flow)
            while True:
                response = yield outgoing
                if outgoing is request and response.status_code in _WANTS_MORE:
                    if tried < _TRIES and await self._may_renew(request, response):
                        # The SDK would ask the user at once. Refresh a token that expired early first.
                        await flow.aclose()
                        tried += 1
                        flow = super()._auth_flow(request)
                        outgoing = await anext(flow)
                        continue
                    await self._storage.choose_redirect()
                try:
                    outgoing = await flow.asend(response)
                except PortTaken:  # two kernels started a sign-in at the same time
                    if moved:
                        raise
                    tried, moved = _TRIES, True
                    flow = super()._auth_flow(request)
                    outgoing = await anext(flow)
        except StopAsyncIteration:
            return
        except (OAuthFlowError, ValidationError) as error:
            if isinstance(error, OAuthTokenError):
                await self._storage.forget_client()
            raise SignInError(_failure_words(error)) from error
        finally:
            await flow.aclose()

    async def _handle_refresh_response(self, response: httpx2.Response) -> bool:
        if response.is_error and _UNKNOWN_CLIENT in await response.aread():
            await self._storage.forget_client()  # otherwise the sign-in page would show an error
        return await super()._handle_refresh_response(response)

    async def _may_renew(self, request: httpx2.Request, response: httpx2.Response) -> bool:
        """Return whether to retry with another token after a rejection: another kernel's, or a refreshed one."""
        if response.status_code != HTTPStatus.UNAUTHORIZED:
            return False
        await self._initialize()
        tokens = self.context.current_tokens
        if tokens is not None and request.headers.get("Authorization") == f"Bearer {tokens.access_token}":
            self.context.token_expiry_time = _LONG_AGO
        return self.context.is_token_valid() or self.context.can_refresh_token()

    async def _show_page(self, address: str) -> None:
        """Store the page's address. It is shown once the redirect listener is open."""
        if not host_of(address) or (urlsplit(address).scheme != "https" and not is_loopback(address)):
            raise SignInError("its page for signing in is not at an https address, so it is not shown")
        self._page = address

    async def _wait_for_browser(self) -> AuthorizationCodeResult:
        """Wait for the browser, or for the address of its last page pasted by the user."""
        uris = self.context.client_metadata.redirect_uris or []
        state = parse_qs(urlsplit(self._page).query).get("state", [""])[0]
        redirect = RedirectListener(urlsplit(str(uris[0])).port or 0, state)
        with self._pause.running():
            await redirect.open()
            shown = asyncio.ensure_future(self._ask_user(redirect))
            try:
                await asyncio.wait({shown, redirect.came}, timeout=SIGN_IN_TIMEOUT, return_when="FIRST_COMPLETED")
                back = self._sign_in_outcome(redirect, shown)
            except NobodyAsked:
                raise
            except BaseException:
                # The page may have failed because the server no longer knows our client id; register again next time.
                await self._storage.forget_client()
                raise
            finally:
                shown.cancel()
                redirect.close()
                with suppress(asyncio.CancelledError, SignInError):
                    await shown
        return AuthorizationCodeResult(code=back.code, state=back.state, iss=back.issuer)

    async def _ask_user(self, redirect: RedirectListener) -> None:
        """Ask until the user pastes a valid redirect address."""
        pasted: list[RedirectAnswer | None] = []

        def fits(typed: str) -> bool:
            pasted.append(read_redirect(typed.strip()))
            return redirect.fits(pasted[-1])

        if not await self._show(self._page, host_of(self._page), fits):
            raise SignInError("it requires you to sign in, and you did not")
        redirect.take(pasted[-1])

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


def _failure_words(error: Exception) -> str:
    words = str(error).split("\n", 1)[0][:300]
    if isinstance(error, OAuthRegistrationError):
        words = f"{words}. It may know registered programs alone: get a key there, and name it with --key"
    return f"it requires a key or a sign-in, and signing in failed: {words}"


class _Kept(BaseModel):
    tokens: OAuthToken | None = None
    expires_at: float | None = None  # seconds since 1970; None if the server did not report it
    client: OAuthClientInformationFull | None = None
    authority: OAuthMetadata | None = None  # metadata of the authorization server, which may be on another host
    resource: ProtectedResourceMetadata | None = None


class TokenStorage:
    """Adapter from the SDK's token storage to our store, for one server."""

    def __init__(self, store: SecretStore, url: str) -> None:
        self.context: OAuthContext  # set by the provider that uses this storage
        self._store = store
        self._name = store_name(url)

    async def get_tokens(self) -> OAuthToken | None:
        """Return the stored tokens with their remaining lifetime, or the current ones if the store has none."""
        kept = await self._read_store()
        self.context.oauth_metadata = self.context.oauth_metadata or kept.authority
        self.context.protected_resource_metadata = self.context.protected_resource_metadata or kept.resource
        if kept.tokens is None:
            return self.context.current_tokens
        if kept.expires_at is not None:
            kept.tokens.expires_in = int(kept.expires_at - time.time())
        self.context.token_expiry_time = kept.expires_at
        return kept.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Store tokens together with what is needed to refresh them."""
        context = self.context
        expires_at = time.time() + tokens.expires_in if tokens.expires_in is not None else None
        await self._write_store(
            _Kept(
                tokens=tokens,
                expires_at=expires_at,
                client=context.client_info,
                authority=context.oauth_metadata,
                resource=context.protected_resource_metadata,
            )
        )

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """Return our registration with the authorization server."""
        kept = await self._read_store()
        ours = self.context.client_info
        if kept.tokens is None and self.context.current_tokens is not None:
            return ours  # another kernel is signing in with another registration
        return kept.client or ours

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Store a registration and drop tokens issued to another one."""
        await self._write_store(_Kept(client=client_info))

    async def forget_client(self) -> None:
        """Drop the registration, so that the next sign-in registers again."""
        self.context.client_info = None
        kept = await self._read_store()
        kept.client = None
        await self._write_store(kept)

    async def choose_redirect(self) -> None:
        """Choose the redirect URI: the registered port if it is free, else another port with a new registration."""
        client = self.context.client_info
        known = [urlsplit(str(uri)).port or 0 for uri in (client.redirect_uris if client else None) or ()]
        port = await asyncio.to_thread(free_port, known[0] if known else 0)
        self.context.client_metadata.redirect_uris = [AnyUrl(f"http://{HOST}:{port}{PATH}")]
        if port not in known:
            self.context.client_info = None

    async def _read_store(self) -> _Kept:
        text = await asyncio.to_thread(self._store.get, self._name)
        try:
            return _Kept.model_validate_json(text) if text else _Kept()
        except ValidationError:
            return _Kept()

    async def _write_store(self, kept: _Kept) -> None:
        await asyncio.to_thread(self._store.put, self._name, kept.model_dump_json(exclude_none=True))
