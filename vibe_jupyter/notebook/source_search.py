"""Regular expression search in cells, in a subprocess.

A model's pattern may take forever, to match or even to compile, without releasing the GIL, so only killing the process
can stop it.
"""

import asyncio
import json
import re
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Sequence
from typing import Final

from vibe_jupyter.errors import ToolError

SECONDS: Final = 5.0  # time limit of one search
_PLAIN: Final = re.compile(r"[\w \t,;:=<>@#%&'\"/~`!-]*")  # patterns without special characters
_ESCAPE: Final = re.compile(r"\\.|\(\?P<")  # syntax whose capital letters don't make the pattern case-sensitive
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
    """Return the matching lines of each source, counted from 0. A pattern without capitals ignores case.

    Raises:
        ToolError: The pattern is invalid or takes too long.
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
    # Isolated mode: ignores the user's environment, and starts faster without `site`.
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
            # Shielded, so that a cancellation doesn't leave a zombie process.
            await asyncio.shield(process.wait())
    if process.returncode:
        raise ToolError("The search failed; simplify the pattern.")
    return answer
