"""The tools that go along with a request."""

from collections.abc import Sequence

from vibe_jupyter.gateway.request_tools import HeldToolset
from vibe_jupyter.protocol import ToolSpec


class Growing:
    """A set that a call of one of its tools makes larger, as `find_tools` does."""

    def __init__(self) -> None:
        self.names = ["first"]
        self.listed = 0

    def specs(self) -> Sequence[ToolSpec]:
        self.listed += 1
        return [ToolSpec(name=name, description="", parameters={}) for name in self.names]

    def find(self, name: str) -> None:
        self.names.append("found")


def test_tools_are_listed_once_for_a_request_and_again_after_a_call() -> None:
    growing = Growing()
    held = HeldToolset(growing)
    assert [spec.name for _ in range(3) for spec in held.specs()] == ["first"] * 3
    assert growing.listed == 1
    held.find("first")
    assert [spec.name for spec in held.specs()] == ["first", "found"]
