"""A cell that the agent runs, edits or moves is as if a user had done it by hand."""

import re
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.lab import WAIT, Lab
from tests.browser.notebook_page import PROMPT, drawn, kept, open_prompt
from vibe_jupyter.testing import ModelRequest, Reply, ScriptedModel, answer, call, say

pytestmark = pytest.mark.browser

ALL = "--yes=run_cells,insert_cell,edit_cell"


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    """A model that says what a test tells it to."""
    with ScriptedModel() as scripted:
        yield scripted


@pytest.mark.requirement("notebook.delete_cells.many", "notebook.move_cells.after")
def test_five_tools_a_click_for_each_and_each_undone_by_one_step(lab: Lab, model: ScriptedModel) -> None:
    book = open_prompt(lab, model, "first = 1\nfirst", "second = 2", "third = 3", "fourth = 4")
    prompt, first, second, third, fourth = book.ids[1:]
    book.run(2)
    book.over(2)
    shown = book.outputs(2)
    model.will_reply(
        call("read_notebook"),
        call("insert_cell", source="fresh = first + 10\nfresh"),
        call("edit_cell", cell=second, source="second = 22"),
        call("run_cells", cells=[second]),
        call("move_cells", cells=[fourth, first], after=third),
        call("delete_cells", cells=[third]),
        say("That is all."),
    )
    book.run(0, PROMPT)
    before = book.sources()
    for card in (r"Insert a new cell below", r"Edit cell #5", r"Run cell #5", r"Move 2 cells", r"Delete cell #5"):
        book.allow(card)
    book.over()
    done = book.cells()
    assert [cell["source"] for cell in done[2:]] == [
        "fresh = first + 10\nfresh",
        "second = 22",
        "fourth = 4",
        before[2],
    ]
    assert [cell["id"] for cell in done[3:]] == [second, fourth, first]
    assert done[5]["outputs"] == shown
    assert done[3]["count"] is not None
    assert [book.ids[0], prompt] == [cell["id"] for cell in done[:2]]
    book.front(0)
    with_steps = [book.sources()[2:]]
    for _ in range(3):
        lab.page.keyboard.press("z")
        with_steps.append(book.sources()[2:])
    new, edited = "fresh = first + 10\nfresh", "second = 22"
    assert with_steps[1:] == [
        [new, edited, "third = 3", "fourth = 4", before[2]],
        [new, before[2], edited, "third = 3", "fourth = 4"],
        [before[2], edited, "third = 3", "fourth = 4"],
    ]
    book.cell(3).locator(".cm-content").click()
    lab.page.keyboard.press("ControlOrMeta+z")
    assert book.sources()[3] == "second = 2"


BY_HAND = {
    "a value": "6 * 7",
    "both streams": "import sys\nfor n in range(3):\n    print(n)\n    print(n, file=sys.stderr)",
    "a progress bar": "import time\nfrom tqdm import tqdm\nfor n in tqdm(range(20)):\n    time.sleep(0.01)",
    "a progress bar that is a widget": (
        "from tqdm.notebook import tqdm as bar\nfor n in bar(range(20)):\n    time.sleep(0.01)"
    ),
    "a slider": "import ipywidgets\nslider = ipywidgets.IntSlider(value=3, description='n')\nslider",
    "a figure": "import matplotlib.pyplot as plt\nplt.plot([1, 3, 2])\nplt.title('by hand')\nplt.show()",
    "a display that is updated": (
        "shown = display('first', display_id='one')\nprint('between')\nshown.update({'text/plain': 'second'}, raw=True)"
    ),
    "cleared output": (
        "from IPython.display import clear_output\nprint('gone')\nclear_output()\nprint('gone too')\n"
        "clear_output(wait=True)\nprint('stays')"
    ),
    "HTML and LaTeX": "from IPython.display import HTML, Math\ndisplay(HTML('<b>bold</b>'), Math('x^2'))",
    "an Output widget": (
        "box = ipywidgets.Output()\ndisplay(box)\nwith box:\n    print('in the box')\n    display('shown in the box')\n"
        "print('outside')"
    ),
    "a shell command": "!echo from the shell",
    "top-level await": "import asyncio\nawait asyncio.sleep(0.01)\nprint('awaited')",
    "magic": "%%time\nprint('timed')",
    "an error": "def deeper(n):\n    return 1 / n\n\nprint('before')\ndeeper(0)",
    "a syntax error": "for in x",
}


