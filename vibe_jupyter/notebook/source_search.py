"""Lines of cells that match a regular expression, found in a process of its own.

A pattern of a model's can take for ever, in the search and already when it is compiled, and holds the interpreter all
that time: it can only be killed.
"""

import asyncio
import json
import re
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Sequence
from typing import Final

from vibe_jupyter.errors import ToolError

SECONDS: Final = 5.0
"""Given to one search."""
_PLAIN: Final = re.compile(r"[\w \t,;:=<>@#%&'\"/~`!-]*")
"""Patterns that mean themselves."""
_ESCAPE: Final = re.compile(r"\\.|\(\?P<")
"""Capitals here are no letters that somebody wrote."""
_WRONG: Final = "wrong"
_WORKER: Final = """
import json, re, sys
pattern, flags, sources = json.load(sys.stdin)
try:
    search = re.compile(pattern, flags).search
except (re.error, OverflowError, RecursionError) as error:
    print(json.dumps({"wrong": str(error)}))
else:
    print(json.dumps([[n for n, line in enumerate(one.split("\\n")) if search(line)] for one in sources]))
"""


async def matching_lines(pattern: str, sources: Sequence[str]) -> list[list[int]]:
    """For each source the lines that match, counted from 0; a pattern in lower case matches any case.

    Raises:
        ToolError: the pattern is none, or takes too long.
    """
    ignores_case = not any(letter.isupper() for letter in _ESCAPE.sub("", pattern))
    if _PLAIN.fullmatch(pattern):
        cased = str.lower if ignores_case else str
        wanted = cased(pattern)
        return [[n for n, line in enumerate(one.split("\n")) if wanted in cased(line)] for one in sources]
    given = json.dumps([pattern, int(re.IGNORECASE) if ignores_case else 0, sources])
    found = json.loads(await _run_worker(given.encode()))
    if isinstance(found, dict):
        raise ToolError(f"{pattern!r} is not a valid regular expression: {found[_WRONG]}.")
    return found


async def _run_worker(given: bytes) -> bytes:
    if not sys.executable:
        raise ToolError("No regular expression can be searched for here; use a plain text.")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-S", "-X", "utf8", "-c", _WORKER), stdin=PIPE, stdout=PIPE, stderr=DEVNULL
    )
    try:
        async with asyncio.timeout(SECONDS):
            answer, _ = await process.communicate(given)
    except TimeoutError:
        raise ToolError(f"The search took longer than {SECONDS:g} s and was ended; simplify the pattern.") from None
    finally:
        if process.returncode is None:
            process.kill()
            await asyncio.shield(process.wait())
    if process.returncode:
        raise ToolError("The search failed; simplify the pattern.")
    return answer
