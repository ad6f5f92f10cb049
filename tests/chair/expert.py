"""What the expert at the model's end knows: the text of its requests, and nothing else."""

import builtins
import io
import json
import keyword
import re
import tokenize
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from vibe_jupyter.testing import Call, ModelRequest, ScriptedAnswer, answer

LEAST = 4
"""Characters of a word from which on it must have been sent before it is used."""
CODE_ARGUMENTS = frozenset({"code", "source", "new_string", "old_string"})
_WORD = re.compile(r"[^\W\d]\w*|\d[\d_.]*")
Script = Generator[ScriptedAnswer, "Seen", None]
"""Answers one request after the other; ends where the job does."""


class NotInRequests(AssertionError):
    """The expert looked for something that no request told."""


@dataclass
class Seen:
    """All that was sent so far in one conversation."""

    requests: list[ModelRequest] = field(default_factory=list[ModelRequest])

    @property
    def text(self) -> str:
        """Every message and every schema."""
        last = self.requests[-1].body
        return "\n".join([*(message_text(one) for one in last["messages"]), json.dumps(last.get("tools", []))])

    @property
    def newest(self) -> str:
        """What came since the expert's last answer."""
        return "\n".join(message_text(one) for one in new_messages(self.requests[-1].messages))

    def find(self, pattern: str, *, newest: bool = False) -> str:
        """The first group of the last match in what was sent, else the whole match.

        Raises:
            NotInRequests: nothing matches.
        """
        found = list(re.finditer(pattern, self.newest if newest else self.text, re.MULTILINE))
        if not found:
            raise NotInRequests(f"no request told /{pattern}/")
        return found[-1][1 if found[-1].re.groups else 0]

    def find_all(self, pattern: str) -> list[str]:
        """The first groups of all matches, each once, in their order."""
        return list(dict.fromkeys(found[1] for found in re.finditer(pattern, self.text, re.MULTILINE)))


def cell_of(seen: Seen, *parts: str) -> str:
    """The id of the cell that was last told of with these words on its line, or on one of the lines below it.

    Raises:
        NotInRequests: no line has all of them.
    """
    known = found = ""
    for line in seen.text.splitlines():
        if ids := re.findall(r"#\d+ ([0-9a-f]{4,8})\b", line):
            known = ids[-1]
        elif line.startswith("<"):
            known = ""
        if known and all(part in line for part in parts):
            found = known
    if not found:
        raise NotInRequests(f"no request told of a cell with {parts}")
    return found


def new_messages(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those behind the last answer of the model."""
    last = max((place for place, one in enumerate(messages) if one.get("role") == "assistant"), default=-1)
    return messages[last + 1 :]


def message_text(message: Mapping[str, Any]) -> str:
    """The text of a message, without its pictures."""
    content: Any = message.get("content") or ""
    if isinstance(content, str):
        return content
    return "\n".join(part.get("text", "") for part in content)


def do(text: str, *calls: Call) -> ScriptedAnswer:
    """A sentence and calls."""
    return answer(text, calls)


@dataclass
class Expert:
    """Answers the requests of one prompt after another as its scripts say, and keeps what it had to invent."""

    libraries: Callable[[str], bool]
    """Whether a word is one of a library's."""
    seen: Seen = field(default_factory=Seen)
    failed: str = ""
    """Why the script could not go on."""
    invented: list[str] = field(default_factory=list[str])
    """Words of calls that no request had told."""
    _script: Script | None = None
    _own: set[str] = field(default_factory=set[str])

    def begin(self, script: Callable[[Seen], Script]) -> None:
        """Take the script of the next prompt."""
        self._script = script(self.seen)

    def reply(self, request: ModelRequest) -> ScriptedAnswer:
        """The next answer."""
        self.seen.requests.append(request)
        if self._script is None:
            return answer("Nobody asked.")
        try:
            given = next(self._script)
        except NotInRequests as error:
            self.failed = str(error)
            return answer(f"I cannot go on: {error}")
        except StopIteration:
            self.failed = f"one request more than the script has: {self.seen.newest[:300]}"
            return answer("I have said all.")
        told = self.seen.text
        for one in given.calls:
            self.invented.extend(self._not_told(one, told))
        return given

    def _not_told(self, call: Call, told: str) -> Iterator[str]:
        arguments = cast("dict[str, Any]", json.loads(call.arguments))
        for name, value in arguments.items():
            if isinstance(value, bool):
                continue
            for one in cast("list[object]", value if isinstance(value, list) else [value]):
                words = self._words_of_code(str(one), told) if name in CODE_ARGUMENTS else _WORD.findall(str(one))
                yield from (
                    f"{word} ({call.name}.{name})"
                    for word in words
                    if len(word) >= LEAST and word not in told and word not in self._own
                )

    def _words_of_code(self, code: str, told: str) -> Iterator[str]:
        """Names, numbers and texts of code that are neither Python's, a library's nor bound by the expert itself.

        What was told may be left out, so that no library need be imported for it.
        """
        try:
            tokens = list(tokenize.generate_tokens(io.StringIO(code).readline))
        except (tokenize.TokenError, IndentationError):
            yield from _WORD.findall(code)
            return
        self._own.update(_bound_names(tokens))
        for token in tokens:
            if token.type == tokenize.STRING and " " not in token.string:
                words = _WORD.findall(token.string)
                yield from (word for word in words if word not in told and not self.libraries(word))
            elif token.type == tokenize.NUMBER or (token.type == tokenize.NAME and self._is_new(token.string, told)):
                yield token.string

    def _is_new(self, word: str, told: str) -> bool:
        return word not in told and not self._is_common(word)

    def _is_common(self, word: str) -> bool:
        return keyword.iskeyword(word) or hasattr(builtins, word) or self.libraries(word)


def _bound_names(tokens: list[tokenize.TokenInfo]) -> Iterator[str]:
    """Names that are assigned, defined, imported, looped over or are parameters."""
    line: list[tokenize.TokenInfo] = []
    for token in tokens:
        if token.type != tokenize.NEWLINE:
            line.append(token)
            continue
        texts = [one.string for one in line]
        if texts[:1] in (["def"], ["import"], ["from"], ["for"], ["class"]):
            yield from (one.string for one in line if one.type == tokenize.NAME)
        elif "=" in texts:
            yield from (one.string for one in line[: texts.index("=")] if one.type == tokenize.NAME)
        yield from (texts[place - 1] for place, text in enumerate(texts) if text == "=" and place)
        yield from (texts[place + 1] for place, text in enumerate(texts[:-1]) if text in ("for", "as", "lambda"))
        line = []
