"""The tool `skill`: loads a skill's instructions, or reads one of its files."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from pydantic import ConfigDict, Field

from vibe_jupyter.errors import ToolError
from vibe_jupyter.files.workspace import Workspace
from vibe_jupyter.protocol import Headline, LazyModel, Preview, Resource, ToolResult, ToolSpec
from vibe_jupyter.skills.skill import FILE_NAME, Skill
from vibe_jupyter.tools.contract import Tool, ToolContext

LONGEST: Final = 40_000  # characters of a skill or one of its files that the model receives in full
LARGEST_FILE: Final = 1_048_576  # bytes of a file that is read

# Written out as `vibe_jupyter.tools.contract.tool_spec` would build it, to save time in the first request.
SPEC: Final = ToolSpec.model_construct(
    name="skill",
    description="Load the instructions of a skill, or read one file of it.",
    parameters={
        "additionalProperties": False,
        "properties": {"name": {"type": "string"}, "file": {"type": "string"}},
        "required": ["name"],
        "type": "object",
    },
)

UseSkill = Callable[[Skill], Awaitable[str]]  # activates a skill and returns its text for the model


class SkillArgs(LazyModel):
    """Which skill, or which file of it."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(min_length=1)
    file: str = ""


class SkillTool(Tool[SkillArgs]):
    """Reads only inside skills' folders, so no approval is needed."""

    name = SPEC.name
    description = SPEC.description
    level = "always"
    arguments = SkillArgs
    without_values = "always"
    result_limit = LONGEST

    def __init__(self, skills: Callable[[], Mapping[str, Skill]], use: UseSkill) -> None:
        self._skills = skills  # returns the available skills by name
        self._use = use

    def headline(self, args: SkillArgs) -> Headline:
        if args.file:
            note = f"of the skill {args.name}"
            return Headline(verb="Read", doing="Reading", asking="Read", target=args.file, note=note)
        return Headline(verb="Loaded", doing="Loading", asking="Load", target=args.name, note="a skill")

    def preview(self, args: SkillArgs) -> Preview:
        return Preview(kind="text", text=f"Read {args.file or FILE_NAME} of the skill {args.name}.")

    def touches(self, args: SkillArgs) -> Sequence[Resource]:
        return ()

    async def run(self, args: SkillArgs, context: ToolContext) -> ToolResult:
        skill = self._find_skill(args.name)
        if args.file:
            text = await asyncio.to_thread(_file_text, skill, args.file)
            return ToolResult.text(text, summary=f"{len(text):,} characters", display={"text/plain": text})
        text = await self._use(skill)
        return ToolResult.text(text, summary=skill.description, display={"text/markdown": skill.body})

    def _find_skill(self, name: str) -> Skill:
        skills = self._skills()
        skill = skills.get(name.strip().removeprefix("/").removesuffix(f"/{FILE_NAME}").casefold())
        if skill is None:
            known = f"The skills are: {', '.join(skills)}." if skills else "There are none."
            raise ToolError(f"There is no skill {name!r}. {known}")
        return skill


def _file_text(skill: Skill, file: str) -> str:
    """Read a file in the skill's folder.

    Raises:
        ToolError: the file is outside the folder, protected, too large or not text.
    """
    folder = Workspace(skill.folder)
    located = folder.resolve(file)
    if not located.inside:
        raise ToolError(f"{file!r} is not in the folder of the skill {skill.name}. Read it with read_file.")
    if why := located.protection("read"):
        raise ToolError(f"{file!r} {why}; it is not read with a skill. Read it with read_file, which asks the user.")
    folder.require(located, "regular")
    with folder.open_read(located) as opened:
        content = opened.read(LARGEST_FILE + 1)
    if len(content) > LARGEST_FILE:
        raise ToolError(f"{file!r} is larger than {LARGEST_FILE:,} bytes.")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ToolError(f"{file!r} is not UTF-8 text. Its path is {located.path}.") from None
