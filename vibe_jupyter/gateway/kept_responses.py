"""Stored conversations of the Responses API, which requests continue with `previous_response_id`.

They include calls that the gateway ran and their results, which the client never sends.
"""

import json
from collections.abc import Sequence
from typing import Final, cast

from pydantic import JsonValue

from vibe_jupyter.gateway.hidden_rounds import KEPT
from vibe_jupyter.gateway.refusals import Refused
from vibe_jupyter.gateway.store import Store
from vibe_jupyter.llm.json_text import repair_surrogates

KIND: Final = "responses"


class KeptResponses:
    """Stored conversations of one token."""

    def __init__(self, store: Store, owner: str) -> None:
        self._store = store
        self._owner = owner

    async def keep(self, response_id: str, messages: Sequence[JsonValue]) -> None:
        """Store the conversation up to a response, without instructions: each request sends its own."""
        await self._store.put(KIND, self._key(response_id), json.dumps(list(messages)).encode(), seconds=KEPT)

    async def load(self, response_id: str) -> list[JsonValue]:
        """Return the messages up to a response.

        Raises:
            Refused: there is no such response, or it has expired.
        """
        kept = await self._store.get(KIND, self._key(response_id))
        if kept is None:
            words = f"Previous response with id {response_id!r} not found."
            raise Refused(400, words, code="previous_response_not_found", param="previous_response_id")
        return cast("list[JsonValue]", json.loads(kept))

    def _key(self, response_id: str) -> str:
        return f"{self._owner}:{repair_surrogates(response_id)}"
