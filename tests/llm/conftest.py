"""Every request that a test here encodes is held against the types of the vendors' own clients."""

import json
from collections.abc import Iterator

import pytest

from tests.llm.model_vendors import Vendors
from vibe_jupyter.llm.client import BodyEncoder
from vibe_jupyter.llm.dialects import DIALECTS
from vibe_jupyter.llm.request import HeadTerms, ModelRequestTerms

NAMES = {type(dialect): name for name, dialect in DIALECTS.items()}


@pytest.fixture(scope="session")
def vendors() -> Iterator[Vendors]:
    """Their types, in a program of its own."""
    with Vendors() as started:
        yield started


@pytest.fixture(autouse=True)
def requests_hold_to_the_vendors_types(vendors: Vendors, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """At the end of a test: no vendor has a word against what it encoded."""
    encode = BodyEncoder.encode
    encoded: dict[tuple[str, bytes], None] = {}

    def noted(self: BodyEncoder, wanted: ModelRequestTerms, terms: HeadTerms | None = None) -> bytes:
        body = encode(self, wanted, terms)
        encoded[next(NAMES[kind] for kind in type(self.dialect).mro() if kind in NAMES), body] = None
        return body

    monkeypatch.setattr(BodyEncoder, "encode", noted)
    yield
    assert [wrong for dialect, body in encoded for wrong in vendors.complaints(dialect, json.loads(body))] == []
