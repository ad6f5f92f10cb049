"""The project's ``.vibeignore``, heeded on the matches of either engine: ripgrep knows no file of that name."""

from pathlib import Path

from vibe_jupyter.tools.search.ignore_file import read_ignore_file
from vibe_jupyter.tools.search.query import OWN_IGNORE_FILE, Query


class OwnIgnores:
    """Which matches are left out."""

    def __init__(self, root: Path, query: Query) -> None:
        target = Path(query.target)
        self._file = read_ignore_file(root / OWN_IGNORE_FILE)
        # Who names a folder wants to see into it: only what lies below it is judged.
        self._depth = len(target.relative_to(root).parts) if target.is_relative_to(root) else None
        self._known: dict[str, bool] = {}

    def leaves_out(self, path: str) -> bool:
        """Whether the file at `path`, relative to the project folder, or a folder it lies in, is ignored."""
        if self._file is None or self._depth is None:
            return False
        if path not in self._known:
            self._known[path] = self._is_ignored(path.split("/"), self._depth)
        return self._known[path]

    def _is_ignored(self, names: list[str], depth: int) -> bool:
        assert self._file is not None
        ends = range(depth + 1, len(names) + 1)
        return any(self._file.ignores("/".join(names[:end]), is_folder=end < len(names)) for end in ends)
