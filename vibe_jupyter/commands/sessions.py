"""Output of `%vibe sessions`, `delete`, `export` and `history`, and the session table of the command line."""

import builtins
import contextlib
import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Final

from IPython.core.error import StdinNotImplementedError

from vibe_jupyter.errors import ConfigError
from vibe_jupyter.files.shown_names import decodable_name
from vibe_jupyter.session.export import as_json, as_markdown
from vibe_jupyter.session.journal import read_journal
from vibe_jupyter.session.store import SavedSession, unique_ids

if TYPE_CHECKING:
    from vibe_jupyter.app.sessions import KernelSessions

LISTED: Final = 30  # conversations listed in a notebook
_TITLE: Final = 48
_PLACE: Final = 28  # characters of a column
_PROMPT: Final = 100
_SUFFIXES: Final = (".md", ".markdown", ".json")
_MINUTE, _HOUR, _DAY = 60, 3600, 86400


def list_command(sessions: "KernelSessions", *, everywhere: bool) -> str:
    """Run `%vibe sessions`. Returns the text to print."""
    known = sessions.saved.store.sessions()
    if not known:
        return "No conversation is saved yet."
    present = sessions.conversation.id if sessions.conversation is not None else ""
    folder = decodable_name(sessions.saved.place().folder)
    here = [one for one in known if everywhere or (folder and one.folder == folder) or one.id == present]
    others = len(known) - len(here)
    lines = [session_table(here[:LISTED], known, present=present)] if here else ["None of this folder."]
    if len(here) > LISTED:
        lines.append(f"And {len(here) - LISTED} earlier ones; `vibe-jupyter sessions` lists all.")
    if others:
        lines.append(f"{others} of other folders: %vibe sessions all")
    lines.append("%vibe resume ID continues one.")
    return "\n".join(lines)


def session_table(listed: Sequence[SavedSession], known: Sequence[SavedSession], *, present: str = "") -> str:
    """Format conversations as lines of id, age, messages, cost, notebook or folder, and title.

    Args:
        listed: The conversations to show.
        known: All conversations, among which the shortened ids must be unique.
        present: Id of the open conversation, which is marked.
    """
    ids = unique_ids(known)
    width = max((len(ids[one.id]) for one in listed), default=0)
    rows = [f"  {'id':<{width}}  {'age':>8}  {'messages':>8}  {'cost':>7}  {'where':<{_PLACE}}  title"]
    for one in listed:
        cost = "" if one.cost is None else f"${one.cost:.2f}"
        mark = "*" if one.id == present else " "
        rows.append(
            f"{mark} {ids[one.id]:<{width}}  {age_of(one.ended):>8}  {one.messages:>8,}  {cost:>7}  "
            f"{_cut(place_of(one), _PLACE):<{_PLACE}}  {_cut(one.title, _TITLE)}"
        )
    return "\n".join(row.rstrip() for row in rows)


def delete_command(sessions: "KernelSessions", name: str, *, is_sure: bool) -> str:
    """Run `%vibe delete`, asking first unless `is_sure`. Returns the text to print."""
    found = sessions.saved.find(name)
    told = f"{found.title!r} ({found.short_id}, {found.messages:,} messages, {age_of(found.ended)} old)"
    if not is_sure:
        try:
            answer = builtins.input(f"Delete {told}? It cannot be brought back. [y/N] ")
        except StdinNotImplementedError:
            raise ConfigError(f"Nobody can be asked here. %vibe delete {found.short_id} yes deletes {told}.") from None
        except EOFError:
            answer = ""
        if answer.strip().lower() not in ("y", "yes"):
            return "Nothing was deleted."
    sessions.delete(found)
    return f"Deleted: {told}."


def export_command(sessions: "KernelSessions", words: Sequence[str]) -> str:
    """Run `%vibe export`. Returns the text to print."""
    name, file = "", ""
    for word in words:
        if PurePath(word).suffix.lower() in _SUFFIXES and not file:
            file = word
        elif not name:
            name = word
        else:
            raise ConfigError(f"%vibe export takes an id and a file that ends in .md or .json; {word!r} is neither.")
    found = sessions.saved.find(name) if name else sessions.present()
    path = Path(file or f"conversation-{found.short_id}.md").expanduser()
    contents = read_journal(sessions.saved.store.journal_of(found))
    text = (as_json if path.suffix.lower() == ".json" else as_markdown)(found, contents.events)
    try:
        with path.open("x", encoding="utf-8", errors="replace", newline="\n") as written:
            written.write(text)
    except FileExistsError:
        raise ConfigError(f"{path} exists already. Name another file.") from None
    except OSError as error:
        with contextlib.suppress(OSError):
            path.unlink()  # a partial file could be mistaken for a complete one
        raise ConfigError(f"Cannot write {path}: {error.strerror}. Name another file.") from error
    return f"Written: {path}, {os.path.getsize(path):,} bytes."


def history_command(sessions: "KernelSessions") -> str:
    """Run `%vibe history`. Returns the text to print."""
    prompts = sessions.conversation.prompts if sessions.conversation is not None else []
    if not prompts:
        return "No prompts yet in this conversation. %vibe resume continues an earlier one."
    width = len(str(len(prompts)))
    lines = [
        f"{number:>{width}}  {_cut(' '.join(prompt.split()), _PROMPT)}" for number, prompt in enumerate(prompts, 1)
    ]
    return "\n".join([*lines, "%vibe history N puts one into the next cell."])


def recall_command(sessions: "KernelSessions", number: int) -> str:
    """Run `%vibe history N`: put the prompt into the next cell."""
    prompts = sessions.conversation.prompts if sessions.conversation is not None else []
    if not 1 <= number <= len(prompts):
        there_are = f"There are {len(prompts)}." if prompts else "There are none yet."
        raise ConfigError(f"There is no prompt {number} in this conversation. {there_are}")
    sessions.shell.set_next_input(f"%%vibe\n{prompts[number - 1]}")
    return ""


def place_of(session: SavedSession) -> str:
    """Describe in which notebook or folder a conversation was held."""
    if session.is_foreign:
        return f"Mistral Vibe, {PurePath(session.folder).name}"
    if session.notebook:
        return PurePath(session.notebook).name
    try:
        return f"~/{PurePath(session.folder).relative_to(Path.home())}"
    except (ValueError, RuntimeError):
        return session.folder


def age_of(time: str) -> str:
    """Format the time since a timestamp."""
    try:
        seconds = (datetime.now(UTC) - datetime.fromisoformat(time)).total_seconds()
    except (ValueError, TypeError):
        return "?"
    if seconds < _MINUTE:
        return "now"
    if seconds < _HOUR:
        return f"{int(seconds // _MINUTE)} min"
    return f"{int(seconds // _HOUR)} h" if seconds < 2 * _DAY else f"{int(seconds // _DAY)} days"


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"
