"""Makes the next call after one that failed, from the schemas and the error's text alone.

It knows nothing of the notebook, the files or the case: only rules that hold for every tool.
"""

import ast
import difflib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

Arguments = dict[str, Any]
Following = tuple[str, str]
"""Name of a tool, and the text of its arguments."""

FILLER: Final = "pwd"
"""Stands where a text is required and nothing says which; sound in Python as IPython takes it, and in a shell."""
_PYTHON: Final[Mapping[str, tuple[type, ...]]] = {
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
}
_CLOSING: Final = {"(": ")", "[": "]", "{": "}"}
_QUOTED: Final = r"['\"`]?([^'\"`?]+?)['\"`]?"


@dataclass(frozen=True)
class Attempt:
    """A call that was made, and what was answered."""

    name: str
    arguments: str
    result: str
    failed: bool


@dataclass(frozen=True)
class Problem:
    """What there is to go by."""

    schemas: Mapping[str, Mapping[str, Any]]
    """Tool to the schema of its arguments."""
    name: str
    text: str
    """The arguments as they were sent."""
    arguments: Arguments | None
    """The same, read; None where they are no JSON object."""
    error: str
    earlier: Sequence[Attempt]

    @property
    def properties(self) -> Mapping[str, Mapping[str, Any]]:
        """Of the tool's arguments."""
        return self.schemas.get(self.name, {}).get("properties", {})

    @property
    def required(self) -> Sequence[str]:
        """Arguments that must be there."""
        return self.schemas.get(self.name, {}).get("required", ())

    def with_arguments(self, arguments: Arguments) -> Following:
        """The same tool again."""
        return self.name, json.dumps(arguments)


Rule = Callable[[Problem], Following | None]


def mend(tools: Sequence[Mapping[str, Any]], attempts: Sequence[Attempt]) -> Following | None:
    """The next call; None where nothing says what to do."""
    schemas = {tool["function"]["name"]: tool["function"]["parameters"] for tool in tools}
    *earlier, last = attempts
    if not last.failed:  # it was a look: now what was meant
        meant = earlier[-1]
        return meant.name, meant.arguments
    problem = Problem(schemas, last.name, last.arguments, _read_object(last.arguments), last.result, earlier)
    for rule in RULES:
        following = rule(problem)
        if following is not None and following not in [(one.name, one.arguments) for one in attempts[:-1]]:
            return following
    return None


def _read_object(text: str) -> Arguments | None:
    try:
        found = json.loads(text)
    except ValueError:
        return None
    return cast("Arguments", found) if isinstance(found, dict) else None


def _broken_json(problem: Problem) -> Following | None:
    """Python's spelling, commas too many, an end that is missing, a fence around it, line ends in a string."""
    if problem.arguments is not None:
        return None
    text = re.sub(r"^```\w*\n|\n```$", "", problem.text.strip())
    for candidate in (text, re.sub(r",\s*([}\]])", r"\1", text), text + "}", text + '"}', text.replace("\n", r"\n")):
        found = _read_object(candidate)
        if found is not None:
            return problem.with_arguments(found)
    try:
        found = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return None
    return problem.with_arguments(cast("Arguments", found)) if isinstance(found, dict) else None


def _other_tool(problem: Problem) -> Following | None:
    """The tool that is suggested, else the one whose arguments are named alike."""
    if "There is no tool" not in problem.error:
        return None
    hint = re.search(r"(?:Did you mean|It is called) (\w+)", problem.error)
    given = set(problem.arguments or ())

    def likeness(name: str) -> float:
        known, needed = set(problem.schemas[name].get("properties", ())), set(problem.schemas[name].get("required", ()))
        alike = difflib.SequenceMatcher(None, name, problem.name).ratio()
        return len(given & known) - len(given - known) - 2 * len(needed - given) + alike

    name = hint[1] if hint else max(problem.schemas, key=likeness)
    return name, problem.text


