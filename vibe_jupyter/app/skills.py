"""Skills of a kernel: found before each prompt, offered to the model, active from first use to the end of the run."""

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from vibe_jupyter.agent.agent import HookContext, PreparedPrompt, RunHooks
from vibe_jupyter.agent.call_context import ToolStep
from vibe_jupyter.app.kernel_parts import ToolParts
from vibe_jupyter.app.project import SKILLS, CurrentSettings, FolderLook, KernelSettings
from vibe_jupyter.config.settings import OTHER_NAMES
from vibe_jupyter.files.file_stamps import ReadCache, stamp_files
from vibe_jupyter.permissions.folder_trust import PROJECT_FOLDER, SHARED_FOLDER
from vibe_jupyter.protocol import Headline, Notice, TextPart, ToolSpec
from vibe_jupyter.safe_imports import without_collections, without_working_folder
from vibe_jupyter.skills.discovery import FoundSkills, SkillFile, SkillReader, skill_files
from vibe_jupyter.skills.section import listing, loaded_text, skills_section
from vibe_jupyter.skills.skill import FILE_NAME, TOOLS_FOLDER, Skill, SkillsInUse, called_skill
from vibe_jupyter.tools.contract import StaticToolset
from vibe_jupyter.tools.skill import SPEC, SkillTool

if TYPE_CHECKING:
    from vibe_jupyter.app.custom_tools import ToolsOfSkills
    from vibe_jupyter.tools.contract import Tool

MOST_FILES: Final = 200  # files listed of one skill
# Names of our tools in skills written for other programs, beyond the aliases known to the settings.
_OTHER_SPELLINGS: Final[Mapping[str, tuple[str, ...]]] = {
    "ask_user_question": ("AskUserQuestion",),
    "edit_cell": ("NotebookEdit",),
    "todo": ("TodoWrite",),
    "write_file": ("Write",),
}


class _UsedSkill(NamedTuple):
    text: str  # text for the model
    problems: Sequence[str]  # errors in the skill's tools


