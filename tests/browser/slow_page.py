"""A page that loads scripts slowly, as anywidget sees it."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.browser.lab import Lab

_BEGIN = """() => {
    window.ordinary = AbortSignal.timeout;
    AbortSignal.timeout = (time) => window.ordinary.call(AbortSignal, time === 2000 ? 0 : time);
}"""
_END = "() => { AbortSignal.timeout = window.ordinary; }"


@contextmanager
def slow_page(lab: Lab) -> Iterator[None]:
    """Let the 2 s that anywidget grants a script run out before it has loaded. Its complaint is expected."""
    lab.page.evaluate(_BEGIN)
    try:
        yield
    finally:
        lab.page.evaluate(_END)
    assert any("Failed to initialize model" in one for one in lab.complaints), "anywidget did not give the model up"
    lab.complaints.clear()
