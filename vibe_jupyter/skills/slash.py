"""Which skill a prompt calls: ``/name arguments`` at its beginning, with hyphens or blanks in the name."""

import re
from collections.abc import Iterable
from typing import Final

from vibe_jupyter.skills.skill import Skill

_CALL: Final = re.compile(r"\s*/(?=[A-Za-z0-9])(?P<words>[^\n]*)")
_MOST_WORDS: Final = 32
"""Of a name: as many as its longest can have."""


def called_skill(prompt: str, skills: Iterable[Skill]) -> Skill | None:
    """The skill whose name the prompt begins with, the longest name first; None where it is plain text."""
    call = _CALL.match(prompt)
    if call is None:
        return None
    by_name = {skill.name: skill for skill in skills if skill.user_invocable}
    words = call["words"].split()[:_MOST_WORDS]
    for count in range(len(words), 0, -1):
        skill = by_name.get("-".join(words[:count]).casefold())
        if skill is not None:
            return skill
    return None
