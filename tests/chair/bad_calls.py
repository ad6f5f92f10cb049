"""Calls as models get them wrong, as data: what was there before, the call, and what the mended call's result says.

In arguments and wants, ``$c1`` is the id of the case's first cell, ``$w1`` that id with a slip, ``$p1`` its place and
``$n1`` its execution count when the case began.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

UserDoes = tuple[str, int, str]
"""Something the user does while the agent works: the word, a cell of the case, a text."""


@dataclass(frozen=True)
class BadCall:
    """One wrong call."""

    kind: str
    name: str
    """Of the tool, as the model writes it."""
    arguments: str
    """As the model writes them, which need be no JSON."""
    wants: str
    """Part of the result once the call is mended."""
    cells: tuple[str, ...] = ()
    """Sources; they have run."""
    before: tuple[tuple[str, str], ...] = ()
    """Good calls of the same run, before it."""
    user: tuple[UserDoes, ...] = ()
    """What the user does between those and the bad call."""
    files: Mapping[str, str] = field(default_factory=dict[str, str])
    tool: str = ""
    """That the mended call goes to; empty for the one that is named."""
    needs_user: bool = False
    """Whether the mended call is sound and is refused all the same, since nobody is here to answer it."""


TWO: Final = ("rate = 0.19", "net = 100 * rate")
THREE: Final = (*TWO, "print(net)")
READ: Final = (("read_notebook", '{"cells": ["$c1", "$c2"]}'),)
READ_ALL: Final = (("read_notebook", '{"cells": ["$c1", "$c2", "$c3"]}'),)
NOTES: Final = {"notes.txt": "alpha = 1\nbeta = 2\ngamma = 3\nbeta = 2\ncorrection = 100\n"}
READ_NOTES: Final = (("read_file", '{"path": "notes.txt"}'),)
A_FACT: Final = (("memory", '{"operation": "add", "content": "Prices are net."}'),)

WRONG_ID: Final = (
    BadCall("wrong id", "read_notebook", '{"cells": ["$w1"]}', "rate = 0.19", TWO),
    BadCall("wrong id", "edit_cell", '{"cell": "$w1", "old_string": "0.19", "new_string": "0.2"}', "edited $p1", TWO),
    BadCall("wrong id", "insert_cell", '{"source": "tax = 1", "after": "$w1"}', "inserted", TWO),
    BadCall("wrong id", "delete_cells", '{"cells": ["$w2"]}', "deleted", TWO, READ),
    BadCall("wrong id", "move_cells", '{"cells": ["$c2"], "after": "$w1"}', "moved", THREE, READ_ALL),
    BadCall("wrong id", "run_cells", '{"cells": ["$w1"]}', "$p1", TWO),
    BadCall("wrong id", "run_cells", '{"cells": ["$c1", "$w2"]}', "2 of 2", TWO),
    BadCall("wrong id", "run_cells", '{"cells": ["below:$w1"]}', "2 of 2", THREE),
    BadCall("wrong id", "run_cells", '{"cells": ["2"]}', "#2", ()),
    BadCall("wrong id", "verify_notebook", '{"until": "$w1"}', "ran from the top", TWO),
    BadCall("wrong id", "read_notebook", '{"cells": ["#99"]}', "", ()),
    BadCall("wrong id", "run_cells", '{"cells": ["[999]"]}', "ok", TWO),
    BadCall(
        "wrong id",
        "edit_cell",
        '{"cell": "[7]", "old_string": "rate", "new_string": "rates"}',
        "edited",
        TWO,
        user=(("number", 1, "7"), ("number", 2, "7")),
    ),
    BadCall("wrong id", "memory", '{"operation": "get", "memory_id": "mem_0"}', "Prices are net", before=A_FACT),
    BadCall("wrong id", "memory", '{"operation": "forget", "memory_id": "prices"}', "", before=A_FACT),
    BadCall("wrong id", "read_file", '{"path": "note.txt"}', "alpha", files=NOTES),
    BadCall("wrong id", "read_file", '{"path": "."}', "alpha", files=NOTES),
    BadCall("wrong id", "grep", '{"pattern": "beta", "path": "nots.txt"}', "beta", files=NOTES),
    BadCall(
        "wrong id",
        "search_replace",
        '{"file_path": "note.txt", "content": "<<<<<<< SEARCH\\nalpha = 1\\n=======\\nalpha = 2\\n>>>>>>> REPLACE"}',
        "",
        before=READ_NOTES,
        files=NOTES,
    ),
    BadCall("wrong id", "inspect", '{"names": ["flat"]}', "flats"),
)
STALE: Final = (
    BadCall("stale text", "edit_cell", '{"cell": "$c1", "source": "rate = 0.2"}', "edited $p1", TWO),
    BadCall(
        "stale text",
        "edit_cell",
        '{"cell": "$c1", "source": "rate = 0.2"}',
        "edited $p1",
        TWO,
        READ,
        (("edit", 1, "rate = 0.07"),),
    ),
    BadCall(
        "stale text",
        "edit_cell",
        '{"cell": "$c2", "old_string": "net = 100*rate", "new_string": "net = 90 * rate"}',
        "edited $p2",
        TWO,
        READ,
    ),
    BadCall(
        "stale text",
        "edit_cell",
        '{"cell": "$c2", "old_string": "net = 110 * rate", "new_string": "net = 90 * rate"}',
        "edited $p2",
        TWO,
        READ,
    ),
    BadCall(
        "stale text",
        "edit_cell",
        '{"cell": "$c1", "old_string": "x = 1", "new_string": "x = 2"}',
        "edited $p1",
        ("x = 1\ny = 2\nx = 1",),
        (("read_notebook", '{"cells": ["$c1"]}'),),
    ),
    BadCall("stale text", "delete_cells", '{"cells": ["$c1"]}', "deleted", TWO),
    BadCall("stale text", "run_cells", '{"cells": ["$c2"]}', "$p2", TWO, READ, (("edit", 2, "net = 2"),)),
    BadCall(
        "stale text",
        "search_replace",
        '{"file_path": "notes.txt", "content": "<<<<<<< SEARCH\\ngamma = 33\\n=======\\ngamma = 4\\n>>>>>>> REPLACE"}',
        "notes.txt",
        before=READ_NOTES,
        files=NOTES,
    ),
    BadCall(
        "stale text",
        "search_replace",
        '{"file_path": "notes.txt", "content": "<<<<<<< SEARCH\\nbeta = 2\\n=======\\nbeta = 4\\n>>>>>>> REPLACE"}',
        "notes.txt",
        before=READ_NOTES,
        files=NOTES,
    ),
    BadCall(
        "stale text",
        "search_replace",
        '{"file_path": "notes.txt", "content": '
        '"<<<<<<< SEARCH\\ncorrection = 100\\n=======\\ncorrection = 90\\n>>>>>>> REPLACE"}',
        "notes.txt",
        before=READ_NOTES,
        user=(("write", 0, "alpha = 1\ncorrection = 110\n"),),
        files=NOTES,
    ),
    BadCall(
        "stale text", "write_file", '{"path": "plan.txt", "content": "new"}', "plan.txt", files={"plan.txt": "old"}
    ),
    BadCall(
        "stale text",
        "write_file",
        '{"path": "notes.txt", "content": "new", "overwrite": true}',
        "notes.txt",
        before=READ_NOTES,
        user=(("write", 0, "alpha = 6\n"),),
        files=NOTES,
    ),
)
MOVED: Final = (
    BadCall(
        "number after a move",
        "edit_cell",
        '{"cell": "$p1", "old_string": "0.19", "new_string": "0.2"}',
        "edited",
        TWO,
        READ,
        (("down", 1, ""),),
    ),
    BadCall(
        "number after a move",
        "edit_cell",
        '{"cell": "$p2", "source": "net = 1"}',
        "edited",
        THREE,
        READ_ALL,
        (("delete", 1, ""),),
    ),
    BadCall(
        "number after a move", "delete_cells", '{"cells": ["$p2"]}', "deleted", THREE, READ_ALL, (("down", 1, ""),)
    ),
    BadCall("number after a move", "run_cells", '{"cells": ["$n1"]}', "ok", TWO, READ, (("number", 1, "77"),)),
    BadCall("number after a move", "run_cells", '{"cells": ["$p1-$p2"]}', "ok", THREE, READ_ALL, (("down", 1, ""),)),
    BadCall("number after a move", "read_notebook", '{"cells": ["$n1"]}', "", TWO, READ, (("number", 1, "77"),)),
)
TYPES: Final = (
    BadCall("wrong type", "run_cells", '{"cells": ["$c1"], "timeout": "ten"}', "$p1", TWO),
    BadCall("wrong type", "run_code", '{"code": "6 * 7", "keep": "maybe"}', "42"),
    BadCall("wrong type", "read_notebook", '{"offset": "first"}', "cells"),
    BadCall("wrong type", "read_notebook", '{"state": "broken"}', "cells"),
    BadCall("wrong type", "read_notebook", '{"cells": ["$c1"], "outputs": "all"}', "rate", TWO),
    BadCall("wrong type", "insert_cell", '{"source": "text", "cell_type": "text"}', "inserted"),
    BadCall("wrong type", "checkpoint", '{"action": "lists"}', ""),
    BadCall("wrong type", "inspect", '{"names": {"name": "flats"}}', ""),
    BadCall("wrong type", "todo", '{"todos": [{"content": "look", "status": "done"}]}', "look"),
    BadCall("wrong type", "todo", '{"todos": ["look", "write"]}', "look"),
    BadCall("wrong type", "memory", '{"operation": "remember", "content": "Prices are net."}', "", before=A_FACT),
    BadCall(
        "wrong type",
        "edit_cell",
        '{"cell": "$c1", "old_string": "1", "new_string": "2", "run": "later"}',
        "edited",
        ("a = 1",),
    ),
    BadCall(
        "wrong type",
        "ask_user_question",
        '{"questions": [{"question": "Gross or net?", "options": [1, 2]}]}',
        "Nobody is here",
        needs_user=True,
    ),
)
IN_A_STRING: Final = (
    BadCall("JSON in a string", "read_notebook", r'{"cells": "[\"$c1\"]"}', "rate = 0.19", TWO),
    BadCall("JSON in a string", "run_cells", r'"{\"cells\": [\"$c1\"]}"', "$p1", TWO),
    BadCall("JSON in a string", "todo", r'{"todos": "[{\"content\": \"look\"}]"}', "look"),
    BadCall("JSON in a string", "run_code", """{'code': '6 * 7'}""", "42"),
    BadCall("JSON in a string", "run_code", '{"code": "6 * 7",}', "42"),
    BadCall("JSON in a string", "run_code", '{"code": "6 * 7"', "42"),
    BadCall("JSON in a string", "run_code", '```json\n{"code": "6 * 7"}\n```', "42"),
    BadCall("JSON in a string", "run_code", '{"code": "a = 6\nprint(a * 7)"}', "42"),
)
PREFIX: Final = (
    BadCall("prefix", "functions.run_code", '{"code": "6 * 7"}', "42"),
    BadCall("prefix", "RUN_CODE", '{"code": "6 * 7"}', "42"),
    BadCall("prefix", "default_api.run_code", '{"code": "6 * 7"}', "42", tool="run_code"),
)
UNKNOWN_TOOL: Final = (
    BadCall("unknown tool", "list_variables", "{}", "flats", tool="inspect"),
    BadCall("unknown tool", "run_cell", '{"cells": ["$c1"]}', "$p1", TWO, tool="run_cells"),
    BadCall("unknown tool", "read_cells", '{"cells": ["$c1"]}', "rate", TWO, tool="read_notebook"),
    BadCall("unknown tool", "python", '{"code": "6 * 7"}', "42", tool="run_code"),
    BadCall("unknown tool", "shell", '{"command": "echo hello"}', "hello", tool="bash"),
    BadCall("unknown tool", "create_file", '{"path": "new.txt", "content": "hello"}', "new.txt", tool="write_file"),
    BadCall("unknown tool", "search", '{"pattern": "beta"}', "beta", files=NOTES, tool="grep"),
)
UNKNOWN_ARGUMENT: Final = (
    BadCall("unknown argument", "run_code", '{"cod": "6 * 7"}', "42"),
    BadCall("unknown argument", "skill", '{"skill": "tidy-notebook"}', "tidy"),
    BadCall("unknown argument", "task", '{"prompt": "look", "agent": "explore"}', "", needs_user=True),
    BadCall("unknown argument", "run_cells", '{"cell": "$c1"}', "$p1", TWO),
    BadCall("unknown argument", "edit_cell", '{"cell": "$c1", "new_source": "rate = 0.2"}', "edited", TWO, READ),
    BadCall("unknown argument", "insert_cell", '{"content": "tax = 1"}', "inserted"),
    BadCall("unknown argument", "insert_cell", '{"source": "tax = 1", "position": 3}', "inserted"),
    BadCall("unknown argument", "read_file", '{"file_path": "notes.txt"}', "alpha", files=NOTES),
    BadCall("unknown argument", "bash", '{"cmd": "echo hello"}', "hello"),
    BadCall("unknown argument", "grep", '{"query": "beta"}', "beta", files=NOTES),
    BadCall("unknown argument", "inspect", '{"variable": "flats"}', "flats"),
    BadCall("unknown argument", "checkpoint", '{"action": "list", "runs": 1}', ""),
    BadCall("unknown argument", "verify_notebook", '{"untill": "$c1"}', "", needs_user=True),
    BadCall("unknown argument", "move_cells", '{"cells": ["$c1"], "to": "end"}', "moved", TWO, READ),
)
UNKNOWN_COLUMN: Final = (
    BadCall("unknown column", "inspect", '{"names": ["flats"], "columns": ["prise"]}', "price"),
    BadCall("unknown column", "inspect", """{"names": ["flats['prise']"]}""", "price"),
    BadCall("unknown column", "run_code", """{"code": "flats['prise'].sum()"}""", "6.75"),
    BadCall("unknown column", "run_code", """{"code": "flats.groupby('citty')['price'].sum()"}""", "Bern"),
    BadCall("unknown column", "run_code", '{"code": "config[\\"alfa\\"] + 1"}', "1.1"),
    BadCall("unknown column", "run_code", '{"code": "flat.shape"}', "3"),
    BadCall("unknown column", "run_code", '{"code": "flats.prices.sum()"}', "6.75"),
)
SYNTAX: Final = (
    BadCall("SyntaxError", "run_code", '{"code": "print((6 * 7)"}', "42"),
    BadCall("SyntaxError", "run_code", '{"code": "for n in range(3)\\n    print(n)"}', "2"),
    BadCall("SyntaxError", "run_code", '{"code": "print \\"hello\\""}', "hello"),
    BadCall("SyntaxError", "insert_cell", '{"source": "text = \\"hello", "run": true}', "inserted"),
    BadCall("SyntaxError", "insert_cell", '{"source": "def double(x):\\nreturn 2 * x"}', "inserted"),
    BadCall("SyntaxError", "insert_cell", '{"source": "pairs = [1, 2 3]"}', "inserted"),
    BadCall(
        "SyntaxError", "edit_cell", '{"cell": "$c1", "source": "if rate = 0.19:\\n    rate = 0.2"}', "edited", TWO, READ
    ),
    BadCall(
        "SyntaxError",
        "edit_cell",
        '{"cell": "$c1", "old_string": "rate = 0.19", "new_string": "  rate = 0.2"}',
        "edited",
        TWO,
        READ,
    ),
)
EMPTY: Final = (
    BadCall("empty", "run_code", "{}", ""),
    BadCall("empty", "run_code", '{"code": ""}', ""),
    BadCall("empty", "edit_cell", '{"cell": "$c1"}', "", TWO, READ),
    BadCall("empty", "edit_cell", '{"cell": "$c1", "old_string": "", "new_string": "rate = 0.2"}', "", TWO, READ),
    BadCall("empty", "move_cells", '{"cells": ["$c1"]}', "moved", TWO, READ),
    BadCall("empty", "write_file", '{"path": "draft.txt"}', "draft.txt"),
    BadCall("empty", "bash", '{"command": ""}', ""),
    BadCall("empty", "ask_user_question", '{"questions": []}', "Nobody is here", needs_user=True),
    BadCall("empty", "memory", '{"operation": "add"}', "", before=A_FACT),
)
TOO_BIG: Final = (
    BadCall("too big", "run_code", '{"code": "6 * 7", "timeout": 999999}', "42"),
    BadCall("too big", "inspect", '{"names": ["flats"], "rows": 100000}', "flats"),
    BadCall("too big", "write_file", f'{{"path": "big.txt", "content": "{"x" * 70_000}"}}', "big.txt"),
    BadCall(
        "too big", "todo", f'{{"todos": [{", ".join(["{}"] * 120)}]}}'.replace("{}", '{"content": "step"}'), "step"
    ),
    BadCall("too big", "memory", f'{{"operation": "add", "content": "{"net " * 700}"}}', "", before=A_FACT),
    BadCall("too big", "read_notebook", '{"query": "rate["}', "none match", TWO),
    BadCall("too big", "grep", '{"pattern": "beta("}', "match_count: 0", files=NOTES),
)
BAD_CALLS: Final = (
    *WRONG_ID,
    *STALE,
    *MOVED,
    *TYPES,
    *IN_A_STRING,
    *PREFIX,
    *UNKNOWN_TOOL,
    *UNKNOWN_ARGUMENT,
    *UNKNOWN_COLUMN,
    *SYNTAX,
    *EMPTY,
    *TOO_BIG,
)
