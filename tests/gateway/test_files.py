"""Files that clients give: kept for a while, and read into requests."""

import asyncio
import base64
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.gateway.conftest import Gateway, gateway_at
from vibe_jupyter.gateway.files import FILE_SECONDS, MOST_FILES, PREVIEW, FileStore
from vibe_jupyter.gateway.input_files import PREVIEWS
from vibe_jupyter.testing import ScriptedModel

CSV = b"city,people\nUlm,126000\n"
BINARY = b"\x89PNG\r\n\xff\x00 raw"


def upload(gateway: Gateway, body: bytes, name: str = "cities.csv", purpose: str = "user_data") -> httpx.Response:
    return gateway.client.post("/v1/files", files={"file": (name, body)}, data={"purpose": purpose})


def content(gateway: Gateway, file_id: str) -> httpx.Response:
    return gateway.client.get(f"/v1/files/{file_id}/content")


def ask(gateway: Gateway, *files: dict[str, Any], **fields: Any) -> httpx.Response:
    parts = [{"type": "text", "text": "What is it?"}, *({"type": "file", "file": one} for one in files)]
    return gateway.client.post(
        "/v1/chat/completions", json={"messages": [{"role": "user", "content": parts}], **fields}
    )


def seen(gateway: Gateway, *files: dict[str, Any]) -> list[str]:
    """The texts that the model gets for files."""
    number = gateway.will("ok")
    found = ask(gateway, *files)
    assert found.status_code == 200, found.text
    message = gateway.model.requests[number - 1].messages[0]
    assert {part["type"] for part in message["content"]} == {"text"}
    return [part["text"] for part in message["content"][1:]]


def given(name: str, body: bytes) -> dict[str, str]:
    return {"filename": name, "file_data": base64.b64encode(body).decode()}


@pytest.mark.requirement("gateway.files.upload.multipart", "gateway.files.metadata.get")
def test_an_uploaded_file_is_known_by_its_id(gateway: Gateway) -> None:
    made = upload(gateway, CSV).json()

    assert made["id"].startswith("file-")
    assert len(made["id"].removeprefix("file-")) == 32
    assert (made["name"], made["format"], made["mime_type"]) == ("cities.csv", "csv", "text/csv")
    assert (made["bytes"], made["purpose"], made["preview"]) == (len(CSV), "user_data", CSV.decode())
    assert made["expires_at"] == made["created_at"] + FILE_SECONDS
    assert gateway.client.get(f"/v1/files/{made['id']}").json() == made
    assert made in gateway.client.get("/v1/files").json()["data"]
    assert upload(gateway, CSV, purpose="fine-tune").status_code == 422
    assert gateway.client.post("/v1/files", files={"purpose": (None, "user_data")}).status_code == 422
    assert gateway.client.delete(f"/v1/files/{made['id']}").json()["deleted"]
    assert gateway.client.get(f"/v1/files/{made['id']}").status_code == 404


def test_files_are_listed_with_the_newest_first(gateway: Gateway) -> None:
    made = [upload(gateway, CSV).json()["id"] for _ in range(3)]
    assert [one["id"] for one in gateway.client.get("/v1/files").json()["data"]][:3] == made[::-1]


@pytest.mark.requirement("gateway.files.content.status", "gateway.files.content.container")
def test_a_files_content_has_the_status_of_the_file(gateway: Gateway) -> None:
    whole, dropped = upload(gateway, BINARY, "a.png").json(), upload(gateway, CSV).json()
    gateway.will("There is none.")
    asked = gateway.chat("make a plot", files=[{"name": "plot.png"}]).json()
    parts = gateway.server.parts
    body_key = f"{parts.owner}:{dropped['id']}/{dropped['bytes']}"
    assert asyncio.run(parts.store.take("file-bodies", body_key)) == CSV
    wanted = {whole["id"]: 200, "file-" + "0" * 32: 404, dropped["id"]: 410, asked["files"][0]["id"]: 422}

    for path in ("/v1/files/{}/content", "/v1/containers/cntr_1/files/{}/content"):
        found = {file_id: gateway.client.get(path.format(file_id)) for file_id in wanted}
        assert {file_id: one.status_code for file_id, one in found.items()} == wanted
        assert found[whole["id"]].content == BINARY
        assert found[whole["id"]].headers["content-type"] == "image/png"