@pytest.mark.matrix
def test_what_a_cell_shows_is_the_same_by_hand_and_by_the_agent(lab: Lab, model: ScriptedModel) -> None:
    book = open_prompt(lab, model, *BY_HAND.values(), options=ALL)
    places = {name: place for place, name in enumerate(BY_HAND, start=2)}
    model.will_reply(
        call("run_cells", cells=[book.ids[place] for place in places.values()], stop_on_error=False), say("All run.")
    )

    def by_hand() -> dict[str, Any]:
        for name, place in places.items():
            if name.endswith("error"):  # it would make void what is queued behind it
                book.over(place - 1)
            book.run(place)
        book.over(places["a syntax error"])
        return look()

    def look() -> dict[str, Any]:
        return {name: (kept(book, place), drawn(book, place)) for name, place in places.items()}

    before = by_hand()
    book.run(0, PROMPT)
    book.over()
    agents = look()
    after = by_hand()
    for name, (outputs, picture) in before.items():
        assert agents[name][0] == outputs, name
        assert agents[name][1] == picture, name
        assert after[name] == (outputs, picture), name
    assert len(set(book.counts())) == len(book.counts())


@pytest.mark.matrix
def test_progress_is_seen_while_the_cell_runs(lab: Lab, model: ScriptedModel) -> None:
    gate = lab.server.folder / "gate"
    gate.unlink(missing_ok=True)
    bars = (
        "import os, sys, time\nfrom tqdm import tqdm\nfrom tqdm.notebook import tqdm as bar\n"
        "print('one'); print('two', file=sys.stderr)\nfigure = display('none', display_id=True)\n"
        "for n in bar(tqdm(range(8), mininterval=0), mininterval=0):\n"
        "    figure.update(n)\n"
        "    while n == 5 and not os.path.exists('gate'):\n        time.sleep(0.02)"
    )
    book = open_prompt(lab, model, bars, options=ALL)
    model.will_reply(call("run_cells", cells=[book.ids[2]]), say("Run."))
    book.run(0, PROMPT)
    output = book.output(2)
    expect(output).to_contain_text("one")
    expect(output).to_contain_text("two")
    expect(output.locator(".jp-OutputArea-output", has_text=re.compile(r"^5$"))).to_be_visible()
    expect(output.get_by_text(re.compile(r"5/8.*"))).to_have_count(2)
    expect(book.cell(2).locator(".jp-InputPrompt")).to_have_text("[*]:")
    gate.touch()
    book.over()
    expect(output.get_by_text(re.compile(r"8/8.*"))).to_have_count(2)


@pytest.mark.matrix
def test_a_widget_of_a_cell_the_agent_ran_works_while_a_card_waits(lab: Lab, model: ScriptedModel) -> None:
    slider = (
        "import ipywidgets\nfrom IPython.display import display\nslider = ipywidgets.IntSlider(value=3)\n"
        "label = ipywidgets.Label('untouched')\nlog = ipywidgets.Output()\n\n"
        "@log.capture()\ndef follow(change):\n    label.value = f'now {change.new}'\n    print('heard', change.new)\n\n"
        "slider.observe(follow, 'value')\ndisplay(slider, label, log)"
    )
    book = open_prompt(lab, model, slider, "slider.value", options="--yes=insert_cell")
    model.will_reply(call("run_cells", cells=[book.ids[2]]), call("run_cells", cells=[book.ids[3]]), say("Read."))
    book.run(0, PROMPT)
    book.allow("Run cell #3")
    expect(book.card("Run cell #4")).to_be_visible()
    handle = book.output(2).get_by_role("slider")
    handle.focus()
    for _ in range(4):
        lab.page.keyboard.press("ArrowRight")
    expect(book.output(2)).to_contain_text("now 7")
    expect(book.output(2)).to_contain_text("heard 7")
    book.allow("Run cell #4")
    book.over()
    assert book.outputs(3)[0]["data"]["text/plain"] == "7"
    handle.focus()
    lab.page.keyboard.press("ArrowRight")
    expect(book.output(2)).to_contain_text("now 8")


