"""The gateway's own tools: shell and Python in a working folder, and the files that they make."""

import base64
import http.server
import json
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from tests.gateway import sdks
from tests.gateway.conftest import ALLOWED, TOKEN, Gateway, Sent, gateway_at, until
from tests.gateway.test_approvals import REQUIRED, Streamed, answered
from tests.gateway.test_files import BINARY, CSV, ask, content, upload
from tests.kernel.fork_server import script_command
from vibe_jupyter.gateway.files import INLINE_LIMIT, MADE_PREVIEW
from vibe_jupyter.gateway.run_files import WANTED_IN_FOLDER
from vibe_jupyter.gateway.work_folders import FOLDER_SECONDS, WorkFolders
from vibe_jupyter.testing import ScriptedModel, answer, call

WORKING: Final = """
[gateway]
tools = ["bash", "run_code", "read_file"]
allow = ["bash", "run_code", "mcp__sample__*"]
file_origins = ["{files}"]
[[mcp_servers]]
name = "web"
transport = "stdio"
command = {command}
startup_timeout_sec = 60
"""
_WEB: Final = """
from mcp.server import MCPServer

server = MCPServer("web")

@server.tool()
def web_search(query: str) -> str:
    return "nothing"

server.run()
"""
_PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
FRAMES: Final = """
from PIL import Image
frames = [Image.new("RGB", (4, 4), colour) for colour in ("red", "green", "blue")]
frames[0].save("moving.gif", save_all=True, append_images=frames[1:])
"""


