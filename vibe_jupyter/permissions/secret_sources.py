"""Sources of secrets that are only partly known, and what is withheld from outputs because of them.

A column with a million session tokens, or a list whose middle was not examined, may contain secrets that no index
knows. Outputs of code, commands and tools are then sent without anything that could be one of them.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Final, Protocol

from vibe_jupyter.lazy_patterns import lazy_pattern
from vibe_jupyter.permissions.known_secrets import KnownSecrets
from vibe_jupyter.permissions.secret_shapes import Strength, looks_random, strength

if TYPE_CHECKING:
    from vibe_jupyter.permissions.own_rules import OwnRules

# Values remembered from texts. Beyond that the oldest quarter is forgotten, and texts count as partly known.
LEARNED: Final = 20_000
_RUN: Final = lazy_pattern(r"[\w.~+/=:%!@#$^&*-]{8,}+")  # characters without whitespace, quotes or brackets
_PIECE: Final = lazy_pattern(r"[A-Za-z0-9_-]{8,}+")
_SHORTEST_RUN: Final = 12  # minimum number of characters for letters and digits to look random
_PLACEHOLDER: Final = lazy_pattern(r"\[(?:redacted: |withheld: )[^\[\]\n]{1,200}\]")
_TEXTS: Final = "texts that name secrets"


class Extent(IntEnum):
    """Extent to which an output is withheld."""

    NOTHING = 0
    RANDOM = 1  # everything that looks random
    MIXED = 2  # everything with both letters and digits
    ALL = 3  # the whole text: the values may be plain words


_WITHHELD: Final[Mapping[Extent, str]] = {
    Extent.RANDOM: "what looks random in outputs is withheld from the model",
    Extent.MIXED: "what has letters and digits in outputs is withheld from the model",
    Extent.ALL: "outputs are withheld from the model as a whole",
}


class PartlyKnown:
    """Partly known sources, and those already reported to the user. Thread-safe."""

    def __init__(self) -> None:
        self._noted: Mapping[str, Sequence[str]] = {}
        self._extents: dict[str, Extent] = {}
        self._told: set[str] = set()

    def note(self, sources: Mapping[str, Sequence[str]]) -> None:
        """Record names of variables, keys and columns, with samples of their values."""
        if sources != self._noted:
            extents = {name: _extent_of(name, samples) for name, samples in sources.items()}
            self._extents = {**self._extents, **extents}
            self._noted = sources

    def note_texts(self) -> None:
        """Record that texts contained more secrets than are remembered."""
        self._extents = {**self._extents, _TEXTS: Extent.MIXED}

    def extent(self, allows: Callable[[str], bool]) -> Extent:
        """Return how much is withheld, disregarding sources that the settings exempt."""
        extents = self._extents
        if not extents:
            return Extent.NOTHING
        return max((one for name, one in extents.items() if not allows(name)), default=Extent.NOTHING)

    def lines(self, allows: Callable[[str], bool]) -> list[str]:
        """Return one line for each source about what is withheld."""
        return [f"{name}: {_WITHHELD[one]}" for name, one in self._extents.items() if not allows(name)]

    def news(self, allows: Callable[[str], bool]) -> list[str]:
        """Return one sentence for each source that hasn't been reported yet."""
        if self._extents.keys() <= self._told:  # nearly always: this is asked after each event
            return []
        new = {name: one for name, one in self._extents.items() if name not in self._told and not allows(name)}
        self._told.update(new)
        return [_sentence(name, one) for name, one in new.items()]


def withheld(text: str, extent: Extent) -> str:
    """Remove everything from an output that could be a secret of a partly known source."""
    if extent is Extent.NOTHING or not text.strip() or _PLACEHOLDER.fullmatch(text.strip()):
        return text
    if extent is Extent.ALL:
        return f"[withheld: {len(text):,} characters that may hold secrets which are not all known]"
    out: list[str] = []
    place = 0
    for kept in [*_PLACEHOLDER.finditer(text), None]:
        end = len(text) if kept is None else kept.start()
        out.append(_RUN.sub(lambda found: _stand_in(found[0], extent), text[place:end]))
        if kept is not None:
            out.append(kept[0])
            place = kept.end()
    return "".join(out)


def _stand_in(run: str, extent: Extent) -> str:
    return f"[withheld: {len(run):,} characters]" if _may_be_secret(run, extent) else run


def _may_be_secret(run: str, extent: Extent) -> bool:
    if _is_number(run.strip(".,:;")):
        return False
    if extent is Extent.MIXED:
        return any(map(str.isdigit, run)) and any(map(str.isalpha, run))
    return len(run) >= _SHORTEST_RUN and (looks_random(run) or any(map(looks_random, _PIECE.findall(run))))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _extent_of(name: str, samples: Sequence[str]) -> Extent:
    """Return how much to withhold for a source, given its name and samples of its values."""
    if strength(name) is Strength.WEAK or (samples and all(map(looks_random, samples))):
        return Extent.RANDOM
    return Extent.ALL


def _sentence(name: str, extent: Extent) -> str:
    listed = "`%vibe config` lists what is withheld, and why."
    if name == _TEXTS:
        return f"Texts of this session named more secrets than are remembered, so {_WITHHELD[extent]}. {listed}"
    return (
        f"Your variables hold more values called `{name}` than are remembered as secrets, so {_WITHHELD[extent]}. "
        f'{listed} If they are no secrets, add `[privacy] allow = ["{name}"]` to your config.toml.'
    )


class SecretsOfVariables(Protocol):
    """Scans the user's variables for secrets. Thread-safe."""

    def __call__(self) -> Mapping[str, str]:
        """Return every value found so far, with the name that marks it as secret."""
        ...

    def partly_known(self) -> Mapping[str, Sequence[str]]:
        """Return names whose values could not all be examined, with samples."""
        ...


class NoVariables:
    """Null implementation for use without a kernel."""

    def __call__(self) -> Mapping[str, str]:
        return {}

    def partly_known(self) -> Mapping[str, Sequence[str]]:
        """Return an empty mapping."""
        return {}


class Memory:
    """State that a kernel's redactors pass on to their successors."""

    def __init__(self) -> None:
        self.caught: Counter[str] = Counter()  # number of redactions by kind
        self.learned = KnownSecrets()  # values learned from texts
        self.bound = KnownSecrets()  # values of the user's variables, with variable names
        self.partly = PartlyKnown()  # sources that are only partly known
        self.own: KnownSecrets | OwnRules = KnownSecrets()  # the user's own rules; nothing known without any
        self._mirrored: Mapping[str, str] = {}

    def mirror(self, found: Mapping[str, str]) -> None:
        """Synchronize with the values known from the user's variables, including removals."""
        if found is self._mirrored:
            return
        if len(self._mirrored) > len(found) or not self._mirrored.keys() <= found.keys():
            self.bound = KnownSecrets(found)
        else:
            for value in found.keys() - self._mirrored.keys():
                self.bound.add(value, found[value])
        self._mirrored = found

    def learn(self, value: str, kind: str) -> None:
        """Remember a value found in a text."""
        if len(self.learned) >= LEARNED:
            self.learned = self.learned.newest(LEARNED - LEARNED // 4)
            self.partly.note_texts()
        self.learned.add(value, kind)
