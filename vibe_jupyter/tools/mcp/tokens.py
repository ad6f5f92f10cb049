"""What a sign-in gave, kept by the server's address: in a store that the app brings, such as the system's keyring.

Imports the SDK: imported itself when the first server with a sign-in starts.
"""

import asyncio
import time
from urllib.parse import urlsplit

from mcp.client.auth.oauth2 import OAuthContext
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from pydantic import AnyUrl, BaseModel, ValidationError

from vibe_jupyter.tools.mcp.redirect import HOST, PATH, free_port
from vibe_jupyter.tools.mcp.secret_store import SecretStore


class _Kept(BaseModel):
    tokens: OAuthToken | None = None
    expires_at: float | None = None
    """Seconds since 1970; None where the server did not say."""
    client: OAuthClientInformationFull | None = None


def name_of(url: str) -> str:
    """Under which a server's sign-in is kept."""
    parts = urlsplit(url)
    return f"mcp {parts.scheme}://{parts.netloc}{parts.path}"


class Tokens:
    """The SDK's view of the store, for one server."""

    def __init__(self, store: SecretStore, url: str) -> None:
        self.context: OAuthContext | None = None
        """Of the provider that reads here."""
        self._store = store
        self._name = name_of(url)

    async def get_tokens(self) -> OAuthToken | None:
        """Those kept, with the time they still hold."""
        kept = await self._read()
        if kept.tokens is not None and kept.expires_at is not None and self.context is not None:
            kept.tokens.expires_in = int(kept.expires_at - time.time())
            self.context.token_expiry_time = kept.expires_at
        return kept.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Keep them."""
        kept = await self._read()
        kept.tokens = tokens
        kept.expires_at = time.time() + tokens.expires_in if tokens.expires_in is not None else None
        await self._write(kept)

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """What the authorization server knows us by, as long as the browser can come back to the address it knows."""
        kept = (await self._read()).client
        known = [urlsplit(str(uri)).port or 0 for uri in (kept.redirect_uris if kept else None) or ()]
        port = await asyncio.to_thread(free_port, known[0] if known else 0)
        if self.context is not None:
            self.context.client_metadata.redirect_uris = _addresses(port)
        return kept if port in known else None

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Keep it."""
        kept = await self._read()
        kept.client = client_info
        await self._write(kept)

    async def _read(self) -> _Kept:
        text = await asyncio.to_thread(self._store.get, self._name)
        try:
            return _Kept.model_validate_json(text) if text else _Kept()
        except ValidationError:
            return _Kept()

    async def _write(self, kept: _Kept) -> None:
        await asyncio.to_thread(self._store.put, self._name, kept.model_dump_json(exclude_none=True))


def _addresses(port: int) -> list[AnyUrl]:
    return [AnyUrl(f"http://{HOST}:{port}{PATH}")]