class _Files(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response({"/moved": 302, "/gone": 404}.get(self.path, 200))
        self.send_header("location", "/data/elsewhere.csv")
        self.end_headers()
        self.wfile.write(CSV)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is to be said."""


@pytest.fixture(scope="module")
def files_at() -> Iterator[str]:
    """The origin of a server that has files."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Files) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory, own_home: Path, files_at: str) -> Iterator[Gateway]:
    folder = tmp_path_factory.mktemp("work")
    server = folder / "web_server.py"
    server.write_text(_WEB)
    settings = WORKING.format(command=json.dumps(script_command(server)), files=files_at)
    with ScriptedModel(strict=False) as model, gateway_at(folder, model, settings) as gateway:
        yield gateway


def results(gateway: Gateway) -> list[str]:
    """What the model was told of its calls, in its latest request."""
    return [str(one["content"]) for one in gateway.model.requests[-1].messages if one["role"] == "tool"]


def progress(gateway: Gateway, *, phase: str = "complete") -> list[dict[str, Any]]:
    """What the stream of a request tells of its calls."""
    events = gateway.stream(session_id="s-progress")
    told = [event.data for event in events if event.name == "agentic_tool_call_progress"]
    return [one["data"] for one in told if one["phase"] == phase]


@pytest.mark.requirement(
    "gateway.files.output.surface",
    "gateway.files.object.fields",
    "gateway.files.object.id",
    "gateway.files.object.purpose",
    "gateway.chat.response.files",
)
def test_files_that_calls_make_come_with_the_answer(gateway: Gateway) -> None:
    gateway.will(
        call("bash", command="printf 'a,b\\n1,2\\n' > table.csv; mkdir out; printf '\\377\\000' > out/raw.bin"),
        call("run_code", code="open('note.txt', 'w').write('hi')"),
        "Done.",
    )

    found = gateway.chat("Make them.").json()

    assert found["choices"][0]["message"]["content"] == "Done."
    table, raw, note = found["files"]
    assert (table["name"], table["format"], table["mime_type"]) == ("table.csv", "csv", "text/csv")
    assert (table["bytes"], table["purpose"]) == (8, "agent_output")
    assert abs(table["created_at"] - time.time()) < 60
    assert (raw["name"], raw["source"]) == ("out/raw.bin", {"tool": "bash", "round": 1, "turn": 1})
    assert note["source"] == {"tool": "run_code", "round": 2, "turn": 1}
    parts = [one["id"].split("_") for one in found["files"]]
    assert [(one[0], *one[2:]) for one in parts] == [("file", "r1", "0"), ("file", "r1", "1"), ("file", "r2", "2")]
    (run,) = {one[1] for one in parts}
    assert len(bytes.fromhex(run)) * 8 >= 128
    assert gateway.client.get(f"/v1/files/{table['id']}").json()["id"] == table["id"]
    given = upload(gateway, CSV).json()
    assert given["id"].startswith("file-")
    assert given["purpose"] == "user_data"


@pytest.mark.requirement("gateway.files.object.text", "gateway.files.object.elided")
def test_a_files_body_stands_in_it_unless_it_is_large(gateway: Gateway) -> None:
    code = f"""
open("a.txt", "w").write("é" * 2000)
open("b.bin", "wb").write({BINARY!r})
open("c.txt", "w").write("x" * {INLINE_LIMIT})
open("d.txt", "w").write("x" * {INLINE_LIMIT + 1})
"""
    gateway.will(call("run_code", code=code), "Done.")

    text, binary, large, larger = gateway.chat("Make them.").json()["files"]

    assert text["text"] == "é" * 2000
    assert text["preview"] == "é" * (MADE_PREVIEW // 2)
    assert base64.b64decode(binary["data_base64"]) == BINARY
    assert not {"text", "preview"} & binary.keys()
    assert len(large["text"]) == INLINE_LIMIT
    assert not {"text", "data_base64"} & larger.keys()
    assert len(content(gateway, larger["id"]).content) == INLINE_LIMIT + 1


@pytest.mark.requirement("gateway.chat.response.calls", "gateway.files.object.rounds")
def test_each_call_says_what_it_did_and_which_files_it_made(gateway: Gateway) -> None:
    code = f"import base64; open('dot.png', 'wb').write(base64.b64decode('{_PNG}')); print('drawn')"
    gateway.will(call("mcp__sample__add", a=1, b=2), call("run_code", code=code), "Done.")

    found = gateway.chat("Draw.").json()

    added, drawn = found["agentic_tool_calls"]
    assert (added["round"], added["name"]) == (1, "mcp__sample__add")
    assert "\n3\n" in added["result_content"]
    assert added["arguments"] == '{"a": 1, "b": 2}'
    assert not {"result_images_base64", "file_ids"} & added.keys()
    assert (drawn["round"], drawn["name"]) == (2, "run_code")
    assert "drawn" in drawn["result_content"]
    assert drawn["result_images_base64"] == [_PNG]
    assert drawn["file_ids"] == [found["files"][0]["id"]]


@pytest.mark.requirement("gateway.events.file.once")
def test_a_stream_says_once_that_a_file_is_there_and_before_the_answer_goes_on(gateway: Gateway) -> None:
    gateway.will(
        call("bash", command="echo 1 > one.txt"), call("bash", command="cat one.txt; echo 2 > two.txt"), "Done."
    )

    events = gateway.stream("Make them.", session_id="s-files", files=[{"name": "three.txt"}])

    told = [(event.name, event.data.get("phase"), event.data.get("name")) for event in events if event.name]
    calling, complete = (
        ("agentic_tool_call_progress", "calling", None),
        ("agentic_tool_call_progress", "complete", None),
    )
    files = [("file_produced", None, f"{name}.txt") for name in ("one", "two", "three")]
    assert told == [calling, complete, files[0], calling, complete, files[1], files[2]]
    made = [event.data for event in events if event.name == "file_produced"]
    assert made[0]["text"] == "1\n"
    assert (made[2]["code"], made[2]["message"]) == ("file_not_made", "No tool made three.txt.")


@pytest.mark.requirement("gateway.events.progress.data")
def test_progress_tells_what_is_run_and_what_came_of_it(gateway: Gateway, tmp_path: Path) -> None:
    gateway.will(call("bash", command="pwd; echo no >&2; exit 3"), "Done.")
    (shell,) = progress(gateway)
    folder = shell["working_directory"]
    assert shell["commands"] == ["pwd; echo no >&2; exit 3"]
    assert (shell["stdout"], shell["stderr"], shell["exit_code"]) == (f"{folder}\n", "no\n", 3)
    assert Path(folder).is_dir()

    code = f"import base64; open('dot.png', 'wb').write(base64.b64decode('{_PNG}'))"
    gateway.will(call("run_code", code=code + FRAMES), "Done.")
    (ran,) = progress(gateway)
    assert ran["images_base64"] == [_PNG]
    assert len(ran["video_frames_base64"]) == 3
    assert all(base64.b64decode(one).startswith(b"\x89PNG") for one in ran["video_frames_base64"])
    gateway.will(call("run_code", code="print(1)"), "Done.")
    assert progress(gateway, phase="calling") == [{"tool_type": "code_execution", "code": "print(1)"}]


@pytest.mark.requirement("gateway.events.progress.tool_type")
def test_progress_tells_what_kind_of_tool_it_is(gateway: Gateway) -> None:
    gateway.will(
        call("bash", command="true"),
        call("run_code", code="1"),
        call("mcp__sample__add", a=1, b=2),
        call("mcp__web__web_search", query="maps"),
        "Done.",
    )
    assert [one["tool_type"] for one in progress(gateway)] == ["shell", "code_execution", "custom", "web_search"]


@pytest.mark.requirement("gateway.files.request.hints", "mistralrs.request.files")
def test_files_that_are_asked_for_are_made_known_to_the_model(gateway: Gateway) -> None:
    wanted = [
        {"name": "sum.csv", "description": "One line a month."},
        {"name": "notes", "format": "md"},
        {"name": "gone.png", "format": "png"},
    ]
    first = gateway.will(call("bash", command="echo 1 > sum.csv; echo hi > notes"), "Done.")

    notes, made, gone = gateway.chat("Make them.", files=wanted).json()["files"]

    told = gateway.model.requests[first - 1].messages[-1]["content"]
    assert [part["text"] for part in told] == [
        "Make them.",
        f"{WANTED_IN_FOLDER}:\n- sum.csv (csv): One line a month.\n- notes (md)\n- gone.png (png)",
    ]
    assert [(one["name"], one["format"]) for one in (made, notes, gone)] == [
        ("sum.csv", "csv"),
        ("notes", "md"),
        ("gone.png", "png"),
    ]
    assert (gone["code"], gone["source"]["tool"]) == ("file_not_made", "")
    assert content(gateway, gone["id"]).status_code == 422


@pytest.mark.requirement("gateway.files.request.hints")
def test_files_that_are_asked_for_stand_behind_the_latest_question(gateway: Gateway) -> None:
    first = gateway.will("None.")
    before = [{"role": "user", "content": "Hello."}, {"role": "assistant", "content": "Hi."}]
    gateway.chat(messages=[*before, {"role": "user", "content": "Make it."}], files=[{"name": "sum.csv"}])
    sent = [one["content"] for one in gateway.model.requests[first - 1].messages if one["role"] != "system"]
    assert sent[:2] == ["Hello.", "Hi."]
    assert [part["text"].partition("\n")[2] for part in sent[2]] == ["", "- sum.csv (csv)"]


@pytest.mark.requirement("gateway.files.input.mounted", "gateway.files.output.inspect")
def test_files_of_a_request_lie_in_the_working_folder(gateway: Gateway) -> None:
    long = "".join(f"line {number}\n" for number in range(2000))
    file_id = upload(gateway, long.encode(), "long.txt").json()["id"]
    gateway.will(
        call("bash", command="tail -n 1 long.txt; seq 1000 > made.txt"),
        call("run_code", code="print(len(open('long.txt').read()))"),
        call("read_file", path="long.txt", offset=1998),
        call("read_file", path="made.txt", offset=998),
        "Done.",
    )

    found = ask(gateway, {"file_id": file_id})

    assert found.status_code == 200
    assert [one["name"] for one in found.json()["files"]] == ["made.txt"]
    shell, code, given, made = results(gateway)
    assert "line 1999" in shell
    assert "line 1999" not in str(gateway.model.requests[-1].messages[0])
    assert str(len(long)) in code
    assert "line 1998" in given
    assert "999\n" in made.replace("\t", "")


@pytest.mark.requirement("gateway.files.output.preview")
def test_the_model_sees_the_beginning_of_a_text_that_was_made(gateway: Gateway) -> None:
    gateway.will(call("run_code", code="open('a.txt', 'w').write('x' * 1024 + 'yz')"), "Done.")

    made = gateway.chat("Make it.").json()["files"][0]

    (told,) = results(gateway)
    assert f"[File a.txt, text/plain, 1,026 bytes, id {made['id']}; its first 1,024 characters:]" in told
    assert "x" * MADE_PREVIEW + "\n[end of a.txt]" in told


@pytest.mark.requirement("gateway.files.output.earlier")
def test_files_of_earlier_calls_are_given_on_demand(gateway: Gateway) -> None:
    session = {"session_id": "s-earlier"}
    gateway.will(
        call("run_code", code="import os; open('old.txt', 'w').write('1'); os.symlink('/etc/hostname', 'link.txt')"),
        "Made.",
    )
    assert len(gateway.chat("Make it.", **session).json()["files"]) == 1
    gateway.will(call("surface_files", paths=["old.txt"]), "Here.")

    found = gateway.chat("Give it again.", **session).json()

    (given,) = found["files"]
    assert (given["name"], given["text"], given["source"]["tool"]) == ("old.txt", "1", "surface_files")
    assert found["agentic_tool_calls"][0]["file_ids"] == [given["id"]]
    for path in ("link.txt", "../../state.db", "/etc/hostname", "none.txt"):
        gateway.will(call("surface_files", paths=[path]), "No.")
        assert "files" not in gateway.chat("And that?", **session).json()


def test_a_sessions_folder_stays_and_a_requests_goes(gateway: Gateway) -> None:
    def folders() -> set[str]:
        owners = (gateway.folder / "home" / "gateway" / "work").iterdir()
        return {path.name for owner in owners for path in owner.iterdir()}

    gateway.will(call("bash", command="echo 1 > kept.txt"), "Made.", call("bash", command="cat kept.txt"), "Read.")
    gateway.chat("Make it.", session_id="s-folder")
    gateway.chat("Read it.", session_id="s-folder")
    assert "stdout:\n1" in results(gateway)[-1]
    until(lambda: not any(name.startswith("run-") for name in folders()))
    before = folders()

    gateway.will(call("bash", command="cat kept.txt"), "There is none.")
    gateway.chat("Read it.")
    assert "No such file" in results(gateway)[-1]
    until(lambda: folders() == before)
    gateway.client.delete("/v1/sessions/s-folder")
    assert len(folders()) == len(before) - 1


def test_a_file_that_tools_have_changed_stays_so_until_the_client_changes_it(gateway: Gateway) -> None:
    def say(body: bytes, command: str) -> str:
        gateway.will(call("bash", command=command), "Done.")
        given = {"filename": "data.csv", "file_data": base64.b64encode(body).decode()}
        assert ask(gateway, given, session_id="s-placed").status_code == 200
        return results(gateway)[-1]

    say(b"old\n", "echo more >> data.csv")
    assert "old\nmore" in say(b"old\n", "cat data.csv")
    assert "stdout:\nnew" in say(b"new\n", "cat data.csv")
    say(b"new\n", "mv data.csv moved.csv && ls > gone.txt")
    assert "data.csv" not in say(b"new\n", "cat gone.txt")
    assert "stdout:\nnew" in say(b"new\n", "cat data.csv")  # what the client has sent again is there
    target = gateway.folder / "precious.txt"
    target.write_text("precious")
    say(b"new\n", f"ln -sf {target} data.csv")
    say(b"newer\n", "true")
    assert target.read_text() == "precious"


async def test_folders_of_sessions_that_are_over_go(gateway: Gateway, tmp_path: Path) -> None:
    folders = WorkFolders(tmp_path, gateway.server.parts.store, "someone")
    old, new = folders.of("old"), folders.of("new")
    await old.open()
    await new.open()
    over = time.time() - FOLDER_SECONDS - 1
    os.utime(old.path, (over, over))

    await folders.sweep()

    assert [one.path.exists() for one in (old, new)] == [False, True]


def test_what_the_rules_do_not_allow_is_not_run_also_by_own_tools(tmp_path: Path, own_home: Path) -> None:
    settings = '[gateway]\ntools = ["bash", "run_code"]\n'
    with ScriptedModel(strict=False) as model, gateway_at(tmp_path, model, settings) as gateway:
        gateway.will(
            answer("", [call("bash", command="touch /tmp/x"), call("run_code", code="1")]),
            "Denied.",
            call("bash", command="ls"),
            "Read.",
        )
        found = gateway.chat("Run them.").json()["agentic_tool_calls"]
        assert ["nobody is here to approve it" in one["result_content"] for one in found] == [True, True]
        assert gateway.chat("Look.").json()["agentic_tool_calls"][0]["result_content"].startswith("returncode: 0")
        gateway.will(call("bash", command="ls"), "Denied.")
        denied = gateway.chat("Look.", agent_permission="deny").json()["agentic_tool_calls"][0]
        assert "agent_permission is deny" in denied["result_content"]

        gateway.will(call("run_code", code="1"), "Denied.")
        stream = Streamed(gateway, session_id="s-asked")
        asked = stream.asked()
        answered(gateway, asked["approval_id"], decision="deny")
        assert stream.text() == "Denied."
        assert asked.pop("approval_id").startswith("appr_")
        assert asked == {
            "type": REQUIRED,
            "session_id": "s-asked",
            "round": 1,
            "tool": {"source": "built_in", "kind": "code_execution", "label": "Python code"},
            "arguments": {"code": "1"},
        }


def test_own_tools_are_offered_only_where_the_settings_name_them(gateway: Gateway, tmp_path: Path) -> None:
    def offered(one: Gateway, **fields: Any) -> set[str]:
        number = one.will("Hello.")
        one.chat(**fields)
        return {tool["function"]["name"] for tool in one.model.requests[number - 1].body.get("tools", ())}

    own = {"bash", "run_code", "read_file", "surface_files"}
    assert own <= offered(gateway)
    assert not own & offered(gateway, mcp_mode="off")
    mine = {"type": "function", "function": {"name": "bash", "description": "Mine.", "parameters": {"type": "object"}}}
    number = gateway.will(call("bash", command="ls"))
    theirs = gateway.chat(tools=[mine]).json()["choices"][0]["message"]["tool_calls"]
    assert [one["function"]["name"] for one in theirs] == ["bash"]
    tools = gateway.model.requests[number - 1].body["tools"]
    assert [one["function"]["description"] for one in tools if one["function"]["name"] == "bash"] == ["Mine."]
    with ScriptedModel(strict=False) as model, gateway_at(tmp_path, model, ALLOWED) as plain:
        assert not own & offered(plain)


def responses(gateway: Gateway, **fields: Any) -> list[Sent]:
    return gateway.stream_at("/v1/responses", {"input": "Make it.", **fields})


@pytest.mark.requirement("gateway.later.responses.shell")
def test_shell_calls_are_items_of_the_responses_api(gateway: Gateway) -> None:
    script = [call("bash", command="echo out; echo err >&2; exit 3"), "Failed."]
    gateway.will(*script)
    events = responses(gateway)
    gateway.will(*script)
    whole = gateway.client.post("/v1/responses", json={"input": "Make it."}).json()

    for ended in (events[-1].data["response"], whole):
        asked, given, message = ended["output"]
        assert (asked["type"], asked["status"]) == ("shell_call", "completed")
        assert asked["action"]["commands"] == ["echo out; echo err >&2; exit 3"]
        assert (given["type"], given["call_id"]) == ("shell_call_output", asked["call_id"])
        outcome = {"type": "exit", "exit_code": 3}
        assert given["output"] == [{"stdout": "out\n", "stderr": "err\n", "outcome": outcome}]
        assert message["content"][0]["text"] == "Failed."
    items = [(event.name, event.data["item"]["type"]) for event in events if "output_item" in event.name]
    added, done = "response.output_item.added", "response.output_item.done"
    assert items == [(kind, name) for name in ("shell_call", "shell_call_output", "message") for kind in (added, done)]
    number = gateway.will("Again.")
    again = [{"role": "user", "content": "Make it."}, *whole["output"], {"role": "user", "content": "And?"}]
    assert gateway.client.post("/v1/responses", json={"input": again}).status_code == 200
    _, sent, result, *_ = gateway.model.requests[number - 1].messages
    assert sent["tool_calls"][0]["function"]["name"] == "bash"
    assert (result["tool_call_id"], result["content"]) == (asked["call_id"], "out\n\nerr\n")


@pytest.mark.requirement("gateway.later.responses.citations", "gateway.later.responses.agentic")
def test_files_are_cited_and_told_on_responses(gateway: Gateway) -> None:
    script = [call("bash", command="echo 1 > one.txt; echo 2 > two.txt"), "See one.txt."]
    first = gateway.will(*script)
    events = responses(gateway, files=[{"name": "one.txt"}, {"name": "three.txt", "description": "The sum."}])
    assert "- three.txt (txt): The sum." in str(gateway.model.requests[first - 1].messages)
    gateway.will(*script)
    whole = gateway.client.post("/v1/responses", json={"input": "Make it."}).json()

    made = [event.data for event in events if event.name == "file_produced"]
    phases = [event.data["phase"] for event in events if event.name == "agentic_tool_call_progress"]
    assert [(one["name"], one.get("code")) for one in made] == [
        ("one.txt", None),
        ("two.txt", None),
        ("three.txt", "file_not_made"),
    ]
    assert phases == ["calling", "complete"]
    for ended in (events[-1].data["response"], whole):
        one, two = ended["output"][-1]["content"][0]["annotations"]
        assert {one["type"], two["type"]} == {"container_file_citation"}
        assert (one["filename"], one["start_index"], one["end_index"]) == ("one.txt", 4, 11)
        assert (two["filename"], two["start_index"], two["end_index"]) == ("two.txt", 12, 12)
        found = gateway.client.get(f"/v1/containers/{one['container_id']}/files/{one['file_id']}/content")
        assert found.text == "1\n"
    told = [event.data["annotation"] for event in events if event.name == "response.output_text.annotation.added"]
    assert told == events[-1].data["response"]["output"][-1]["content"][0]["annotations"]
    assert [one["file_id"] for one in told] == [one["id"] for one in made[:2]]


def test_openais_own_client_takes_shell_items_and_citations(gateway: Gateway) -> None:
    script = [call("bash", command="echo 1 > one.txt"), "See one.txt."]
    gateway.will(*script, *script)

    found = sdks.use("openai_responses_shell", gateway.server.url, TOKEN)

    assert (
        found["whole"]
        == found["streamed"]
        == [
            "ResponseFunctionShellToolCall",
            "ResponseFunctionShellToolCallOutput",
            "ResponseOutputMessage",
            "AnnotationContainerFileCitation",
        ]
    )


@pytest.mark.requirement("gateway.later.responses.input-file")
def test_files_of_a_responses_request_are_read_for_the_model(gateway: Gateway, files_at: str) -> None:
    file_id = upload(gateway, CSV).json()["id"]
    data = {"filename": "more.csv", "file_data": base64.b64encode(CSV).decode()}
    files = [{"file_id": file_id}, data, {"file_url": f"{files_at}/data/far%20away.csv?key=1"}]
    number = gateway.will("Read.")

    assert ask_with_files(gateway, *files).status_code == 200

    text = gateway.model.requests[number - 1].messages[0]["content"]
    shown = [part.partition(" in the working folder")[0] for part in text.split("[File ")[1:]]
    assert shown == ["cities.csv", "more.csv", "far away.csv"]
    assert text.count(CSV.decode()) == len(files)


@pytest.mark.parametrize("path", ["/moved", "/gone"])
def test_an_address_without_a_file_is_refused(gateway: Gateway, files_at: str, path: str) -> None:
    refused = ask_with_files(gateway, {"file_url": files_at + path})
    assert (refused.status_code, refused.json()["error"]["code"]) == (422, "file_url_failed")


@pytest.mark.parametrize(
    "url",
    [
        "http://169.254.169.254/latest",
        "file:///etc/hostname",
        "http://{host}@169.254.169.254/",
        "http://{host}.example.org/",
        "https://{host}/",
        "http://[",
    ],
)
def test_no_address_is_read_that_the_settings_do_not_name(gateway: Gateway, files_at: str, url: str) -> None:
    refused = ask_with_files(gateway, {"file_url": url.format(host=files_at.removeprefix("http://"))})
    assert (refused.status_code, refused.json()["error"]["code"]) == (422, "file_url_refused")
    assert ask(gateway, {"file_url": files_at}).status_code == 422  # the other routes read none at all


def ask_with_files(gateway: Gateway, *files: dict[str, str]) -> httpx.Response:
    content = [{"type": "input_file", **one} for one in files]
    return gateway.client.post("/v1/responses", json={"input": [{"role": "user", "content": content}]})


@pytest.mark.requirement("gateway.later.responses.skills")
def test_a_skill_of_a_request_needs_the_shell(gateway: Gateway, tmp_path: Path) -> None:
    skill = b"---\nname: maps\ndescription: Draws maps.\n---\nUse ink.\n"

    def ask_with(one: Gateway, **changes: Any) -> httpx.Response:
        made = one.client.post("/v1/skills", files=[("files", ("maps/SKILL.md", skill))]).json()
        reference = {"type": "skill_reference", "skill_id": made["id"], **changes}
        shell = {"type": "shell", "environment": {"type": "container_auto", "skills": [reference]}}
        return one.client.post("/v1/responses", json={"input": "Draw.", "tools": [shell]})

    first = gateway.will(call("bash", command="cat skills/maps/SKILL.md"), "Drawn.")
    assert ask_with(gateway).status_code == 200
    told = gateway.model.requests[first - 1].messages[0]["content"]
    assert "- maps (skills/maps/SKILL.md): Draws maps." in told
    assert "Use ink." in results(gateway)[-1]
    assert ask_with(gateway, version="2").status_code == 404
    newer = ("maps/SKILL.md", skill.replace(b"ink", b"chalk"))
    made = gateway.client.get("/v1/skills").json()["data"][0]["id"]
    assert gateway.client.post(f"/v1/skills/{made}/versions", files=[("files", newer)]).is_success
    for version, words in (({}, "Use chalk."), ({"version": "1"}, "Use ink."), ({"version": "latest"}, "Use chalk.")):
        gateway.will(call("bash", command="cat skills/maps/SKILL.md"), "Drawn.")
        assert ask_with(gateway, skill_id=made, **version).status_code == 200
        assert words in results(gateway)[-1]
    assert ask_with(gateway, type="inline").status_code == 400
    with ScriptedModel(strict=False) as model, gateway_at(tmp_path, model, ALLOWED) as plain:
        refused = ask_with(plain)
        assert (refused.status_code, refused.json()["error"]["code"]) == (400, "shell_disabled")
        assert model.requests == []


@pytest.mark.requirement("gateway.later.messages.files")
def test_messages_take_and_give_files_as_chat_does(gateway: Gateway) -> None:
    body = {
        "max_tokens": 100,
        "messages": [{"role": "user", "content": "Make them."}],
        "files": [{"name": "one.txt", "description": "A number."}, {"name": "two.txt"}],
    }
    script = [call("bash", command="echo 1 > one.txt"), "Made."]
    first = gateway.will(*script)
    whole = gateway.client.post("/v1/messages", json=body).json()
    gateway.will(*script)
    events = gateway.stream_at("/v1/messages", body)

    assert "- one.txt (txt): A number." in str(gateway.model.requests[first - 1].messages[-1])
    streamed = [event.data for event in events if event.name == "file_produced"]
    for one, two in (whole["files"], streamed):
        assert (one["name"], one["text"], one["purpose"]) == ("one.txt", "1\n", "agent_output")
        assert (two["name"], two["code"]) == ("two.txt", "file_not_made")


@pytest.mark.requirement("gateway.later.messages.agentic")
def test_named_events_come_between_those_of_messages(gateway: Gateway) -> None:
    gateway.will(call("bash", command="echo 1 > one.txt"), call("mcp__web__web_search", query="maps"), "Found.")
    stream = Streamed(gateway, "/v1/messages", max_tokens=100)

    asked = stream.asked()
    assert asked["tool"] == {"source": "mcp", "kind": "web_search", "label": "Web search"}
    answered(gateway, asked["approval_id"], decision="approve")

    assert stream.last().name == "message_stop"
    names = [event.name for event in stream.events if not event.name.startswith("content_block")]
    progress = "agentic_tool_call_progress"
    called = [progress, progress, "file_produced", REQUIRED, progress, progress]
    assert names == ["message_start", *called, "message_delta", "message_stop"]


def test_where_no_value_may_be_sent_the_model_hears_the_size_of_what_calls_gave(tmp_path: Path, own_home: Path) -> None:
    settings = '[gateway]\ntools = ["bash", "run_code", "read_file"]\nallow = ["*"]\n[privacy]\nmode = "schema"\n'
    code = "print(6 * 7351)\nopen('made.csv', 'w').write(str(6 * 7351))\nopen('made.py', 'w').write('x = 1')"
    with ScriptedModel(strict=False) as model, gateway_at(tmp_path, model, settings) as gateway:
        gateway.will(call("run_code", code=code), call("bash", command="cat made.csv"), "Done.")
        done = gateway.chat("Make them.").json()
        assert [one["name"] for one in done["files"]] == ["made.csv", "made.py"]
        assert len(results(gateway)) == 2
        assert all(result.endswith("withheld: no values are sent in this privacy mode") for result in results(gateway))
        assert not any(str(6 * 7351) in str(request.body) for request in model.requests)
