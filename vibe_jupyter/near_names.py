"""Names that are nearly the one that was written. What compares them is imported when one is wrong."""

from collections.abc import Iterable

from vibe_jupyter.safe_imports import without_working_folder


def near_names(name: str, known: Iterable[str], most: int = 1, likeness: float = 0.6) -> list[str]:
    """The known names most like it, the nearest first.

    Args:
        name: as written.
        known: what could have been meant.
        most: how many are given.
        likeness: from 0 to 1, that a name has at least.
    """
    with without_working_folder():
        import difflib  # noqa: PLC0415 - most names are right

    return difflib.get_close_matches(name, list(known), most, likeness)
