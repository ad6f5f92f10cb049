"""A server that wants its callers signed in, and its authorization server, at an address of its own. Prints its port.

python guarded_server.py [SECONDS [closed]]     how long a token holds, an hour where nothing is said; whether the
                                                authorization server registers nobody
"""

import asyncio
import secrets
import socket
import sys
import time

import uvicorn
from mcp.server import MCPServer
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    ProviderTokenVerifier,
    RefreshToken,
    construct_redirect_uri,
)
from mcp.server.auth.routes import create_auth_routes
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from pydantic import AnyHttpUrl
from starlette.applications import Starlette

HOLDS = int(sys.argv[1]) if len(sys.argv) > 1 else 3600


class Authority:
    """Lets everybody in who comes with a browser; remembers in memory."""

    def __init__(self) -> None:
        self.clients: dict[str, OAuthClientInformationFull] = {}
        self.codes: dict[str, AuthorizationCode] = {}
        self.tokens: dict[str, AccessToken] = {}
        self.refreshing: dict[str, RefreshToken] = {}
        self.done: list[str] = []

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self.clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        self.done.append("registered")
        self.clients[client_info.client_id] = client_info

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        self.done.append("authorized")
        code = secrets.token_hex(16)
        self.codes[code] = AuthorizationCode(
            code=code,
            scopes=params.scopes or [],
            expires_at=time.time() + 60,
            client_id=client.client_id,
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            resource=params.resource,
        )
        return construct_redirect_uri(str(params.redirect_uri), code=code, state=params.state)

    async def load_authorization_code(self, client: OAuthClientInformationFull, code: str) -> AuthorizationCode | None:
        return self.codes.get(code)

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        self.done.append("exchanged")
        del self.codes[authorization_code.code]
        return self._issued(client)

    async def load_refresh_token(self, client: OAuthClientInformationFull, refresh_token: str) -> RefreshToken | None:
        return self.refreshing.get(refresh_token)

    async def exchange_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        self.done.append("refreshed")
        del self.refreshing[refresh_token.token]
        return self._issued(client)

    async def load_access_token(self, token: str) -> AccessToken | None:
        found = self.tokens.get(token)
        return found if found is not None and (found.expires_at or 0) > time.time() else None

    async def revoke_token(self, token: AccessToken | RefreshToken) -> None:
        self.tokens.pop(token.token, None)

    def _issued(self, client: OAuthClientInformationFull) -> OAuthToken:
        access, refresh = secrets.token_hex(16), secrets.token_hex(16)
        self.tokens[access] = AccessToken(
            token=access, client_id=client.client_id, scopes=[], expires_at=int(time.time()) + HOLDS + 60
        )
        self.refreshing[refresh] = RefreshToken(token=refresh, client_id=client.client_id, scopes=[])
        return OAuthToken(access_token=access, refresh_token=refresh, expires_in=HOLDS)


def main() -> None:
    listener, desk = (socket.create_server(("127.0.0.1", 0)) for _ in range(2))
    base, issuer = (AnyHttpUrl(f"http://127.0.0.1:{one.getsockname()[1]}") for one in (listener, desk))
    authority = Authority()
    registration = ClientRegistrationOptions(enabled="closed" not in sys.argv)
    server = MCPServer(
        "guarded",
        token_verifier=ProviderTokenVerifier(authority),
        auth=AuthSettings(
            issuer_url=issuer, resource_server_url=AnyHttpUrl(f"{base}mcp"), validate_token_resource=False
        ),
    )

    @server.tool()
    def history() -> str:
        """What the authorization server did."""
        return " ".join(authority.done)

    @server.tool()
    def forget() -> str:
        """Know no access token any more."""
        authority.tokens.clear()
        return "forgotten"

    @server.tool()
    def forget_all() -> str:
        """Know nobody any more, as after a restart with an empty memory."""
        authority.tokens.clear()
        authority.refreshing.clear()
        authority.clients.clear()
        return "forgotten"

    print(listener.getsockname()[1], flush=True)
    asyncio.run(
        _serve(
            (server.streamable_http_app(), listener),
            (Starlette(routes=create_auth_routes(authority, issuer, client_registration_options=registration)), desk),
        )
    )


async def _serve(*apps: tuple[Starlette, socket.socket]) -> None:
    servers = [uvicorn.Server(uvicorn.Config(app, log_level="warning")) for app, _ in apps]
    await asyncio.gather(
        *(server.serve(sockets=[listener]) for server, (_, listener) in zip(servers, apps, strict=True))
    )


if __name__ == "__main__":
    main()