@pytest.mark.matrix
def test_input_opens_in_the_cell_the_agent_runs_and_looks_as_by_hand(lab: Lab, model: ScriptedModel) -> None:
    ask = (
        "import getpass\nname = input('Who? ')\nsecret = getpass.getpass('Secret? ')\nprint('hello', name, len(secret))"
    )
    book = open_prompt(lab, model, ask, "input('Again? ')", options=ALL)

    def answers() -> tuple[str, object]:
        for words, which in (("Ada", ":not([type=password])"), ("1234", "[type=password]")):
            box = book.output(2).locator(f"input.jp-Stdin-input{which}")
            box.fill(words)
            box.press("Enter")
        expect(book.output(2)).to_contain_text("hello")
        expect(book.output(2).locator(".jp-Stdin")).to_have_count(0)
        return kept(book, 2), drawn(book, 2)

    book.run(2)
    by_hand = answers()
    book.over(2)
    model.will_reply(call("run_cells", cells=[book.ids[2]]), say("Done."))
    book.run(0, PROMPT)
    assert answers() == by_hand
    book.over()
    assert "hello Ada 4" in book.text(2)
    book.run(3)
    expect(book.output(3).locator("input.jp-Stdin-input")).to_be_visible()
    book.output(3).locator("input.jp-Stdin-input").press("Enter")
    book.over(3)


@pytest.mark.matrix
def test_after_a_stop_no_box_is_left_in_which_nobody_reads_what_is_typed(lab: Lab, model: ScriptedModel) -> None:
    book = open_prompt(lab, model, "input('Who? ')", "6 * 7", options="--yes=run_code,run_cells")
    for place, asking in ((PROMPT, call("run_code", code="input('Who? ')")), (2, call("run_cells", cells=["#3"]))):
        model.will_reply(asking)
        book.run(*((0, PROMPT) if place == PROMPT else (PROMPT,)))
        expect(book.output(place).locator("input.jp-Stdin-input")).to_be_visible()
        lab.interrupt()
        book.over()
        expect(book.page.locator(".jp-Stdin")).to_have_count(0)
    assert "KeyboardInterrupt" in str(book.outputs(2))
    book.run(3)
    book.over(3)
    assert book.outputs(3)[0]["data"]["text/plain"] == "42"


ORDER = "order = globals().get('order', [])\n"


def ran(name: str) -> str:
    """A cell that tells when it runs."""
    return f"{ORDER}order.append({name!r}); print(order)"


def test_cells_the_person_starts_meanwhile_run_once_in_order_after_the_run(lab: Lab, model: ScriptedModel) -> None:
    gate = lab.server.folder / "queue-gate"
    gate.unlink(missing_ok=True)
    waits = f"{ran('agent')}\nimport os, time\nwhile not os.path.exists('queue-gate'):\n    time.sleep(0.02)"
    book = open_prompt(lab, model, waits, ran("one"), ran("two"), ran("three"))
    model.will_reply(call("run_cells", cells=[book.ids[2]]), say("Run."))
    book.run(0, PROMPT, 3)
    expect(book.card("Run cell #3")).to_be_visible()
    book.cell(5).locator(".cm-content").click()
    lab.page.keyboard.press("Shift+Enter")
    book.allow("Run cell #3")
    expect(book.output(2)).to_contain_text("agent")
    book.cell(4).locator(".cm-content").click()
    lab.page.keyboard.press("Shift+Enter")
    gate.touch()
    book.over(4)
    book.over(5)
    assert [book.text(n) for n in (2, 3, 5, 4)] == [
        "['agent']\n",
        "['agent', 'one']\n",
        "['agent', 'one', 'three']\n",
        "['agent', 'one', 'three', 'two']\n",
    ]
    counts = book.counts()
    assert [counts[n] for n in (2, 1, 3, 5, 4)] == sorted(count for count in counts[1:] if count)


@pytest.mark.matrix
def test_a_queued_cell_that_the_agent_edits_runs_as_it_was_and_both_are_told(lab: Lab, model: ScriptedModel) -> None:
    book = open_prompt(lab, model, "print('as it was')", options="--yes=edit_cell")
    change = {"cell": book.ids[2], "source": "print('edited')"}
    queued = threading.Event()
    model.will_reply(
        answer("Reading", [call("read_notebook")], hold=queued),
        call("edit_cell", **change, run=True),
        call("edit_cell", **change),
        say("I see."),
    )
    book.run(0, PROMPT)
    expect(book.view).to_contain_text("Reading")
    book.run(2)
    queued.set()
    book.over(2)
    assert (book.sources()[2], book.text(2)) == ("print('edited')", "as it was\n")
    with_run, without = model.requests[-1].tool_results[-2:]
    assert "waits for its turn already, started by the user" in with_run
    assert "runs as it was" in without
    expect(book.output(PROMPT)).to_contain_text("you started it before")
    book.run(2)
    book.wait_for_text(2, "edited\n")