def _same_again(problem: Problem) -> Following | None:
    """What was refused for want of a look, with that look."""
    if re.search(r"send it again|call again|call still fits", problem.error):
        return problem.name, problem.text
    return None


def _corrected_list(problem: Problem) -> Following | None:
    """A value that the error spells out, such as ``cells=["a"]`` or ``overwrite=true``."""
    found = re.search(r"\b(\w+)=(\[[^\]]*\]|true|false|\d+)", problem.error)
    if found is None or problem.arguments is None or found[1] not in problem.properties:
        return None
    return problem.with_arguments({**problem.arguments, found[1]: json.loads(found[2])})


def _named_option(problem: Problem) -> Following | None:
    """An option that the error offers by name alone, such as ``or replace_all``."""
    for name, schema in problem.properties.items():
        if schema.get("type") == "boolean" and re.search(rf"\bor {name}\b", problem.error) and problem.arguments:
            return problem.with_arguments({**problem.arguments, name: True})
    return None


def _suggested_word(problem: Problem) -> Following | None:
    """``'x' … did you mean 'y'?``: y for x, wherever it stands."""
    wrong = re.search(
        r"['\"]([^'\"\n]+)['\"][^'\"\n]*?(?:did you mean|Did you mean:?) " + _QUOTED + r"\?", problem.error
    )
    if wrong is None or problem.arguments is None or "(...)" in wrong[2]:
        return None
    old, new = wrong[1], wrong[2].strip()
    if old in problem.arguments:
        return problem.with_arguments({new if key == old else key: value for key, value in problem.arguments.items()})
    changed = _replaced(problem.arguments, lambda text: re.sub(rf"(?<!\w){re.escape(old)}(?!\w)", lambda _: new, text))
    return problem.with_arguments(changed) if changed != problem.arguments else None


def _nearest_cell(problem: Problem) -> Following | None:
    """The cell that is named first, for the address that fits none."""
    named = re.search(r"(?:The nearest:|by its id:|shown under it is) #\d+ (\w+)", problem.error)
    wrong = re.search(r"(?:There is no cell|No cell carries|cells carry) ['\"]?([^'\";:,\s]+)['\"]?", problem.error)
    if named is None or wrong is None or problem.arguments is None:
        return None
    return problem.with_arguments(_replaced(problem.arguments, lambda text: text.replace(wrong[1], named[1])))


def _possible_place(problem: Problem) -> Following | None:
    """A place within the number of cells, or the spelling that is asked for."""
    if problem.arguments is None:
        return None
    if found := re.search(r"no cell (#\d+): the notebook has (\d+)", problem.error):
        wrong, last = found[1], f"#{found[2]}"
    elif found := re.search(r"say (#(\d+)) for a place", problem.error):
        wrong, last = found[2], found[1]
    else:
        return None
    return problem.with_arguments(_replaced(problem.arguments, lambda text: last if text == wrong else text))


def _nearest_lines(problem: Problem) -> Following | None:
    """A text that is nearly there, as it is there."""
    if problem.arguments is None:
        return None
    found = re.search(r"are nearest:\n(.*)", problem.error, re.DOTALL)
    old = problem.arguments.get("old_string")
    if found is not None and isinstance(old, str):
        size = old.count("\n") + 1
        lines = found[1].split("\n")
        parts = ["\n".join(lines[place : place + size]) for place in range(len(lines) - size + 1)]
        near = max(parts, key=lambda part: difflib.SequenceMatcher(None, part, old).ratio())
        return problem.with_arguments({**problem.arguments, "old_string": near})
    return None


def _shown_difference(problem: Problem) -> Following | None:
    """Lines of which the error says how they really are (``-`` as sent, ``+`` as they are)."""
    body = problem.error.partition("@@\n")[2] or problem.error.partition("\n@@")[2].partition("\n")[2]
    gone = [line[1:] for line in body.splitlines() if line.startswith("-")]
    there = [line[1:] for line in body.splitlines() if line.startswith("+")]
    if not gone or not there or problem.arguments is None:
        return None
    old, new = "\n".join(gone), "\n".join(there)
    return problem.with_arguments(_replaced(problem.arguments, lambda text: text.replace(old, new, 1)))


