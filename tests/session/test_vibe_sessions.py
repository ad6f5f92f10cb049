"""Sessions of Mistral Vibe beside ours.

The trees in `formats` were written by the packages' own writers: the `SessionLogger` of mistral-vibe 2.18.4 and the
`InteractionLogger` of 1.3.5, with names and times changed.
"""

import hashlib
import json
import shutil
from pathlib import Path

import pytest

from vibe_jupyter.errors import JournalError
from vibe_jupyter.protocol import AssistantMessage, ImagePart, ReasoningPart, TextPart, ToolMessage, UserMessage
from vibe_jupyter.session.conversation import MAY_HAVE_RUN, Conversation, check_history
from vibe_jupyter.session.journal import Place
from vibe_jupyter.session.store import SavedSession, SessionStore, find_session

FORMATS = Path(__file__).parent / "formats"
FOLDER, FILE = "session_20260131_120000_5b3f2a10", "session_20251130_120000_9c0ffee0.json"


@pytest.fixture
def store(tmp_path: Path) -> SessionStore:
    """One that holds a session of each layout."""
    folder = tmp_path / "session"
    for version in ("1.3.5", "2.18.4"):
        shutil.copytree(FORMATS / f"mistral-vibe-{version}", folder, dirs_exist_ok=True)
    return SessionStore(folder)


def resume(store: SessionStore, found: SavedSession) -> Conversation:
    taken = store.take_over(found, "session", Place("/work"), lambda text: text.replace("Gentoo", "[redacted]"))
    return Conversation.resumed(*taken)


def bytes_of(store: SessionStore) -> dict[str, str]:
    """A digest of each file of Mistral Vibe's."""
    files = [*(store.folder / FOLDER).rglob("*"), store.folder / FILE]
    return {str(file): hashlib.sha256(file.read_bytes()).hexdigest() for file in files if file.is_file()}


def test_both_layouts_are_listed_with_what_they_say_of_themselves(store: SessionStore) -> None:
    new, old = store.sessions()
    assert (new.title, new.model, new.messages, new.folder) == ("Heavy penguins", "devstral-2", 8, "/home/ada/birds")
    assert (new.short_id, new.started, new.is_named) == ("5b3f2a10", "2026-01-31T12:00:00.531Z", True)
    assert (old.title, old.messages, old.short_id) == ("How many herons?", 5, "9c0ffee0")
    assert store.sessions() == [new, old]  # from the index


def test_a_resumed_one_is_a_valid_history_of_ours_and_the_original_stays_as_it_is(store: SessionStore) -> None:
    before = bytes_of(store)
    found = find_session("5b3f", store.sessions())
    conversation = resume(store, found)
    conversation.journal.close()
    check_history(conversation.history)
    asked, looked, read, counted, answered, _warned, then, deletes, closed = conversation.history
    assert isinstance(asked, UserMessage)
    assert isinstance(asked.parts[1], ImagePart)
    assert isinstance(looked, AssistantMessage)
    assert looked.parts[0] == ReasoningPart(text="The file first.")
    assert [call.name for call in looked.calls] == ["read_file", "bash"]
    assert isinstance(read, ToolMessage)
    assert isinstance(counted, ToolMessage)
    assert (read.is_error, counted.is_error) == (False, True)
    assert "[redacted],5076" in str(read)
    assert "[redacted]." in str(answered)
    assert "Delete the others." in str(then)
    assert "rm adelie.csv" in str(deletes)
    assert isinstance(closed, ToolMessage)
    assert closed.is_error
    assert closed.parts == (TextPart(text=MAY_HAVE_RUN),)
    assert conversation.prompts == ["Which penguins are heavy?\nSee @heron.png", "Delete the others."]
    assert bytes_of(store) == before
    (copy,) = [one for one in store.sessions() if one.title == "Heavy penguins"]
    assert (copy.is_foreign, copy.imported, copy.folder) == (False, found.id, "/work")
    assert find_session("5b3f2a10", store.sessions()) == copy


def test_a_session_from_before_version_2_is_resumed_too(store: SessionStore) -> None:
    conversation = resume(store, find_session("9c0ffee0", store.sessions()))
    conversation.journal.close()
    check_history(conversation.history)
    assert [message.role for message in conversation.history] == ["user", "assistant", "tool", "assistant"]
    assert conversation.prompts == ["How many herons?"]