@pytest.mark.matrix
def test_shift_enter_on_a_cell_whose_card_waits_runs_it_once(lab: Lab, model: ScriptedModel) -> None:
    book = open_prompt(lab, model, ran("it"))
    model.will_reply(call("run_cells", cells=[book.ids[2]]), call("run_cells", cells=[book.ids[2]]), say("I see."))
    book.run(0, PROMPT)
    expect(book.card("Run cell #3")).to_be_visible()
    book.cell(2).locator(".cm-content").click()
    lab.page.keyboard.press("Shift+Enter")
    book.allow("Run cell #3")
    book.over(2)
    assert book.text(2) == "['it']\n"
    assert all(
        "waits for its turn already, started by the user" in result for result in model.requests[-1].tool_results
    )
    assert len(model.requests) == 3


@pytest.mark.matrix
def test_shift_enter_on_the_cell_that_the_agent_runs_now_runs_it_again(lab: Lab, model: ScriptedModel) -> None:
    gate = lab.server.folder / "now-gate"
    gate.unlink(missing_ok=True)
    waits = f"{ran('it')}\nimport os, time\nwhile not os.path.exists('now-gate'):\n    time.sleep(0.02)\nprint('done')"
    book = open_prompt(lab, model, waits, "order", options=ALL)
    model.will_reply(call("run_cells", cells=[book.ids[2]]), say("I see."))
    book.run(0, PROMPT)
    expect(book.output(2)).to_contain_text("it")
    book.cell(2).locator(".cm-content").click()
    lab.page.keyboard.press("Shift+Enter")
    book.run(3)
    gate.touch()
    book.over(3)
    assert book.text(2) == "['it', 'it']\ndone\n"
    assert book.outputs(3)[0]["data"]["text/plain"] == "['it', 'it']"
    assert "ok in" in model.requests[-1].tool_results[-1]
    assert "['it']\ndone" in model.requests[-1].tool_results[-1]


@pytest.mark.matrix
def test_a_cell_is_run_three_times_in_one_call(lab: Lab, model: ScriptedModel) -> None:
    book = open_prompt(lab, model, ran("it"), options=ALL)
    model.will_reply(call("run_cells", cells=[book.ids[2]] * 3), say("I see."))
    book.run(0, PROMPT)
    book.over()
    assert "ran 3 of 3 cells, 3 ok" in model.requests[-1].tool_results[-1]
    assert book.text(2) == "['it', 'it', 'it']\n"


TYPED = "the quick brown fox jumps over the lazy dog and types on and on while the agent edits"


def test_no_keystroke_is_lost_while_the_agent_edits_the_same_cell(lab: Lab) -> None:
    typed, read, written = threading.Event(), threading.Event(), ["# "]

    def one_edit_after_another(request: ModelRequest) -> Reply:
        if not request.tool_results:
            return call("read_notebook")
        read.set()
        if typed.is_set() and any(result.startswith("edited") for result in request.tool_results):
            return "Enough."
        refused = request.tool_results[-1].partition("source now:\n")[2]
        written.append(f"{refused or written[-1]}\n# {len(written)}")
        return call("edit_cell", cell=book.ids[2], source=written[-1])

    with ScriptedModel(one_edit_after_another) as model:
        book = open_prompt(lab, model, "# ", options="--yes=edit_cell")
        book.run(0, PROMPT)
        assert read.wait(timeout=WAIT / 1000)
        book.cell(2).locator(".cm-line").first.click()
        lab.page.keyboard.press("End")
        lab.page.keyboard.type(TYPED, delay=30)
        typed.set()
        book.over()
        results = model.requests[-1].tool_results
    assert TYPED in book.sources()[2]
    assert any(result.startswith("edited") for result in results)
    assert any("was changed since you read it" in result for result in results)
