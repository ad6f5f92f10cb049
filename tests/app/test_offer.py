"""What the model is offered, and in what form."""

import json
import re
import shutil
from typing import Any

import pytest

from tests.app.conftest import Session
from tests.tiers import further
from vibe_jupyter.testing import call, say

pytestmark = pytest.mark.xdist_group("app")
READING = {"read_notebook", "inspect", "read_file", "grep", "skill"}
ITS_OWN = {"todo", "ask_user_question"}
"""What touches nothing but the agent's list and the user's attention."""


def offered(session: Session) -> list[dict[str, Any]]:
    session.model.requests.clear()
    session.model.will_reply(say("Hello."))
    session.run("%vibe hello")
    return [tool["function"] for tool in session.model.requests[0].body["tools"]]


@pytest.mark.requirement("wire.tools.schema", "wire.tools.schema-source")
def test_every_schema_is_a_closed_object_without_titles(session: Session) -> None:
    offered_now = offered(session)
    for function in offered_now:
        schema = function["parameters"]
        assert schema["type"] == "object"
        assert schema["additionalProperties"] is False
        assert set(schema.get("required", [])) <= set(schema["properties"])
        assert '"title"' not in json.dumps(schema)
        assert function["description"]
    questions = next(one for one in offered_now if one["name"] == "ask_user_question")["parameters"]
    assert set(questions["$defs"]) == {"QuestionArgs"}
    assert questions["$defs"]["QuestionArgs"]["properties"]["options"]["items"] == {"type": "string"}


def test_memory_is_offered_when_something_is_remembered_or_the_prompt_asks_for_it(session: Session) -> None:
    assert "memory" not in {function["name"] for function in offered(session)}
    session.model.will_reply(
        call("memory", operation="add", content="Prices are in euro."), say("Kept."), say("Hello."), say("Hello.")
    )
    session.run("%vibe --yes=memory Remember that prices are in euro.")
    session.run("%vibe hello")
    session.run("%vibe reset")
    session.run("%vibe hello")
    offers = [{tool["function"]["name"] for tool in request.body["tools"]} for request in session.model.requests[1:]]
    assert all("memory" in names for names in offers)
    assert len(offers) == 4


def test_memory_stays_on_offer_for_the_conversation_whose_prompt_asked_for_it(session: Session) -> None:
    shutil.rmtree(session.folder / "vibe" / "memory", ignore_errors=True)
    offers: list[bool] = []
    for line in ("%vibe hello", "%vibe Please keep in mind what I say.", "%vibe hello", "%vibe hello again"):
        session.model.will_reply(say("Hello."))
        session.run(line)
        offers.append("memory" in {tool["function"]["name"] for tool in session.model.requests[-1].body["tools"]})
    assert offers == [False, True, True, True]
    session.run("%vibe reset")
    assert "memory" not in {function["name"] for function in offered(session)}


@pytest.mark.requirement("tools.memory.offer.words")
@pytest.mark.parametrize(
    ("prompt", "is_offered"),
    [
        ("Note for later: prices are in euro.", True),
        ("Please keep in mind that I like seaborn.", True),
        further("Behalte bitte: Preise in Euro.", True),
        further("Notez que les prix sont en euros.", True),
        further("価格はユーロです。覚えておいて。", True),
        further("请记住价格是欧元", True),
        further("Запомни: цены в евро.", True),
        further("가격은 유로야, 기억해 줘.", True),
        further("याद रखना, कीमतें यूरो में हैं।", True),
        ("Plot another column of this notebook by month.", False),
        further("Welche Merkmale haben Lücken?", False),
    ],
)
def test_memory_is_offered_for_words_that_ask_for_it(session: Session, prompt: str, is_offered: bool) -> None:
    shutil.rmtree(session.folder / "vibe" / "memory", ignore_errors=True)
    session.model.will_reply(say("Hello."))
    session.run(f"%vibe {prompt}")
    names = {tool["function"]["name"] for tool in session.model.requests[-1].body["tools"]}
    assert ("memory" in names) is is_offered


MADE = """
import json
from vibe_jupyter.tools.contract import tool_spec
tools = get_ipython().magics_manager.registry["VibeMagics"]._app._built_in
[offered.name for offered in tools.specs() if tools.find(offered.name) is None]
print(json.dumps([tool_spec(tool).model_dump() for tool in tools._tools.by_name.values()]))
"""


def test_what_is_offered_before_the_tools_are_imported_is_what_they_take(session: Session) -> None:
    told = {one["name"]: one for one in offered(session) if one["name"] != "skill"}  # there while there are skills
    made = {one["name"]: one for one in json.loads(session.run(MADE).text)}
    on_demand = {name: made[name] for name in ("memory", "exit_plan_mode")}
    assert {**on_demand, **told} == made, "run: python scripts/offered_tools.py"


@pytest.mark.requirement("tools.write_file.guidance.text")
def test_the_tool_that_writes_files_is_offered_with_when_not_to(session: Session) -> None:
    (said,) = [one["description"] for one in offered(session) if one["name"] == "write_file"]
    for words in ("prefer search_replace", "read it first", "No unasked documentation"):
        assert words in said


@pytest.mark.requirement("wire.tools.never-prompted")
def test_schemas_travel_in_the_tools_and_not_in_the_prompt(session: Session) -> None:
    functions = offered(session)
    system = session.model.requests[0].messages[0]["content"]
    for function in functions:
        assert function["description"] not in system
        assert json.dumps(function["parameters"]) not in system
    assert '"properties"' not in system


@pytest.mark.requirement("notebook.rule.no-restart")
def test_nothing_offered_restarts_the_kernel(session: Session) -> None:
    assert not [function["name"] for function in offered(session) if "restart" in json.dumps(function).lower()]


def test_what_only_reads_runs_without_asking_and_all_else_asks(session: Session) -> None:
    names = {function["name"] for function in offered(session)}
    code = (
        "from vibe_jupyter import magics\n"
        "app = magics._magics_registry(get_ipython())['VibeMagics'].app\n"
        "tools = app.offered_tools\n"
        "print({spec.name: tools.find(spec.name).level for spec in tools.specs()})"
    )
    levels: dict[str, str] = json.loads(session.run(code).text.replace("'", '"'))
    assert set(levels) == names
    assert {name for name, level in levels.items() if level == "always"} == READING | ITS_OWN
    assert {level for name, level in levels.items() if name not in READING | ITS_OWN} == {"ask"}


@pytest.mark.requirement("wire.call.no-xml")
def test_no_request_shows_calls_in_xml(session: Session) -> None:
    session.model.will_reply(call("run_code", code="x = 1"), say("Done."))
    session.run("%vibe --yes=run_code hello")
    xml = re.compile(r"</?(antml:)?(tool_call|function|invoke|parameter|tool_use)")
    assert [bool(xml.search(json.dumps(request.body))) for request in session.model.requests] == [False, False]
