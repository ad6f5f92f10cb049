"""The public Python API as one page, made from its signatures and docstrings when the documentation is built."""

import ast
import importlib
import inspect
import re
import textwrap
from collections.abc import Iterator
from dataclasses import is_dataclass
from typing import Any

from pydantic import BaseModel

MODULES = ("vibe_jupyter", "vibe_jupyter.tools", "vibe_jupyter.testing")
"""What may be imported from; a name is described where it is named first."""
LEFT_OUT = ("__version__", "load_ipython_extension", "unload_ipython_extension")
"""Public to IPython only."""
_SECTION = re.compile(r"^(Args|Returns|Yields|Raises):\n((?:[ ]{4}.*\n?|\n)+)", re.MULTILINE)
_POINTER = re.compile(r"\s*Start reading at .*")
"""Where contributors go on."""
_ENTRY = re.compile(r"^ {4}(\w+): ", re.MULTILINE)


def api_page() -> str:
    """Return the page as Markdown."""
    lines = ["# Python API", "", "Everything else in the package may change without notice."]
    described: set[int] = set()
    for module_name in MODULES:
        module = importlib.import_module(module_name)
        lines += ["", f"## {module_name}", "", _as_markdown(_POINTER.sub("", inspect.getdoc(module) or ""))]
        for name in (name for name in module.__all__ if name not in LEFT_OUT):
            value = getattr(module, name)
            if id(value) not in described:
                described.add(id(value))
                lines += ["", *_describe(name, value)]
    return "\n".join(lines) + "\n"


def _describe(name: str, value: Any) -> Iterator[str]:
    yield f"### {name}"
    if not inspect.isclass(value) and not inspect.isroutine(value):
        yield f"\n`{name} = {_short(value)}`"
        return
    yield f"\n```python\n{_signature(name, value)}\n```"
    yield f"\n{_as_markdown(inspect.getdoc(value) or '')}"
    if inspect.isclass(value):
        yield from _describe_members(value)


def _describe_members(cls: type) -> Iterator[str]:
    """The fields, properties and methods that the class itself defines, each with its docstring."""
    body = ast.parse(textwrap.dedent(inspect.getsource(cls))).body[0]
    assert isinstance(body, ast.ClassDef)
    lines: list[str] = []
    for node, after in zip(body.body, [*body.body[1:], None], strict=True):
        if isinstance(node, ast.AnnAssign) and not ast.unparse(node.target).startswith("_"):
            lines.append(f"- `{ast.unparse(node)}`{_dash(_text_of(after))}")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_"):
            is_property = any(ast.unparse(one) == "property" for one in node.decorator_list)
            shown = node.name if is_property else f"{node.name}({_without_self(node)})"
            lines.append(f"- `{shown}`{_dash((ast.get_docstring(node) or '').split(chr(10))[0])}")
    if lines:
        yield "\n" + "\n".join(lines)


def _without_self(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    return re.sub(r"^(self|cls)(, )?", "", ast.unparse(node.args))


def _text_of(node: ast.stmt | None) -> str:
    match node:
        case ast.Expr(value=ast.Constant(value=str(text))):
            return inspect.cleandoc(text)
        case _:
            return ""


def _dash(text: str) -> str:
    return f": {_as_markdown(text)}" if text else ""


def _signature(name: str, value: Any) -> str:
    """The head of its definition as the source has it; of a class with a constructor, that one's."""
    if inspect.isclass(value):
        if "__init__" not in vars(value) or is_dataclass(value) or issubclass(value, BaseModel):
            return f"class {name}"
        return "class " + _head(value.__init__).replace("__init__", name, 1).replace("self, ", "").replace(
            "    self,\n", ""
        ).removesuffix(" -> None")
    return _head(value)


def _head(function: Any) -> str:
    source = textwrap.dedent(inspect.getsource(function))
    (node,) = ast.parse(source).body
    assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    head = source.splitlines()[node.lineno - 1 : node.body[0].lineno - 1]
    return "\n".join(head).removeprefix("def ").removesuffix(":")


def _short(value: Any) -> str:
    """A type alias, without the modules of its parts."""
    return re.sub(r"\b(?:[a-z_]+\.)+(?=[A-Z])", "", str(value))


def _as_markdown(docstring: str) -> str:
    """Sections of Google's style as lists; reStructuredText's double backticks as single ones."""

    def listed(found: re.Match[str]) -> str:
        entries = _ENTRY.sub(r"- `\1`: ", found[2])
        return f"**{found[1]}**\n\n" + "\n".join(line.strip() for line in entries.strip().splitlines()) + "\n\n"

    return _SECTION.sub(listed, docstring).replace("``", "`")
