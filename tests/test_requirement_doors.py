"""Which requirements need a door, and which tests go through one."""

import pytest

from tests.requirement_doors import has_door, needs_door, unproven


@pytest.mark.parametrize(
    ("sentence", "needs"),
    [
        ("A tool with permission never does not run, and the model is told so.", True),
        ("A call is given up after 60 s, and the model gets an error.", True),
        ("The user sees which cells changed.", True),
        ("What would ask is denied with a reason the model and the reader see.", True),
        ("Usage guidance of each offered tool reaches the model.", True),
        ("Finish reason length is reported to the person as cut.", True),
        ("Its description tells the model to prefer editing.", True),
        ("The reviewer can read and search but not change anything.", False),
        ("The model's window bounds a request.", False),
        ("Without tools neither `tools` nor `tool_choice` is sent.", False),
    ],
)
def test_sentences_on_what_somebody_gets_need_a_door(sentence: str, needs: bool) -> None:
    assert needs_door(sentence) is needs


@pytest.mark.parametrize(
    ("fixtures", "imported", "goes"),
    [
        (("tmp_path", "session"), (), True),
        (("tmp_path", "lab", "page"), (), True),
        (("tmp_path",), ("Path", "ScriptedModel"), True),
        (("tmp_path",), ("program_command",), True),
        (("tmp_path", "permissions"), ("Permissions", "decide"), False),
        ((), (), False),
    ],
)
def test_fixtures_and_imports_say_whether_a_test_goes_through_one(
    fixtures: tuple[str, ...], imported: tuple[str, ...], goes: bool
) -> None:
    assert has_door(fixtures, imported) is goes


def test_a_marker_on_a_test_without_a_door_is_refused_where_it_stands(request: pytest.FixtureRequest) -> None:
    request.node.add_marker(pytest.mark.requirement("some.id"))
    assert unproven(request.node, {"some.id": "The model is told so."}) == ["some.id"]
    assert unproven(request.node, {"some.id": "The file is kept."}) == []
