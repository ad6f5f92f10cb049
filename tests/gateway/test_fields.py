"""The tables of request fields, against the request types of the vendors."""

from collections.abc import Iterator

import pytest

from tests.llm.model_vendors import Vendors
from vibe_jupyter.gateway.chat_fields import FIELDS
from vibe_jupyter.testing.strictness import MISTRAL_FIELDS, OPENAI_FIELDS

OF_MISTRALRS = {"grammar", "min_p", "repetition_penalty", "top_k"}
"""Fields of mistral.rs's own, which has no package of request types."""


@pytest.fixture(scope="module")
def vendors() -> Iterator[Vendors]:
    with Vendors() as started:
        yield started


@pytest.mark.requirement("gateway.translated.fields")
def test_translated_requests_have_only_fields_of_their_servers_vendor(vendors: Vendors) -> None:
    openai, mistral = vendors.fields("openai"), vendors.fields("mistral")

    assert {dialect: FIELDS[dialect] - allowed for dialect, allowed in (("openai", openai), ("mistral", mistral))} == {
        "openai": frozenset(),
        "mistral": frozenset(),
    }
    assert FIELDS["ollama"] <= openai
    assert FIELDS["mistralrs"] - openai == OF_MISTRALRS


def test_strict_models_take_every_field_of_their_vendor_and_no_other(vendors: Vendors) -> None:
    assert set(OPENAI_FIELDS) == vendors.fields("openai")
    assert set(MISTRAL_FIELDS) == vendors.fields("mistral")
