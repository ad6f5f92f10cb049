"""``POST /v1/agent/approvals/{approval_id}``."""

from fastapi import APIRouter, Response
from pydantic import BaseModel

from vibe_jupyter.gateway.approvals import ApprovalAnswer, Status
from vibe_jupyter.gateway.parts import GatewayParts


class ApprovalStatus(BaseModel):
    """What became of an answer."""

    status: Status
    """``resolved``: the call goes on; ``queued``: another worker has the run, and takes it; ``not_found``: unknown,
    answered before, or too late."""


def approval_routes(parts: GatewayParts) -> APIRouter:
    """Answers to what a run asks."""
    router = APIRouter(tags=["approvals"])

    @router.post("/v1/agent/approvals/{approval_id}", responses={404: {"model": ApprovalStatus}})
    async def answer_approval(  # pyright: ignore[reportUnusedFunction]
        approval_id: str, answer: ApprovalAnswer, response: Response
    ) -> ApprovalStatus:
        """Allow or deny what an `agentic_tool_approval_required` event asks."""
        status = await parts.approvals.answer(approval_id, answer)
        response.status_code = 404 if status == "not_found" else 200
        return ApprovalStatus(status=status)

    return router
