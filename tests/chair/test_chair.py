"""The jobs of the model's chair: an expert that knows only what it was sent does them with the fewest requests."""

import httpx
import pytest

from tests.chair.cases import Names
from tests.chair.cleaning import changed_table
from tests.chair.expert import Expert, Script, Seen, do
from tests.chair.models import failing_merge
from tests.chair.sitting import Sitting, worst_of
from tests.on_use import OnUse
from vibe_jupyter.testing import Call, ModelRequest, ScriptedModel, call, say
from vibe_jupyter.testing.recording import RecordingModel

pytestmark = pytest.mark.xdist_group("chair")

pd = OnUse("pandas")


@pytest.mark.usefixtures("forked_kernels")
@pytest.mark.parametrize("jobs", [("c",), ("f1", "f2")], ids=["a merge that fails", "a table that the user changed"])
def test_an_expert_who_knows_only_what_it_was_sent_needs_no_request_too_many(
    jobs: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VIBE_HOME", "set by the sitting")
    sitting = Sitting(seed=7, jobs=jobs)
    sitting.do_all()
    assert [(row.job, row.requests, row.problem) for row in sitting.rows] == [(job, 2, "") for job in jobs]
    assert not worst_of([sitting])


def test_a_word_that_no_request_told_is_reported() -> None:
    assert _invented(call("run_code", code="print(secret_column.mean())")) == ["secret_column (run_code.code)"]
    assert _invented(call("read_file", path="unknown.csv")) == ["unknown (read_file.path)"]
    assert _invented(call("run_code", code="own_name = told_name * 2\nprint(own_name)")) == []


def _invented(one: Call) -> list[str]:
    def script(_seen: Seen) -> Script:
        yield do("", one)

    expert = Expert(lambda word: hasattr(pd.DataFrame, word))
    expert.begin(script)
    expert.reply(ModelRequest({"messages": [{"role": "user", "content": "look at told_name"}]}, {}))
    return expert.invented


def test_names_and_numbers_differ_with_the_seed() -> None:
    for make in (failing_merge, changed_table):
        one, same, other = (make(Names(seed)) for seed in (1, 1, 2))
        assert one.cells == same.cells
        assert one.cells != other.cells


def test_a_recording_server_passes_all_on_and_keeps_each_request() -> None:
    body = {"model": "real", "messages": [{"role": "user", "content": "hello"}], "stream": True}
    with (
        ScriptedModel([say("Hello to you.")], api_key="key") as real,
        RecordingModel(real.url, name="real") as recording,
    ):
        answer = httpx.post(f"{recording.url}/chat/completions", json=body, headers={"Authorization": "Bearer key"})
        models = httpx.get(f"{recording.url}/models").json()
    assert "Hello" in answer.text
    assert models["data"][0]["id"] == real.name
    assert [request.body for request in recording.requests] == [body] == [request.body for request in real.requests]


def test_a_server_that_is_not_there_is_told_as_such() -> None:
    with RecordingModel("http://127.0.0.1:9/v1", name="real") as recording:
        answer = httpx.post(f"{recording.url}/chat/completions", json={"model": "real"})
    assert answer.status_code == 502
