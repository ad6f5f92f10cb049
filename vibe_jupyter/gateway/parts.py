"""What all routes of the gateway share."""

from dataclasses import dataclass, field
from typing import Protocol

from vibe_jupyter.config.settings import Settings
from vibe_jupyter.errors import ConfigError
from vibe_jupyter.gateway.agents import AgentParts
from vibe_jupyter.gateway.approvals import PendingApprovals, SessionGrants
from vibe_jupyter.gateway.chat_request import ChatRequest
from vibe_jupyter.gateway.files import FileStore
from vibe_jupyter.gateway.forwarding import Forwarder
from vibe_jupyter.gateway.metrics import HttpMetrics
from vibe_jupyter.gateway.refusals import Refused
from vibe_jupyter.gateway.relay import RefusedFields, SpelledTools
from vibe_jupyter.gateway.run_journals import RunJournals
from vibe_jupyter.gateway.sessions import KeptSessions
from vibe_jupyter.gateway.skills import SkillStore
from vibe_jupyter.gateway.store import Store
from vibe_jupyter.gateway.work_folders import WorkFolders
from vibe_jupyter.gateway.writer import WriterTerms
from vibe_jupyter.llm.request import Model


class LiveAnswer(Protocol):
    """An answer that is under way."""

    def end(self) -> None:
        """Break it off: the gateway is stopped."""
        ...


@dataclass(frozen=True)
class GatewayParts:
    """Of one gateway."""

    agents: AgentParts
    forwarder: Forwarder
    store: Store
    owner: str
    """Mark of the token; keys in the store begin with it."""
    keep_alive: float
    """Seconds of silence after which a stream says that it is there."""
    approvals: PendingApprovals
    grants: SessionGrants
    sessions: KeptSessions
    files: FileStore
    skills: SkillStore
    folders: WorkFolders
    journals: RunJournals
    metrics: HttpMetrics | None = None
    """None where they are switched off."""
    spelled: SpelledTools = field(default_factory=SpelledTools)
    refused: RefusedFields = field(default_factory=RefusedFields)
    live: set[LiveAnswer] = field(default_factory=set[LiveAnswer])
    """Those that are under way."""

    def model(self, name: str, settings: Settings) -> Model:
        """The model that a request names.

        Raises:
            Refused: there is none of that name, or its key is missing.
        """
        try:
            return self.agents.model(name, settings)
        except ConfigError as error:
            raise Refused(404, str(error), code="model_not_found", param="model") from None

    def writer_terms(self, request: ChatRequest) -> WriterTerms:
        """What a writer needs to know of a request.

        Raises:
            Refused: there is no such model.
        """
        settings = self.agents.current().reading.settings
        tells_events = settings.gateway.always_events or request.knows_extensions
        return WriterTerms(
            session_id=request.session_id,
            tells_events=tells_events,
            reasoning_field=self.model(request.fields.model, settings).server.reasoning_field,
        )
