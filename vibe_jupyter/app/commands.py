"""`%vibe config` and `%vibe trust`: what is set, where it came from, and whether the folder's part of it counts."""

from typing import Protocol

from vibe_jupyter import config
from vibe_jupyter.app.setup import Setup
from vibe_jupyter.policy.trust import TrustQuestion


class Asker(Protocol):
    """What can put a question to the person."""

    @property
    def setup(self) -> Setup:
        """The settings of this kernel."""
        ...

    @property
    def attended(self) -> bool:
        """Whether anyone can answer."""
        ...

    def ask_trust(self, question: TrustQuestion) -> bool:
        """Ask on a card, and keep the answer."""
        ...


def settings_command(words: list[str], app: Asker) -> str | None:
    """Do one of these commands and say what to print, which may be nothing; None when the words are none.

    Raises:
        ConfigError: a setting is wrong.
        NotebookError: the person interrupted the question.
    """
    setup = app.setup
    match words:
        case ["config"]:
            return config.listing(setup.read(), setup.environ)
        case ["config", "path"]:
            return config.places(setup.environ, str(setup.folder))
        case ["trust"]:
            return _trust(app)
        case ["trust", "forget"]:
            known = setup.forget()
            return "Forgotten: it is asked again." if known else f"Nothing was decided on {setup.folder}."
        case _:
            return None


def _trust(app: Asker) -> str:
    question = app.setup.demand()
    if question is None or app.setup.is_trusted or not app.attended:
        return app.setup.trust()
    app.ask_trust(question)
    return ""