def _shown_surroundings(problem: Problem) -> Following | None:
    """Of several places the first, with the lines around it that the error shows."""
    found = re.search(r"ambiguous.*?\n(?:line \d+.*?:\n)?((?: *\d+  .*\n?)+)", problem.error, re.DOTALL)
    block = re.search(
        r"<+ SEARCH\n(.*?)\n=+\n(.*?)\n>+ REPLACE", str((problem.arguments or {}).get("content")), re.DOTALL
    )
    if found is None or block is None or problem.arguments is None:
        return None
    shown = "\n".join(re.sub(r"^ *\d+  ", "", line) for line in found[1].rstrip("\n").split("\n"))
    content = f"<<<<<<< SEARCH\n{shown}\n=======\n{shown.replace(block[1], block[2], 1)}\n>>>>>>> REPLACE"
    return problem.with_arguments({**problem.arguments, "content": content})


def _unknown_arguments(problem: Problem) -> Following | None:
    """One that does not exist becomes the one that is missing, or one of its kind that is free, or goes."""
    unknown = re.findall(r"there is no argument '(\w+)'(?:, did you mean '(\w+)'\?)?", problem.error)
    if not unknown or problem.arguments is None:
        return None
    arguments = dict(problem.arguments)
    missing = re.findall(r"(\w+): Field required", problem.error)
    for name, hint in unknown:
        value = arguments.pop(name)
        free = [one for one in problem.properties if one not in arguments]
        of_kind = [one for one in free if _fits(value, problem.properties[one])]
        for new in filter(None, (hint, *missing, *of_kind)):
            if new not in arguments:
                arguments[new] = value
                break
    return problem.with_arguments(arguments)


def _choices(problem: Problem) -> Following | None:
    """``give a and b, or c``: what was given goes where something is missing."""
    found = re.search(r"give (?:either )?([\w ]+?),? or (\w+)", problem.error)
    if found is None or problem.arguments is None or found[2] not in problem.properties:
        return None
    first = [name for name in found[1].split(" and ") if name in problem.properties]
    given = [problem.arguments[name] for name in first if problem.arguments.get(name)]
    arguments = {name: value for name, value in problem.arguments.items() if name not in first}
    if len(first) == 1:
        return problem.with_arguments({**arguments, first[0]: _filler(problem.properties[first[0]])})
    return problem.with_arguments({**arguments, found[2]: given[0] if given else FILLER})


def _limits(problem: Problem) -> Following | None:
    """Not more than the error allows."""
    if problem.arguments is None:
        return None
    arguments = dict(problem.arguments)
    if found := re.search(r"(\w+): Input should be (?:less|greater) than or equal to (\d+)", problem.error):
        arguments[found[1]] = int(found[2])
    elif found := re.search(r"(\w+): String should have at most (\d+) characters", problem.error):
        arguments[found[1]] = arguments[found[1]][: int(found[2])]
    elif found := re.search(r"(\w+) is too large: [\d,]+ bytes, and \w+ takes ([\d,]+)", problem.error):
        arguments[found[1]] = arguments[found[1]].encode()[: int(found[2].replace(",", ""))].decode("utf-8", "ignore")
    elif found := re.search(r"items are more than (\d+)", problem.error):
        for name, value in problem.arguments.items():
            if isinstance(value, list):
                arguments[name] = cast("list[Any]", value)[: int(found[1])]
    else:
        return None
    return problem.with_arguments(arguments)


