"""HTML as the tests read it: elements with attributes, and the words a user sees."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"br", "hr", "img", "input"}


@dataclass
class Element:
    """One element; `children` are elements and texts in order."""

    name: str
    attributes: dict[str, str] = field(default_factory=dict[str, str])
    children: "list[Element | str]" = field(default_factory=list["Element | str"])

    def __iter__(self) -> "Iterator[Element]":
        """Itself and all below, in the order of the page."""
        yield self
        for child in self.children:
            if isinstance(child, Element):
                yield from child

    @property
    def text(self) -> str:
        return "".join(child if isinstance(child, str) else child.text for child in self.children)

    def find(self, name: str, **attributes: str) -> "list[Element]":
        """Elements of that name with these attributes; ``class_`` matches one of several."""
        return [one for one in self if one.name == name and all(one.has(*pair) for pair in attributes.items())]

    def has(self, key: str, value: str) -> bool:
        if key == "class_":
            return value in self.attributes.get("class", "").split()
        return self.attributes.get(key.replace("_", "-")) == value


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open = [Element("#root")]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len({key for key, _ in attrs}) == len(attrs), f"an attribute twice: {self.get_starttag_text()}"
        element = Element(tag, {key: value or "" for key, value in attrs})
        self.open[-1].children.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_endtag(self, tag: str) -> None:
        closed = self.open.pop()
        assert closed.name == tag, f"</{tag}> closes <{closed.name}>"

    def handle_data(self, data: str) -> None:
        self.open[-1].children.append(data)

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"a comment: {data}")

    def handle_decl(self, decl: str) -> None:
        raise AssertionError(f"a declaration: {decl}")


def parse(html: str) -> Element:
    """Read HTML that must be well formed."""
    reader = _Reader()
    reader.feed(html)
    reader.close()
    assert [one.name for one in reader.open] == ["#root"], f"left open: {reader.open[-1].name}"
    return reader.open[0]
