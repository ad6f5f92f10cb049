"""Parser for SKILL.md: YAML frontmatter between lines of dashes, then the instructions.

All scalars are read as strings, so YAML's types, dates and tags don't matter. Duplicate keys are reported, and the
first one counts.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from vibe_jupyter.errors import ConfigError
from vibe_jupyter.lazy_patterns import lazy_pattern
from vibe_jupyter.safe_imports import without_working_folder
from vibe_jupyter.skills.skill import Skill, SkillOrigin

if TYPE_CHECKING:
    import yaml

YamlValue = str | list["YamlValue"] | dict[str, "YamlValue"]

LONGEST_NAME: Final = 64
LONGEST_DESCRIPTION: Final = 1_024
LONGEST_COMPATIBILITY: Final = 500  # characters, limits of the Agent Skills format
LARGEST_FRONTMATTER: Final = 16_384  # characters
_NAME: Final = lazy_pattern(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_DASHES: Final = lazy_pattern(r"^-{3,}[ \t]*\r?$", re.MULTILINE)
# Comment lines that may precede the frontmatter, such as the file's path.
_COMMENTS: Final = lazy_pattern(r"(?:[ \t]*(?:#[^\n]*)?\r?\n)*[ \t]*")
_YES: Final = frozenset({"true", "yes", "on"})
_NO: Final = frozenset({"false", "no", "off"})  # boolean words of YAML 1.1


class ReadSkill(NamedTuple):
    """A valid skill, with warnings about its file."""

    skill: Skill
    warnings: tuple[str, ...] = ()


def read_skill(content: bytes, path: Path, origin: SkillOrigin = "user") -> ReadSkill:
    """Parse a SKILL.md.

    Raises:
        ConfigError: It isn't a valid skill; the message says why.
    """
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ConfigError("is not UTF-8 text") from None
    before, *rest = _DASHES.split(text, 2)
    if not _COMMENTS.fullmatch(before) or len(rest) < 2:
        raise ConfigError("does not begin with frontmatter between two lines of at least three dashes")
    fields, warnings = _parse_fields(rest[0])
    skill = Skill(
        name=_name_of(fields),
        description=_text_of(fields, "description", LONGEST_DESCRIPTION, required=True),
        path=path,
        body=rest[1].strip(),
        origin=origin,
        license=_text_of(fields, "license"),
        compatibility=_text_of(fields, "compatibility", LONGEST_COMPATIBILITY),
        metadata=_metadata_of(fields),
        allowed_tools=_allowed_tools(fields),
        user_invocable=_switch_of(fields, "user-invocable", default=True),
    )
    if skill.name != skill.folder.name:
        warnings.append(f"is called {skill.name}, and its folder {skill.folder.name}; they should be the same")
    return ReadSkill(skill, tuple(warnings))


def _parse_fields(text: str) -> tuple[dict[str, YamlValue], list[str]]:
    if len(text) > LARGEST_FRONTMATTER:
        raise ConfigError(f"has a frontmatter of more than {LARGEST_FRONTMATTER:,} characters")
    with without_working_folder():
        import yaml  # noqa: PLC0415 - 20 ms, and most folders have no skills of their own

    plain = _PlainValues()
    try:
        node = yaml.BaseLoader(text).get_single_node()
        fields = plain.of(node) if isinstance(node, yaml.MappingNode) else None
    except yaml.MarkedYAMLError as error:
        where = f" (line {error.problem_mark.line + 1})" if error.problem_mark is not None else ""
        raise ConfigError(f"has a frontmatter that is not YAML: {error.problem}{where}") from None
    except yaml.YAMLError:  # for example characters that YAML doesn't allow
        raise ConfigError("has a frontmatter that is not YAML") from None
    except RecursionError:
        raise ConfigError("has a frontmatter that is nested too deeply") from None
    if fields is None:
        raise ConfigError("has a frontmatter that is no YAML mapping of keys to values")
    return cast("dict[str, YamlValue]", fields or {}), plain.warnings


class _PlainValues:
    """Conversion of YAML nodes to strings, lists and mappings."""

    def __init__(self) -> None:
        self.warnings: list[str] = []  # one per duplicate key
        self._seen: set[int] = set()

    def of(self, node: "yaml.Node") -> YamlValue:
        """Convert a node.

        Raises:
            ConfigError: The node uses an alias. A few aliases can expand to a value of any size.
        """
        value: object = node.value
        if isinstance(value, str):
            return value
        if id(node) in self._seen:
            raise ConfigError("uses a YAML alias (*), which is not taken in a frontmatter")
        self._seen.add(id(node))
        items = cast("list[yaml.Node | tuple[yaml.Node, yaml.Node]]", value)
        found: dict[str, YamlValue] = {}
        listed: list[YamlValue] = []
        for item in items:
            if isinstance(item, tuple):
                self._add_field(found, *item)
            else:
                listed.append(self.of(item))
        return found or listed

    def _add_field(self, found: dict[str, YamlValue], key_node: "yaml.Node", value: "yaml.Node") -> None:
        key = _as_text(self.of(key_node))
        if key in found:
            line = key_node.start_mark.line + 1
            self.warnings.append(f"has the key {key} more than once (line {line}); the first one holds")
        else:
            found[key] = self.of(value)


def _as_text(value: YamlValue) -> str:
    return value if isinstance(value, str) else str(value)


def _name_of(fields: Mapping[str, YamlValue]) -> str:
    name = _text_of(fields, "name", LONGEST_NAME, required=True)
    if _NAME.fullmatch(name) is None:
        raise ConfigError(f"has the name {name!r}; a name is lower-case letters, digits and single inner hyphens")
    return name


def _text_of(fields: Mapping[str, YamlValue], key: str, longest: int = 0, *, required: bool = False) -> str:
    """Return a text field, or "" if it is missing. `longest` limits its characters; 0 means no limit."""
    value = fields.get(key, "")
    if not isinstance(value, str):
        raise ConfigError(f"has a {key} that is no text")
    text = value.strip()
    if required and not text:
        raise ConfigError(f"has no {key}")
    if longest and len(text) > longest:
        raise ConfigError(f"has a {key} of {len(text):,} characters; the limit is {longest:,}")
    return text


def _metadata_of(fields: Mapping[str, YamlValue]) -> dict[str, str]:
    value = fields.get("metadata") or {}
    if not isinstance(value, dict):
        raise ConfigError("has metadata that is no mapping")
    return {key: _as_text(item) for key, item in value.items()}


def _allowed_tools(fields: Mapping[str, YamlValue]) -> tuple[str, ...]:
    value = fields.get("allowed-tools", "")
    named = _split_names(value) if isinstance(value, str) else value
    if isinstance(named, dict) or not all(isinstance(name, str) for name in named):
        raise ConfigError("has allowed-tools that are neither a list of names nor names with blanks between them")
    return tuple(name for name in map(str, named) if name.strip())


def _split_names(text: str) -> list[str]:
    """Split at blanks and commas outside parentheses: ``Bash(git add:*) Read``."""
    return re.findall(r"(?:[^\s,()]|\([^)]*\)?)+", text)


def _switch_of(fields: Mapping[str, YamlValue], key: str, *, default: bool) -> bool:
    word = _text_of(fields, key).casefold()
    if word and word not in _YES | _NO:
        raise ConfigError(f"has {key} = {word!r}; it is true or false")
    return word in _YES if word else default
