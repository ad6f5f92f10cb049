"""Skills that clients upload."""

import io
import stat
import zipfile
from collections.abc import Mapping
from typing import Any

import httpx
import pytest

from tests.gateway.conftest import Gateway

SKILL = b"---\nname: maps\ndescription: Draws maps.\n---\nUse a projection.\n"
FOLDER = {"maps/SKILL.md": SKILL, "maps/scripts/draw.py": b"print()\n"}


def packed(files: Mapping[str, bytes], mode: int = 0o644) -> bytes:
    raw = io.BytesIO()
    with zipfile.ZipFile(raw, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, content in files.items():
            member = zipfile.ZipInfo(path)
            member.external_attr = mode << 16
            member.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(member, content)
    return raw.getvalue()


def upload(gateway: Gateway, files: Mapping[str, bytes], path: str = "/v1/skills") -> httpx.Response:
    return gateway.client.post(path, files=[("files[]", (name, content)) for name, content in files.items()])


def kept(gateway: Gateway) -> list[dict[str, Any]]:
    return gateway.client.get("/v1/skills").json()["data"]


@pytest.mark.requirement("gateway.api.skills.upload", "gateway.api.skills.list", "gateway.api.skills.no-shell")
@pytest.mark.parametrize("form", ["folder", "zip"])
def test_a_skill_is_uploaded_and_listed(gateway: Gateway, form: str) -> None:
    found = upload(gateway, FOLDER if form == "folder" else {"maps.zip": packed(FOLDER)})

    assert found.status_code == 200
    made = found.json()
    assert (made["object"], made["name"], made["description"]) == ("skill", "maps", "Draws maps.")
    assert (made["default_version"], made["latest_version"]) == ("1", "1")
    assert kept(gateway)[0] == made
    assert gateway.client.get(f"/v1/skills/{made['id']}").json() == made
    assert gateway.client.delete(f"/v1/skills/{made['id']}").json()["deleted"]
    assert made not in kept(gateway)
    assert gateway.client.get(f"/v1/skills/{made['id']}").status_code == 404


@pytest.mark.requirement("gateway.api.skills.validate")
@pytest.mark.parametrize(
    "files",
    [
        {"maps/README.md": SKILL},
        {"maps/SKILL.md": b"---\ndescription: Draws maps.\n---\n"},
        {"maps/SKILL.md": b"---\nname: maps\n---\n"},
        {"maps/SKILL.md": b"Draws maps."},
        {"maps/SKILL.md": b"\xff\xfe"},
        {"SKILL.md": SKILL},
        {**FOLDER, "other/SKILL.md": SKILL},
        {**FOLDER, "maps/../../x": b""},
        {**FOLDER, "/maps/x": b""},
        {**FOLDER, "maps\\x": b""},
    ],
)
def test_what_is_no_skill_is_refused(gateway: Gateway, files: Mapping[str, bytes]) -> None:
    before = kept(gateway)

    for form in (files, {"skill.zip": packed(files)}):
        found = upload(gateway, form)
        assert (found.status_code, found.json()["error"]["code"]) == (422, "invalid_skill")
    assert kept(gateway) == before


def test_a_zip_that_holds_too_much_or_links_is_refused(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    link = packed({**FOLDER, "maps/link": b"/etc/passwd"}, stat.S_IFLNK | 0o777)
    assert upload(gateway, {"maps.zip": link}).status_code == 422
    assert upload(gateway, {"maps.zip": packed(FOLDER)[:-30]}).status_code == 422
    monkeypatch.setattr("vibe_jupyter.gateway.skill_bundles.UNPACKED_LIMIT", 100_000)
    bomb = packed({**FOLDER, "maps/zeros": bytes(200_000)})
    assert len(bomb) < 1_000
    assert upload(gateway, {"maps.zip": bomb}).status_code == 413


@pytest.mark.requirement("gateway.api.skills.list")
def test_skills_are_listed_with_the_one_that_changed_last_first(gateway: Gateway) -> None:
    first, second, third = (upload(gateway, FOLDER).json()["id"] for _ in range(3))
    assert upload(gateway, FOLDER, f"/v1/skills/{second}/versions").is_success
    assert [one["id"] for one in kept(gateway)][:3] == [second, third, first]


@pytest.mark.requirement("gateway.api.skills.versions")
def test_a_version_is_added_to_a_skill(gateway: Gateway) -> None:
    skill = upload(gateway, FOLDER).json()
    path = f"/v1/skills/{skill['id']}/versions"
    newer = {"maps/SKILL.md": SKILL.replace(b"Draws maps.", b"Draws better maps.")}

    made = upload(gateway, newer, path).json()

    assert (made["object"], made["skill_id"], made["version"]) == ("skill.version", skill["id"], "2")
    latest = gateway.client.get(f"/v1/skills/{skill['id']}").json()
    assert (latest["latest_version"], latest["description"]) == ("2", "Draws better maps.")
    assert upload(gateway, {"maps/x": b""}, path).status_code == 422
    assert upload(gateway, newer, "/v1/skills/skill_unknown/versions").status_code == 404