def _wrong_types(problem: Problem) -> Following | None:
    """What is wrong becomes what the schema or the error names; what need not be there goes."""
    wrong = re.findall(r"([\w.]+): (?:Input|Value|String|List|Field)[^;.]*", problem.error)
    if not wrong or problem.arguments is None:
        return None
    arguments = json.loads(json.dumps(problem.arguments))
    for place in dict.fromkeys(wrong):
        message = re.search(rf"(?:[ :]){re.escape(place)}: ([^;]*?)(?:;|\. Nothing)", problem.error)
        _mend_value(arguments, place.split("."), problem, message[1] if message else "")
    return problem.with_arguments(arguments)


def _mend_value(arguments: Arguments, place: Sequence[str], problem: Problem, message: str) -> None:
    root = problem.schemas[problem.name]
    holder: Any = arguments
    schema: Mapping[str, Any] = root
    for step in place[:-1]:
        schema = _resolved(_schema_below(schema, step), root)
        below = holder[_key(step)]
        if _is_list_of_one(below, schema):
            below = holder[_key(step)] = [below]
        holder = below
    key = _key(place[-1])
    wanted = _resolved(_schema_below(schema, place[-1]), root)
    value = holder[key] if isinstance(key, int) or key in holder else None
    allowed = re.findall(r"'(\w+)'", message) if "Input should be '" in message else []
    if allowed:
        holder[key] = difflib.get_close_matches(str(value), allowed, 1, 0.0)[0]
    elif isinstance(key, int) or key in schema.get("required", ()):
        holder[key] = _converted(value, wanted, root)
    else:
        holder.pop(key, None)


def _is_list_of_one(value: object, schema: Mapping[str, Any]) -> bool:
    return schema.get("type") == "array" and not isinstance(value, list)


def _key(step: str) -> Any:
    return int(step) if step.isdecimal() else step


def _schema_below(schema: Mapping[str, Any], step: str) -> Mapping[str, Any]:
    return schema.get("items", {}) if step.isdecimal() else schema.get("properties", {}).get(step, {})