class KernelSkills:
    """Toolset of the `skill` tool and of the tools that active skills provide. Empty without skills."""

    def __init__(self, setup: KernelSettings, parts: ToolParts) -> None:
        self.section = ""  # section on skills for the system prompt, or ""
        self._offered: tuple[Skill, ...] = ()  # skills listed in `section`
        self._setup = setup
        self._parts = parts
        self._reader = SkillReader()
        self._found = ReadCache[FoundSkills]()
        # Settings and skills that `_available` was derived from.
        self._taken: tuple[CurrentSettings, FoundSkills] | None = None
        self._available: Mapping[str, Skill] = {}
        self._in_use = SkillsInUse()
        self._look: FolderLook | None = None  # the folder as of the current prompt
        self._options: Mapping[str, Mapping[str, Any]] = {}
        self._own = StaticToolset([SkillTool(lambda: self._available, self._load_skill)])
        self._brought: ToolsOfSkills | None = None
        self._tool_problems: list[str] = []
        # True if the current agent gets no tools of skills, so that their files aren't executed.
        self._only_reads = False

    def before_prompt(self, current: CurrentSettings) -> Sequence[str]:
        """Find skills again, and deactivate all. Returns the problems to report."""
        found = self._find(current)
        if self._taken is None or self._taken[0] is not current or self._taken[1] is not found:
            self._choose_skills(current, found)
        self._in_use, self._look, self._tool_problems = SkillsInUse(), current.look, []
        self._only_reads = current.reading.rules.only_reads
        return found.problems

    def _choose_skills(self, current: CurrentSettings, found: FoundSkills) -> None:
        settings = current.reading.settings
        self._available = {skill.name: skill for skill in found.skills if settings.offers_skill(skill.name)}
        offered = tuple(self._available.values()) if current.reading.offers_tool(SkillTool.name) else ()
        if offered != self._offered:
            self._offered, self.section = offered, skills_section(offered)
        self._options = {name: entry.model_dump(exclude_none=True) for name, entry in settings.tools.items()}
        self._taken = (current, found)

    def specs(self) -> Sequence[ToolSpec]:
        if not self._available:
            return ()
        return (SPEC, *(self._brought.specs(self._in_use) if self._brought is not None else ()))

    def find(self, name: str) -> "Tool[Any] | None":
        if not self._available:
            return None
        brought = self._brought.find(name, self._in_use) if self._brought is not None else None
        return self._own.find(name) or brought

    def run_hooks(self, prompt: str, others: RunHooks | None) -> RunHooks | None:
        """Prepend the skill that a prompt calls with a slash command to the run's hooks."""
        skill = called_skill(prompt, self._available.values()) if prompt.lstrip().startswith("/") else None
        return others if skill is None else _SlashHooks(self, skill, others)

    def why_barred(self, names: Sequence[str]) -> str:
        """Return why the active skills forbid a tool with these names, or "" if they don't."""
        # `skill` itself only reads, and another skill can only narrow further.
        if not self._in_use.skills or SkillTool.name in names:
            return ""
        return self._in_use.why_barred(names, [other for name in names for other in _spellings(name)])

    def listing(self) -> str:
        """Return the list of skills for `%vibe skills`.

        Raises:
            ConfigError: A setting is invalid.
        """
        current = self._setup.current()
        found, settings = self._find(current), current.reading.settings
        shown = [skill for skill in found.skills if settings.offers_skill(skill.name)]
        hidden = {skill.name: "by your settings" for skill in found.skills if skill not in shown}
        if not current.look.trusted:
            paths = [Path(path) for path in current.look.brought.files if Path(path).name == FILE_NAME]
            hidden |= {path.parent.name: "since the folder is not trusted: %vibe trust" for path in paths}
        return listing(shown, hidden, [*found.problems, *found.replaced, *self._tool_problems])

    def slash_names(self) -> list[str]:
        """Return the skills' slash commands for completion.

        Raises:
            ConfigError: A setting is invalid.
        """
        return [f"/{skill.name}" for skill in self._find_offered() if skill.user_invocable]

    def are_called(self, line: str) -> bool:
        """Return whether a line of `%vibe` calls a skill.

        Raises:
            ConfigError: A setting is invalid.
        """
        return called_skill(line, self._find_offered()) is not None

    def _find_offered(self) -> list[Skill]:
        current = self._setup.current()
        return [one for one in self._find(current).skills if current.reading.settings.offers_skill(one.name)]

    def forget(self) -> None:
        """Deactivate all skills, and reset per-conversation state of their tools."""
        self._in_use = SkillsInUse()
        if self._brought is not None:
            self._brought.forget()

    async def use(self, skill: Skill) -> _UsedSkill:
        """Activate a skill and the tools it provides. Engine loop only."""
        names, problems = await self._load_tools(skill)
        self._in_use = self._in_use.having(skill, names)
        self._tool_problems += problems
        return _UsedSkill(loaded_text(skill, _files_of(skill)), problems)

    async def _load_skill(self, skill: Skill) -> str:
        used = await self.use(skill)
        return "\n".join([used.text, *used.problems])

    async def _load_tools(self, skill: Skill) -> tuple[Sequence[str], Sequence[str]]:
        """Execute the skill's tool files on the main thread. Returns the names of the tools, and any problems."""
        look, options = self._look, self._options
        if look is None or self._only_reads or not (skill.folder / TOOLS_FOLDER).is_dir():
            return (), ()
        if self._brought is None:
            with without_working_folder(), without_collections():
                from vibe_jupyter.app.custom_tools import ToolsOfSkills

            self._brought = ToolsOfSkills()
        brought = self._brought
        return await self._parts.kernel.main_thread.call(lambda: brought.load(skill, look, options))

    def _find(self, current: CurrentSettings) -> FoundSkills:
        beside = (current, Path.home())
        kept = self._found.standing(beside)
        if kept is not None:
            return kept
        named = _named_folders(current, of_project=False)
        named = [current.home / Path(path).expanduser() for path in named]
        own = [current.home / SKILLS, Path.home() / SHARED_FOLDER / SKILLS]
        stamps = stamp_files(path for folder in (*named, *own) for path in _watched_paths(folder))

        def read() -> FoundSkills:
            problems: list[str] = []
            found = self._reader.find(_skill_files(current, named, own, problems))
            return found._replace(problems=(*problems, *found.problems))

        return self._found.get(stamps, beside, read)


