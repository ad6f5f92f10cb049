"""What the agent, or a server it talks to, wants to know from the person (seed 001, ask_user_question)."""

from vibe_jupyter.protocol.value import Value


class Choice(Value):
    """One answer to choose."""

    label: str
    description: str = ""


class Question(Value):
    """One thing to know. Free text is always an answer as well."""

    question: str
    header: str = ""
    """A word or two that stand for it, such as ``Encoding``."""
    options: tuple[Choice, ...] = ()
    """Empty where only free text makes sense."""
    multi_select: bool = False
    link: str = ""
    """An address the person may open, shown in full beside it; nothing opens it by itself. Empty for none."""


class Answered(Value):
    """The person's answer to one question: what they chose, and what they wrote."""

    question: str
    selected: tuple[str, ...] = ()
    """Labels, in the order of the options."""
    other: str = ""
    """Their own words; empty when they wrote none."""

    @property
    def words(self) -> str:
        """The whole answer in one line."""
        return ", ".join(filter(None, (*self.selected, self.other))) or "(no answer)"
