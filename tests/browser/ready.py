"""A notebook just opened, and its kernel: what the page may miss of their start is asked for again."""

from collections.abc import Callable

import pytest
from playwright.sync_api import JSHandle, Page, TimeoutError

from tests.patience import patient

PATIENCE = patient(3_000)
"""Milliseconds until the kernel is asked, and until it is asked again."""
QUESTIONS = 7
"""Asked before the page is reloaded: that takes as long as most tests."""
POLLING = 50
"""Milliseconds between two looks. Playwright looks with each frame, which costs more than what is waited for."""
WAIT = patient(30_000)
"""Milliseconds after that."""

_FIND = """
    const panel = [...(window.jupyterapp?.shell.widgets("main") ?? [])].find(one => one.context?.path === path);
    const kernel = panel?.sessionContext.session?.kernel;
"""
_READY = f"""([path, states]) => {{ {_FIND}
    return panel?.content?.widgets?.length > 0 && states.includes(kernel?.status);
}}"""
# Sent as soon as there is a connection. Not for its information: JupyterLab learns nothing of its state from that.
_ASK = f"path => {{ {_FIND} kernel?.requestComplete({{ code: '', cursor_pos: 0 }}).catch(() => undefined); }}"
_STATE = f"""path => {{ {_FIND} return {{
    application: Boolean(window.jupyterapp),
    panel: Boolean(panel),
    cells: panel?.content?.widgets?.length ?? null,
    session: panel?.sessionContext.session?.id ?? null,
    kernel: kernel?.id ?? null,
    status: kernel?.status ?? null,
    connection: kernel?.connectionStatus ?? null,
    dialogs: [...document.querySelectorAll(".jp-Dialog")].map(dialog => dialog.innerText),
}}; }}"""


def wait_until(page: Page, condition: str, arg: object = None, *, timeout: float | None = None) -> JSHandle:
    """Wait until a JavaScript function says yes, for so many milliseconds or as long as the page has; what it said."""
    return page.wait_for_function(condition, arg=arg, timeout=timeout, polling=POLLING)


def wait_until_ready(page: Page, path: str, *, load_anew: Callable[[], object], runs: bool = False) -> None:
    """Wait until the notebook of this path shows its cells and JupyterLab knows that its kernel is idle.

    Where a cell `runs`, the kernel may as well be busy: it is enough that the page has heard of it.

    A page hears of its kernel by messages alone. The first ones are lost when they come before its subscription, and
    then it never hears of it before it says something itself.
    """
    wanted = [path, ["idle", "busy"] if runs else ["idle"]]
    for remedy in (*[lambda: page.evaluate(_ASK, path)] * QUESTIONS, load_anew):
        try:
            wait_until(page, _READY, wanted, timeout=PATIENCE)
        except TimeoutError:
            print(f"{path} is not ready after {PATIENCE} ms: {page.evaluate(_STATE, path)}")
            remedy()
        else:
            return
    try:
        wait_until(page, _READY, wanted, timeout=WAIT)
    except TimeoutError:
        pytest.fail(f"{path} was not ready in time: {page.evaluate(_STATE, path)}")
