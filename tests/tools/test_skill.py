"""The tool `skill`: what the model reads of it."""

from vibe_jupyter.skills.skill import Skill
from vibe_jupyter.tools.contract import tool_spec
from vibe_jupyter.tools.skill import SPEC, SkillTool


async def _use(skill: Skill) -> str:
    return skill.name


def test_what_is_written_of_its_arguments_is_what_is_checked() -> None:
    assert tool_spec(SkillTool(dict, _use)) == SPEC