def _resolved(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Mapping[str, Any]:
    return root["$defs"][schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema


def _converted(value: Any, schema: Mapping[str, Any], root: Mapping[str, Any]) -> Any:
    kind = schema.get("type")
    if kind == "object" and not isinstance(value, dict):
        return {name: value or FILLER for name in schema.get("required", ())[:1]}
    if kind == "array" and not value:
        return [_converted(None, _resolved(schema.get("items", {}), root), root)]
    if kind == "string" and isinstance(value, dict):
        return str(next(iter(cast("Arguments", value).values()), FILLER))
    if kind == "string":
        return str(cast("object", value)) if value else _filler(schema)
    return cast("object", value)


def _filler(schema: Mapping[str, Any]) -> str:
    """The last word that the schema offers."""
    offered = re.search(r"(\w+) or (\w+)\.$", schema.get("description", ""))
    return offered[2] if offered else FILLER


def _required_first(problem: Problem) -> Following | None:
    """``add requires content``."""
    found = re.search(r"requires (\w+)", problem.error)
    if found is None or problem.arguments is None or found[1] not in problem.properties:
        return None
    return problem.with_arguments({**problem.arguments, found[1]: _filler(problem.properties[found[1]])})


def _known_id(problem: Problem) -> Following | None:
    """``There is no fact 'x'. Known: y.``"""
    found = re.search(r"There is no \w+ '([^']+)'\. Known: ([^\s,.]+)", problem.error)
    if found is None or problem.arguments is None:
        return None
    return problem.with_arguments(_replaced(problem.arguments, lambda text: found[2] if text == found[1] else text))


def _entry(problem: Problem) -> Following | None:
    """A folder's first file, where a file is wanted."""
    found = re.search(r"'([^']+)' is a folder, not a file\. It holds ([^\s,]+?)[.,]?(?:\s|$)", problem.error)
    if found is None or problem.arguments is None:
        return None
    return problem.with_arguments(_replaced(problem.arguments, lambda text: found[2] if text == found[1] else text))


def _plain_pattern(problem: Problem) -> Following | None:
    """A regular expression that is none is meant as text."""
    found = re.search(r"'(.+)' is not a valid regular expression", problem.error)
    if found is None or problem.arguments is None:
        return None
    changed = _replaced(problem.arguments, lambda text: re.escape(text) if text == found[1] else text)
    return problem.with_arguments(changed)


def _code(problem: Problem) -> Following | None:
    """The line at which Python's parser stopped, mended as its words say."""
    found = re.search(r"(?:SyntaxError|IndentationError)(?: in line \d+)?: ([^\n]+)", problem.error)
    if found is None or problem.arguments is None:
        return None
    for name in ("code", "source", "new_string"):
        if isinstance(code := problem.arguments.get(name), str):
            mended = mend_code(code, found[1], problem.error)
            if mended != code:
                return problem.with_arguments({**problem.arguments, name: mended})
    return None


def mend_code(code: str, message: str, error: str) -> str:
    """Code whose fault the parser named."""
    lines = code.split("\n")
    told = re.search(r"line (\d+)", error)
    at = min(int(told[1]), len(lines)) - 1 if told else len(lines) - 1
    if "expected ':'" in message:
        lines[at] += ":"
    elif "incomplete input" in message or "was never closed" in message:
        lines[-1] += "".join(_open_brackets(code))
    elif "unterminated string" in message:
        lines[at] += next((sign for sign in lines[at] if sign in "\"'"), "")
    elif "Missing parentheses" in message:
        lines[at] = re.sub(r"^(\s*)(\w+) (.*)$", r"\1\2(\3)", lines[at])
    elif "expected an indented block" in message:
        lines[at:] = [f"    {line}" for line in lines[at:]]
    elif "unexpected indent" in message:
        lines[at] = lines[at].lstrip()
    elif "forgot a comma" in message:
        lines[at] = re.sub(r"(\w) (\w)", r"\1, \2", lines[at], count=1)
    elif "'=='" in message:
        lines[at] = re.sub(r"(?<![=!<>])=(?!=)", "==", lines[at], count=1)
    return "\n".join(lines)


def _open_brackets(code: str) -> Iterator[str]:
    open_ones: list[str] = []
    for sign in code:
        if sign in _CLOSING:
            open_ones.append(_CLOSING[sign])
        elif open_ones and sign == open_ones[-1]:
            open_ones.pop()
    return reversed(open_ones)


def _end_of_block(problem: Problem) -> Following | None:
    """A marker that the error names is put at the end."""
    found = re.search(r"block is malformed|no SEARCH/REPLACE block", problem.error)
    content = (problem.arguments or {}).get("content")
    if found is None or not isinstance(content, str) or problem.arguments is None:
        return None
    return problem.with_arguments({**problem.arguments, "content": f"{content}\n>>>>>>> REPLACE"})


def _look_first(problem: Problem) -> Following | None:
    """Read what the error says to read."""
    path = next((value for name, value in (problem.arguments or {}).items() if "path" in name), None)
    if re.search(r"[Rr]ead (?:it|the file) again", problem.error) and path is not None:
        return "read_file", json.dumps({"path": path})
    return None


def _replaced(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list):
        return [_replaced(item, change) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {key: _replaced(item, change) for key, item in cast("dict[str, Any]", value).items()}
    return value


def _fits(value: object, schema: Mapping[str, Any]) -> bool:
    kind = schema.get("type")
    if kind == "array":
        return isinstance(value, list | str)
    return isinstance(value, _PYTHON.get(str(kind), ()))


RULES: Final[Sequence[Rule]] = (
    _broken_json,
    _other_tool,
    _unknown_arguments,
    _corrected_list,
    _same_again,
    _nearest_cell,
    _possible_place,
    _nearest_lines,
    _shown_difference,
    _shown_surroundings,
    _named_option,
    _code,
    _suggested_word,
    _known_id,
    _entry,
    _plain_pattern,
    _limits,
    _choices,
    _required_first,
    _end_of_block,
    _wrong_types,
    _look_first,
)
