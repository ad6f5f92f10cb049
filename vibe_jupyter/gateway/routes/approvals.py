"""``POST /v1/agent/approvals/{approval_id}``."""

from fastapi import APIRouter, Response
from pydantic import BaseModel

from vibe_jupyter.gateway.approvals import ApprovalAnswer, Status
from vibe_jupyter.gateway.parts import GatewayParts


class ApprovalStatus(BaseModel):
    """Outcome of an answer."""

    # ``resolved``: the run continues; ``queued``: another worker has the run and takes the answer; ``not_found``:
    # unknown, answered before, or expired
    status: Status


def approval_routes(parts: GatewayParts) -> APIRouter:
    """Create the router for answers to approvals."""
    router = APIRouter(tags=["approvals"])

    @router.post("/v1/agent/approvals/{approval_id}", responses={404: {"model": ApprovalStatus}})
    async def answer_approval(  # pyright: ignore[reportUnusedFunction]
        approval_id: str, answer: ApprovalAnswer, response: Response
    ) -> ApprovalStatus:
        """Allow or deny the call of an `agentic_tool_approval_required` event."""
        status = await parts.approvals.answer(approval_id, answer)
        response.status_code = 404 if status == "not_found" else 200
        return ApprovalStatus(status=status)

    return router