def test_what_mistral_vibe_keeps_is_never_deleted_and_what_is_broken_is_passed_over(store: SessionStore) -> None:
    before = bytes_of(store)
    for found in store.sessions():
        with pytest.raises(JournalError, match="Mistral Vibe keeps"):
            store.delete(found)
    assert bytes_of(store) == before
    (store.folder / "session_1.json").write_text('{"metadata": [], "messages": 3}', encoding="utf-8")
    (store.folder / "session_2").mkdir()
    (store.folder / "session_2" / "meta.json").write_text("{", encoding="utf-8")
    messages = store.folder / FOLDER / "messages.jsonl"
    messages.write_bytes(messages.read_bytes()[:-40])
    assert len(store.sessions()) == 2
    conversation = resume(store, store.sessions()[0])
    conversation.journal.close()
    check_history(conversation.history)
    assert "Delete the others." in str(conversation.history[-1])


def unified(store: SessionStore, messages: list[dict[str, object]]) -> Path:
    """A session as version 3 keeps it: two messages in a chunk, the rest in the checkpoint itself."""
    place = store.folder / "unified" / "c0ffee00-1c7e-4b0a-9d55-0a1b2c3d4e5f"
    generation = place / "generations" / "0000000000000007"
    checkpoint = {"chunks": ["ab12"], "path": "checkpoint.json"}
    entries = [{"message": message, "source": "history", "turn_index": 0} for message in messages]
    for file, value in {
        place / "meta.json": {"session_id": place.name, "title": None, "config": {"active_model": "devstral-2"}},
        place / "CURRENT": {"generation": generation.name},
        place / "chunks" / "ab12.json": entries[:2],
        generation / "manifest.json": {"checkpoint": checkpoint},
        generation / "checkpoint.json": {"context": {"messages": entries[2:]}},
    }.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(value), encoding="utf-8")
    return place


def test_a_session_of_version_3_has_its_pictures_resources_thoughts_and_failures(store: SessionStore) -> None:
    picture: dict[str, object] = {"type": "image", "data": "aGVyb24=", "mimeType": "image/png"}
    file: dict[str, object] = {"type": "resource", "resource": {"uri": "file:///data.csv", "text": "Gentoo,5076"}}
    link: dict[str, object] = {"type": "resource_link", "uri": "file:///far.csv", "name": "far"}
    thought: dict[str, object] = {"type": "reasoning", "content": [{"type": "text", "text": "The file first."}]}
    arguments = {"type": "json", "raw": '{"path": "data.csv"}', "value": {"path": "data.csv"}}
    made: dict[str, object] = {"type": "tool_call", "id": "call00001", "name": "read_file", "arguments": arguments}
    result = {"role": "tool", "tool_call_id": "call00001", "name": "read_file", "outcome": "failure"}
    words = {"type": "text", "text": "Which are heavy?"}
    place = unified(
        store,
        [
            {"role": "user", "content": [words, picture, file, link]},
            {"role": "assistant", "content": [thought, {"type": "text", "text": "A look."}, made]},
            {**result, "content": [{"type": "text", "text": "There is no Gentoo here."}]},
            {"role": "assistant", "content": [{"type": "text", "text": "None."}]},
        ],
    )
    found = find_session("c0ffee", store.sessions())
    assert (found.title, found.messages, found.model) == ("Which are heavy?", 4, "devstral-2")
    conversation = resume(store, found)
    conversation.journal.close()
    check_history(conversation.history)
    asked, looked, failed, _ = conversation.history
    assert isinstance(asked, UserMessage)
    assert isinstance(asked.parts[1], ImagePart)
    assert "Resource: file:///data.csv\\n````\\n[redacted],5076\\n````" in str(asked)
    assert "[file:///far.csv, which is not kept]" in str(asked)
    assert isinstance(looked, AssistantMessage)
    assert looked.parts[0] == ReasoningPart(text="The file first.")
    assert [(call.name, call.arguments) for call in looked.calls] == [("read_file", '{"path": "data.csv"}')]
    assert isinstance(failed, ToolMessage)
    assert failed.is_error
    assert conversation.prompts == ["Which are heavy?"]
    assert place.is_dir()


@pytest.mark.parametrize("generation", ["../../..", "", "0000000000000008"])
def test_a_session_of_version_3_without_its_generation_is_empty(store: SessionStore, generation: str) -> None:
    place = unified(store, [{"role": "user", "content": [{"type": "text", "text": "Hello."}]}])
    (place / "CURRENT").write_text(json.dumps({"generation": generation}), encoding="utf-8")
    found = find_session("c0ffee", store.sessions())
    assert (found.title, found.messages) == ("", 0)
