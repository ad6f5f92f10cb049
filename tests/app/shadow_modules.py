"""Modules in an untrusted folder, named like everything that we or our dependencies import or try to import."""

import re
import sys
from collections.abc import Iterator
from functools import cache
from importlib import metadata
from pathlib import Path

IMPORT = re.compile(r"^\s*(?:import|from)\s+([A-Za-z_]\w*)", re.MULTILINE)
REQUIRED = re.compile(r"[A-Za-z0-9._-]+")
NEEDED = ("vibe-jupyter", "ipykernel", "keyring", "uvloop", "narwhals", "pandas", "matplotlib", "jedi", "debugpy")
"""Distributions whose requirements are followed; those that are not installed are passed over."""
NOT_FOR_US = frozenset({"__future__", "__main__", "_pytest", "conftest", "pytest", "tests", "vibe_jupyter"})
RAN = """\
def told():
    import sys
    frame, lines = sys._getframe(1), []
    while frame is not None:
        if not frame.f_code.co_filename.startswith("<frozen"):
            lines.append(f"{{frame.f_code.co_filename}}:{{frame.f_lineno}}")
        frame = frame.f_back
    with open({marker!r}, "a", encoding="utf-8") as file:
        print({name!r}, sys._getframe(1).f_globals.get("__name__"), *lines, file=file)
told()
raise ImportError({name!r} + " of the folder ran")
"""


@cache
def shadow_names() -> tuple[str, ...]:
    """Top-level names of the standard library, of what is installed, and of what dependencies try to import."""
    sources = list(_sources())
    tried = {name for path in sources for name in IMPORT.findall(path.read_text(encoding="utf-8", errors="replace"))}
    names = {*sys.stdlib_module_names, *metadata.packages_distributions(), *tried}
    return tuple(sorted(name for name in names - NOT_FOR_US if name.isidentifier()))


def plant(folder: Path, marker: Path) -> int:
    """Write all these modules into a folder, every other one as a package; how many."""
    for number, name in enumerate(shadow_names()):
        text = RAN.format(marker=str(marker), name=name)
        if number % 2:
            (folder / f"{name}.py").write_text(text, encoding="utf-8")
        else:
            (folder / name).mkdir()
            (folder / name / "__init__.py").write_text(text, encoding="utf-8")
    return len(shadow_names())


def _sources() -> Iterator[Path]:
    """Python files of our dependencies, without their tests."""
    waiting, seen = list(NEEDED), set[str]()
    while waiting:
        name = waiting.pop().lower().replace("_", "-")
        if name in seen:
            continue
        seen.add(name)
        try:
            found = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue
        waiting += [REQUIRED.match(one)[0] for one in found.requires or () if "extra ==" not in one]  # type: ignore[index]
        for file in found.files or ():
            if file.suffix == ".py" and "tests" not in file.parts and file.parts[0] != "..":
                path = Path(str(found.locate_file(file)))
                if path.is_file():
                    yield path
