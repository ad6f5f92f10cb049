"""Suggestions for misspelled names. `difflib` is imported only when a name is wrong."""

from collections.abc import Iterable

from vibe_jupyter.safe_imports import without_working_folder


def near_names(name: str, known: Iterable[str], most: int = 1, likeness: float = 0.6) -> list[str]:
    """Return the known names most similar to a name, best first.

    Args:
        name: The name as written.
        known: The valid names.
        most: Maximum number of results.
        likeness: Minimum similarity ratio, from 0 to 1.
    """
    with without_working_folder():
        import difflib  # noqa: PLC0415 - most names are right

    return difflib.get_close_matches(name, list(known), most, likeness)