class _SlashHooks:
    """Run hooks that insert a skill before the user's prompt, and show its description."""

    def __init__(self, skills: KernelSkills, skill: Skill, others: RunHooks | None) -> None:
        self._skills = skills
        self._skill = skill
        self._others = others

    async def begin(self, hook_context: HookContext) -> PreparedPrompt:
        emit = hook_context.call_context.emit
        headline = Headline(verb="Loaded", doing="Loading", asking="Load", target=self._skill.name, note="a skill")
        step = ToolStep(SkillTool.name, headline)
        await emit(step.started())
        used = await self._skills.use(self._skill)
        shown = {"text/markdown": self._skill.body}
        await emit(step.finished("ok", self._skill.description, display={**shown}))
        for problem in used.problems:
            await emit(Notice(level="warning", text=problem))
        prepared = PreparedPrompt() if self._others is None else await self._others.begin(hook_context)
        text = f"{used.text}\nThe user calls this skill with the words that follow."
        return prepared._replace(before=(TextPart(text=text), *prepared.before))

    async def end(self) -> None:
        if self._others is not None:
            await self._others.end()


def _spellings(name: str) -> Sequence[str]:
    return (*OTHER_NAMES.get(name, ()), *_OTHER_SPELLINGS.get(name, ()))


def _named_folders(current: CurrentSettings, *, of_project: bool) -> list[str]:
    """Return the folders in `skill_paths`, either the project's or the user's."""
    named = current.reading.tree.table.get("skill_paths")
    items = named.items if named is not None else ()
    return [str(one.value) for one in items if (one.origin.layer == "project") is of_project]


def _watched_paths(folder: Path) -> Iterator[Path]:
    """Yield the paths whose stamps change when a skill in the folder is added, removed or edited."""
    yield folder
    with contextlib.suppress(OSError):
        for one in sorted(folder.iterdir()):
            yield one
            yield one / FILE_NAME


def _skill_files(
    current: CurrentSettings, named: Sequence[Path], own: Sequence[Path], problems: list[str]
) -> Iterator[SkillFile]:
    """Yield skill files in order of precedence: named folders, the project, the user's own folders."""
    seen: set[Path] = set()
    for path in named:
        yield from _files_once(path, seen, problems, is_named=True)
    inside = _named_folders(current, of_project=True)
    yield from _project_files(current.look, [*inside, f"{PROJECT_FOLDER}/{SKILLS}", f"{SHARED_FOLDER}/{SKILLS}"])
    for path in own:
        yield from _files_once(path, seen, problems)


def _files_once(path: Path, seen: set[Path], problems: list[str], *, is_named: bool = False) -> Iterator[SkillFile]:
    """Yield the skills in a folder once. A named folder that is missing is reported as a problem."""
    resolved = path.resolve()
    if resolved not in seen and (is_named or path.is_dir()):
        seen.add(resolved)
        yield from skill_files(path, "skill_paths" if is_named else "user", problems)


def _project_files(look: FolderLook, folders: Sequence[str]) -> Iterator[SkillFile]:
    """Yield the skills of a trusted project with their contents as of the trust check."""
    for folder in dict.fromkeys(Path(os.path.normpath(look.folder / one)) for one in folders):
        for name, content in look.files.items():
            path = look.folder / name
            if path.name == FILE_NAME and path.parent.parent == folder:
                yield SkillFile(path, content, "project")


def _files_of(skill: Skill) -> list[str]:
    """List the files of a skill other than its SKILL.md, by path relative to its folder."""
    found: list[str] = []
    for root, folders, files in os.walk(skill.folder):
        folders[:] = sorted(name for name in folders if not name.startswith((".", "__")))
        names = [Path(root, name).relative_to(skill.folder).as_posix() for name in sorted(files) if name[0] != "."]
        found += [name for name in names if name != FILE_NAME]
        if len(found) >= MOST_FILES:
            break
    return found[:MOST_FILES]
