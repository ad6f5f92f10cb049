"""Objects shared by the gateway's routes."""

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
from vibe_jupyter.gateway.relay import RefusalMemory, SpelledTools
from vibe_jupyter.gateway.run_journals import RunJournals
from vibe_jupyter.gateway.sessions import KeptSessions
from vibe_jupyter.gateway.skills import SkillStore
from vibe_jupyter.gateway.store import Store
from vibe_jupyter.gateway.work_folders import WorkFolders
from vibe_jupyter.gateway.writer import WriterTerms
from vibe_jupyter.llm.request import Model


class LiveAnswer(Protocol):
    """A response in progress."""

    def end(self) -> None:
        """Abort the response because the gateway shuts down."""
        ...


@dataclass(frozen=True)
class GatewayParts:
    """Shared objects of one gateway."""

    agents: AgentParts
    forwarder: Forwarder
    store: Store
    owner: str  # prefix of keys in the store, derived from the token
    keep_alive: float  # seconds of silence after which a stream sends a keep-alive
    approvals: PendingApprovals
    grants: SessionGrants
    sessions: KeptSessions
    files: FileStore
    skills: SkillStore
    folders: WorkFolders
    journals: RunJournals
    metrics: HttpMetrics | None = None  # None if disabled
    spelled: SpelledTools = field(default_factory=SpelledTools)
    refused: RefusalMemory = field(default_factory=RefusalMemory)
    live: set[LiveAnswer] = field(default_factory=set[LiveAnswer])  # responses in progress

    def model(self, name: str, settings: Settings) -> Model:
        """Return the model that a request names.

        Raises:
            Refused: there is no model of that name, or its API key is missing.
        """
        try:
            return self.agents.model(name, settings)
        except ConfigError as error:
            raise Refused(404, str(error), code="model_not_found", param="model") from None

    def writer_terms(self, request: ChatRequest) -> WriterTerms:
        """Return the properties of a request that its writer needs.

        Raises:
            Refused: the request names an unknown model.
        """
        settings = self.agents.current().reading.settings
        tells_events = settings.gateway.always_events or request.knows_extensions
        model = self.model(request.fields.model, settings)
        return WriterTerms(request.session_id, tells_events, model.server.reasoning_field, model.origin)
