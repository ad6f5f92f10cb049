"""``/v1/sessions/{session_id}``."""

from typing import Annotated, Final

from fastapi import APIRouter, Path
from pydantic import BaseModel

from vibe_jupyter.gateway.chat_request import SESSION_ID
from vibe_jupyter.gateway.parts import GatewayParts
from vibe_jupyter.gateway.refusals import Refused
from vibe_jupyter.gateway.sessions import SerializedSession

SESSION: Final = "/v1/sessions/{session_id}"

SessionId = Annotated[str, Path(pattern=SESSION_ID)]


class SessionStatus(BaseModel):
    """Confirmation that a session was imported or deleted."""

    id: str
    object: str = "session"
    deleted: bool = False


def session_routes(parts: GatewayParts) -> APIRouter:
    """Create the router for exporting, importing and deleting sessions."""
    router = APIRouter(tags=["sessions"])

    @router.get(SESSION)
    async def export_session(session_id: SessionId) -> SerializedSession:  # pyright: ignore[reportUnusedFunction]
        """Export a session: the tool rounds that its client doesn't see."""
        session = await parts.sessions.export(session_id)
        if session is None:
            raise Refused(404, f"There is no session {session_id}.", code="session_not_found")
        return session

    @router.put(SESSION)
    async def import_session(  # pyright: ignore[reportUnusedFunction]
        session_id: SessionId, session: SerializedSession
    ) -> SessionStatus:
        """Import a session and replace any with its id. Grants no permissions."""
        await parts.sessions.replace(session_id, session)
        await parts.folders.forget(session_id)
        return SessionStatus(id=session_id)

    @router.delete(SESSION)
    async def delete_session(session_id: SessionId) -> SessionStatus:  # pyright: ignore[reportUnusedFunction]
        """Delete a session. Succeeds also if there is none."""
        await parts.sessions.delete(session_id)
        await parts.folders.forget(session_id)
        return SessionStatus(id=session_id, deleted=True)

    return router
