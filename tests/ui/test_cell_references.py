"""Cells that an answer names by id are shown by number, in every form that a run is shown in."""

import pytest

from tests.ui.dom import parse
from tests.ui.runs import STARTED, asked, finished, said
from tests.ui.test_front_ends import Terminal, show
from vibe_jupyter.app.run_view import RunSummary
from vibe_jupyter.kernel.main_thread import MainThread
from vibe_jupyter.protocol import Cell, Event, Resource, TextDelta
from vibe_jupyter.ui.cell_references import with_cell_words
from vibe_jupyter.ui.front_end import FrontEnd
from vibe_jupyter.ui.terminal import TerminalFrontEnd
from vibe_jupyter.ui.text_prompt import TextPrompt
from vibe_jupyter.ui.transcript import Transcript

CODE_AND_CELL = """\
See {{d8dc}}, `{{d8dc}}` and ``a ` {{d8dc}}``:

```jinja
{{d8dc}}
```

1. ~~~
   {{d8dc}}
   ~~~
2. {{d8dc}} and {{gone}}, {{ name }}, {x}.
3. Cell {{d8dc}}, a cell
   {{d8dc}}, cell {{gone}}, no excell {{d8dc}}."""
SHOWN = """\
See cell 8, `{{d8dc}}` and ``a ` {{d8dc}}``:

```jinja
{{d8dc}}
```

1. ~~~
   {{d8dc}}
   ~~~
2. cell 8 and gone, {{ name }}, {x}.
3. Cell 8, a cell
   cell 8, cell gone, no excell cell 8."""


def find(reference: str) -> Cell | None:
    known = Cell(id="d8dc1234", number=8, kind="code", source="limit = 5")
    return known if known.id.startswith(reference) else None


def transcript(*events: Event) -> Transcript:
    folded = Transcript(lambda: 0.0, find_cell=find)
    for event in (STARTED, *events):
        folded.apply(event)
    return folded


def live(*events: Event) -> str:
    return "".join(part.html for part in transcript(*events).parts())


def test_the_live_view_marks_the_cell_for_the_page() -> None:
    assert 'set in <span class="vibe-cell" data-cell="d8dc1234">cell 8</span>.' in live(said("It is set in {{d8dc}}."))


def test_a_cell_that_is_announced_as_one_is_shown_by_its_number_alone() -> None:
    assert 'Cell <span class="vibe-cell" data-cell="d8dc1234">8</span> and <span' in live(
        said("Cell {{d8dc}} and {{d8dc}}")
    )


def test_code_and_what_names_no_cell_stay_as_they_are() -> None:
    html = live(said(CODE_AND_CELL))

    assert html.count("vibe-cell") == 5
    assert html.count("{{d8dc}}") == 4
    assert "and gone, {{ name }}, {x}." in html


def test_what_is_kept_has_the_number_and_no_mark() -> None:
    bundle = transcript(said("It is set in {{d8dc}}."), finished()).bundle()

    assert "It is set in cell 8." in str(bundle["text/html"])
    assert "It is set in cell 8." in str(bundle["text/plain"])
    assert "vibe-cell" not in str(bundle["text/html"])


def test_plain_text_has_numbers_outside_code() -> None:
    assert with_cell_words(CODE_AND_CELL, find) == SHOWN


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_no_half_of_a_reference_is_shown_while_an_answer_comes(size: int) -> None:
    text = "First {{d8dc}}, then {{gone}}."
    folded = transcript()
    for start in range(0, len(text), size):
        folded.apply(TextDelta(text=text[start : start + size]))
        shown = "".join(parse(part.html).text for part in folded.parts() if part.kind == "tail")
        assert "First cell 8, then gone.".startswith(shown)


def test_a_terminal_prints_the_numbers() -> None:
    terminal = Terminal()

    def make(main_thread: MainThread) -> FrontEnd:
        prompt = TextPrompt(main_thread.call, terminal.read_line, terminal.write, is_typed=lambda: True)
        folded = Transcript(lambda: 0.0, find_cell=find)
        return TerminalFrontEnd(folded, prompt, call_main=main_thread.call, write=terminal.write)

    pieces = [TextDelta(text=piece) for piece in ("It is set in {", "{d8", "dc}", "} `{{d8dc}}`")]
    show(make, [STARTED, *pieces, said("It is set in {{d8dc}} `{{d8dc}}`"), said("And {{d8dc}}."), finished()])

    assert "It is set in cell 8 `{{d8dc}}`\n" in terminal.screen
    assert "And cell 8.\n" in terminal.screen


def test_a_program_gets_the_numbers() -> None:
    summary = RunSummary()
    for event in (STARTED, said("It is set in {{d8dc}}."), finished()):
        summary.take(event)

    assert summary.reply(find).text == "It is set in cell 8."


def test_a_card_names_the_cells_that_it_asks_to_change_for_the_page() -> None:
    written = [Resource(kind="cell", value=one, access="write") for one in ("d8dc", "new")]
    shown = live(asked(resources=(*written, Resource(kind="cell", value="d8dc", access="execute"))))
    assert 'data-vibe-cells="d8dc1234"' in shown
    assert "data-vibe-cells" not in live(asked())