@pytest.mark.requirement("gateway.files.expiry.bounds")
def test_files_are_kept_for_half_an_hour_and_up_to_a_number(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = gateway.server.parts
    made = upload(gateway, CSV).json()
    now = made["created_at"]
    monkeypatch.setattr("vibe_jupyter.gateway.store.time.time", lambda: now + FILE_SECONDS - 1)
    assert content(gateway, made["id"]).status_code == 200
    monkeypatch.setattr("vibe_jupyter.gateway.store.time.time", lambda: now + FILE_SECONDS + 2)
    assert content(gateway, made["id"]).status_code == 404
    monkeypatch.undo()

    async def fill() -> tuple[str, str, int]:
        store = FileStore(parts.store, "another")
        first, second = [(await store.add(name, b"x")).id for name in ("first.txt", "second.txt")]
        for number in range(MOST_FILES - 2):
            await parts.store.put("files", f"another:file-{number}", b"{}", seconds=60)
        await store.add("last.txt", b"x")
        return first, second, len(await parts.store.keys("files", "another"))

    first, second, kept = asyncio.run(fill())
    assert kept == MOST_FILES
    assert asyncio.run(parts.store.get("files", f"another:{first}")) is None
    assert asyncio.run(parts.store.get("file-bodies", f"another:{first}/1")) is None
    assert asyncio.run(parts.store.get("files", f"another:{second}")) is not None


def test_the_oldest_bodies_go_where_all_are_too_large_together(gateway: Gateway) -> None:
    files = FileStore(gateway.server.parts.store, "small", bodies_limit=10)

    async def fill() -> list[bool]:
        made = [await files.add(f"{number}.txt", b"1234") for number in range(3)]
        bodies = [f"small:{one.id}/4" for one in made]
        return [await gateway.server.parts.store.get("file-bodies", key) is not None for key in bodies]

    assert asyncio.run(fill()) == [False, True, True]


@pytest.mark.requirement("gateway.files.input.parts", "gateway.files.input.decode")
def test_files_of_a_request_are_read_for_the_model(gateway: Gateway) -> None:
    file_id = upload(gateway, CSV).json()["id"]
    encoded = base64.b64encode(CSV).decode()

    texts = seen(
        gateway,
        {"file_id": file_id},
        {"filename": "plain.csv", "file_data": encoded},
        {"filename": "url.csv", "file_data": f"data:text/csv;base64,{encoded}"},
    )

    assert texts[0].startswith(f"[File cities.csv, text/csv, {len(CSV)} bytes, id {file_id}; whole:]")
    assert [name in text for name, text in zip(("cities", "plain", "url"), texts, strict=True)] == [True] * 3
    assert all(CSV.decode() in text for text in texts)
    assert encoded not in str(gateway.model.requests[-1].body)


@pytest.mark.requirement("gateway.files.input.no-url")
@pytest.mark.parametrize(
    "file",
    [
        {"file_url": "https://example.org/a.csv"},
        {"filename": "a.csv", "file_url": "https://example.org/a.csv"},
        {"filename": "a.csv", "file_data": "https://example.org/a.csv"},
        {"filename": "a.csv", "file_data": "no base64!"},
        {"filename": "a.csv", "file_data": "data:text/csv,plain"},
        {"filename": "..", "file_data": ""},
        {},
    ],
)
def test_what_is_no_file_is_refused(gateway: Gateway, file: dict[str, str]) -> None:
    asked = len(gateway.model.requests)

    for stream in (False, True):
        found = ask(gateway, file, stream=stream)
        assert (found.status_code, found.json()["error"]["code"]) == (422, "validation_error")
    assert len(gateway.model.requests) == asked


def test_an_unknown_file_of_a_request_is_not_found(gateway: Gateway) -> None:
    found = ask(gateway, {"file_id": "file-" + "0" * 32})

    assert (found.status_code, found.json()["error"]["code"]) == (404, "file_not_found")


@pytest.mark.requirement("gateway.files.input.preview")
def test_previews_are_bounded_for_each_file_and_for_all(gateway: Gateway) -> None:
    long = "ä" * (PREVIEW + 1)

    texts = seen(gateway, *[given(f"{number}.txt", long.encode()) for number in range(10)])

    shown = [text.count("ä") for text in texts]
    assert shown == [PREVIEW] * (PREVIEWS // PREVIEW) + [0, 0]


@pytest.mark.requirement("gateway.files.input.binary")
def test_a_file_that_is_no_text_is_only_named(gateway: Gateway) -> None:
    texts = seen(gateway, given("a.png", BINARY))

    assert texts == [f"[File a.png, image/png, {len(BINARY)} bytes; its content is not shown]"]


@pytest.mark.requirement("gateway.files.request.missing")
def test_a_file_that_was_asked_for_and_not_made_is_reported(gateway: Gateway) -> None:
    gateway.will("There is none.", "None either.")
    found = gateway.chat("make a plot", files=[{"name": "plot.png"}, {"name": "data", "format": "csv"}]).json()
    events = gateway.stream("make a plot", files=[{"name": "plot.png"}])

    plot, data = found["files"]
    assert (plot["name"], plot["format"], plot["purpose"], plot["code"]) == (
        "plot.png",
        "png",
        "agent_output",
        "file_not_made",
    )
    assert plot["message"]
    assert data["format"] == "csv"
    assert [event.data["code"] for event in events if event.name == "file_produced"] == ["file_not_made"]
    assert "files" not in gateway.model.requests[-1].body


@pytest.mark.requirement("gateway.files.request.named")
def test_a_file_that_is_asked_for_needs_a_name(gateway: Gateway) -> None:
    gateway.will("There is none.")
    wanted = {"name": "plot.png", "format": "png", "description": "the cities"}
    assert gateway.chat("make a plot", files=[wanted]).status_code == 200

    found = gateway.chat("make a plot", files=[{"format": "png"}])

    assert (found.status_code, found.json()["error"]["param"]) == (422, "files.0.name")


def test_files_are_read_without_any_tool_too(tmp_path: Path, own_home: Path) -> None:
    with ScriptedModel(strict=False) as model, gateway_at(tmp_path, model, '[gateway]\nmcp_mode = "off"') as gateway:
        assert "Ulm" in seen(gateway, given("cities.csv", CSV))[0]
