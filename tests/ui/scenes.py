"""What a run can look like, as events: the scenes that the tests of look and accessibility are played with."""

import base64
import difflib
import json
import struct
import zlib

from tests.ui.runs import (
    CODE,
    STARTED,
    asked,
    code_finished,
    code_started,
    finished,
    inspected,
    planned,
    resolved,
    said,
    whole_run,
)
from vibe_jupyter.protocol import (
    DOWNLOAD_MIME,
    ApprovalRequested,
    Choice,
    Download,
    Effect,
    Event,
    Headline,
    Notice,
    Preview,
    Question,
    QuestionAsked,
    ReasoningDelta,
    ReasoningPart,
    Resource,
    TextDelta,
    ToolCall,
    ToolCallDelta,
    ToolFinished,
    ToolProgress,
    ToolStarted,
    TurnStarted,
)
from vibe_jupyter.protocol.events import MessageAdded
from vibe_jupyter.protocol.messages import AssistantMessage

TURN = TurnStarted(turn=1)
READ = Headline(verb="Read", doing="Reading", asking="Read", target="src/penguins/clean.py", note="lines 1 to 80")


def picture(width: int = 240, height: int = 120) -> str:
    """A PNG of a slope, as base64."""
    rows = b"".join(
        b"\0" + b"".join(bytes(((60 + x // 24 * 18) % 256, 120, 200 - y // 12 * 12)) for x in range(width))
        for y in range(height)
    )

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return base64.b64encode(
        b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    ).decode()


OLD = [f"line_{number} = load({number})  # as it was" for number in range(1, 61)]
NEW = [*OLD[:9], "line_10 = load(10, cache=True)", "check(line_10)", *OLD[10:47], *OLD[49:55], "done = True", *OLD[55:]]
DIFF = "\n".join(list(difflib.unified_diff(OLD, NEW, n=100, lineterm=""))[2:])
SHORT_DIFF = """@@ -1,4 +1,4 @@
 by_species = (
     penguins.groupby("species")
-    ["bill_len"].mean()
+    ["bill_length_mm"].mean().round(1)
 )"""
FILE_DIFF = "--- a/src/penguins/clean.py\n+++ b/src/penguins/clean.py\n" + "\n".join(
    list(difflib.unified_diff(OLD, NEW, n=3, lineterm=""))[2:]
)
NEW_FILE = "--- /dev/null\n+++ b/tests/test_clean.py\n" + "\n".join(
    list(difflib.unified_diff([], CODE.split("\n"), lineterm=""))[2:]
)
LONG_CODE = "\n".join(
    f"total_{number} = sum(value * {number} for value in values if value > {number})  # step {number}"
    for number in range(1, 401)
)
COMMAND = "git log --since='2 weeks' --format='%h %an %s' -- src/penguins tests | sort -k2 | uniq -c | head -n 20"

_ANSWER = r"""## What the penguins weigh

**Gentoo bills are as long as Chinstraps' but their bodies are 1.3 kg heavier.** The fit is $m = a + b\,\ell$ with
$R^2 = 0.64$, and the sum is

$$\sum_{i=1}^{n} (m_i - \hat m_i)^2 = 1.2 \cdot 10^5$$

| species | bill, mm | body, g | island |
|:--|--:|--:|:-:|
| Adelie | 38.8 | 3,701 | Torgersen, Biscoe and Dream, all three of them |
| Chinstrap | 48.8 | 3,733 | Dream |
| Gentoo | 47.5 | 5,076 | Biscoe |

1. Rows without a weight were left out.
   - There are two of them.
2. See `penguins.groupby("species")` and [the paper](https://example.org/a/long/address/of/a/paper?with=parameters).

> A note that is quoted.

```python
penguins.dropna().groupby("species", observed=True)[["bill_length_mm", "body_mass_g"]].agg(["mean", "std"]).round(1)
```

A word without end: Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaftsvorsitzender,
and `a_very_long_name_in_code_that_goes_on_and_on_and_on_without_any_place_to_break_it_in_two_parts_at_all_ever`.
"""
ANSWER = _ANSWER.replace("> A note", f"![a slope](data:image/png;base64,{picture()})\n\n> A note")
RIGHT_TO_LEFT = """طيور البطريق **جنتو** أثقل من غيرها بمقدار 1.3 كغ، وطول المنقار `bill_length_mm` متقارب.

- אדלי: 38.8 מ״מ
- Gentoo: 47.5 mm

| النوع | الوزن |
|--|--|
| جنتو | 5,076 |
"""
REFUSED = (
    "The model server refused the key (401). Provider `mistral` reads it from `MISTRAL_API_KEY`. Set a new one with "
    "`%vibe key mistral`, then run this cell again; nothing was lost."
)
EMOJI = "All **344** penguins are fine 🐧👍🏽 – the family 👩‍👩‍👧‍👦 waves the flag 🏳️‍🌈. Keycap 1️⃣, heart ❤️."


def card(kind: str, text: str, headline: Headline, reason: str, **fields: object) -> ApprovalRequested:
    """A card for something that is not run_code."""
    known: dict[str, object] = {
        "call": ToolCall(id="c1", name="edit_cell", arguments=json.dumps({"source": text})),
        "headline": headline,
        "preview": Preview.model_validate({"kind": kind, "text": text, **fields.pop("preview", {})}),  # type: ignore[dict-item]
        "reason": reason,
        "resources": (Resource(kind="path", value="src/penguins/clean.py", access="write"),),
        "remember_as": "edit_cell",
    }
    return asked(**(known | fields))  # type: ignore[arg-type]


def headline(verb: str, doing: str, asking: str, target: str = "", note: str = "") -> Headline:
    return Headline(verb=verb, doing=doing, asking=asking, target=target, note=note)


EDIT_CELL = headline("Edited and ran cell", "Editing and running cell", "Edit and run cell", "[6]")
EDIT_FILE = headline("Edited", "Editing", "Edit", "src/penguins/clean.py")
WRITE_FILE = headline("Wrote", "Writing", "Write a new file", "tests/test_clean.py")
BROUGHT = """
.vibe/config.toml: model devstral at http://127.0.0.1:8080/v1
.vibe/config.toml: bash may run without asking
runs .vibe/tools/penguins.py (1,204 bytes)""".strip()
COLOUR = Question(
    question="Which colour shall the bars have?",
    header="Colour",
    options=(Choice(label="Red", description="As in the paper"), Choice(label="Blue", description="For the web")),
)
SIZES = Question(
    question="Which sizes do you need, of all that the page can hold without a second column?",
    header="Sizes",
    options=tuple(Choice(label=label) for label in ("Small", "Medium", "Large")),
    multi_select=True,
)
ASKING = ToolStarted(call_id="q", name="ask_user_question", headline=headline("Asked", "Asking", "Ask"))
WHY = Question(question="Why were the rows of 2009 left out?")
RAN_COMMAND = headline("Ran", "Running", "Run a command in the shell", note="who changed the cleaning lately")


def begin(*events: Event) -> list[Event]:
    """A run that has looked at a variable."""
    return [
        STARTED,
        TURN,
        TextDelta("I will look at the data first."),
        said("I will look at the data first."),
        *inspected(),
        *events,
    ]


def thought(text: str) -> MessageAdded:
    return MessageAdded(message=AssistantMessage(parts=(ReasoningPart(text=text),), stop_reason="tool_calls"))


def failed_step(call_id: str = "c9") -> list[Event]:
    output = "Traceback (most recent call last):\n  File \"<cell>\", line 3\nKeyError: 'bill_len'\n"
    return [
        code_started(call_id),
        code_finished(call_id, "error", output, summary="KeyError: 'bill_len'"),
    ]


def steps(count: int) -> list[Event]:
    """Many calls that ran, with a failed and a denied one among them."""
    out: list[Event] = []
    for number in range(count):
        call = f"n{number}"
        if number % 50 == 7:
            out += failed_step(call)
        elif number % 50 == 20:
            out += [
                asked(call),
                resolved(call, allowed=False, message="not now"),
                code_finished(call, "denied", "", seconds=0.0),
            ]
        elif number % 3 == 0:
            out += inspected(call)
        elif number % 3 == 1:
            out += [
                ToolStarted(call_id=call, name="read_file", headline=READ),
                ToolFinished(
                    call_id=call, name="read_file", headline=READ, outcome="ok", summary="80 lines", seconds=0.0
                ),
            ]
        else:
            out += [code_started(call), code_finished(call, output="\n".join(f"row {row}" for row in range(30)))]
    return out


def looks(*names: str, tool: str = "read_file") -> list[Event]:
    """Calls of one tool one right after the other; the last one still runs."""
    out: list[Event] = []
    for name in names:
        line = headline("Read", "Reading", "Read", name)
        out.append(ToolStarted(call_id=name, name=tool, headline=line))
        failed = "missing" in name
        end = {"outcome": "error", "summary": "No such file."} if failed else {"outcome": "ok", "summary": "80 lines"}
        known = {"call_id": name, "name": tool, "headline": line, "seconds": 0.1, "display": {"text/plain": "x = 1\n"}}
        out.append(ToolFinished.model_validate(known | end))
    return out[:-1]


MEASURED = headline("Called", "Calling", "Call", "measure", "of lab")
ARGUMENTS = Preview(kind="code", text='{\n  "probe": "north"\n}', language="json")
SILENCE = b"RIFF" + struct.pack("<I", 236) + b"WAVEfmt " + struct.pack("<IHHIIHH", 16, 1, 1, 8000, 8000, 1, 8)
SOUND = Download(
    name="north.wav",
    data=base64.b64encode(SILENCE + b"data" + struct.pack("<I", 200) + b"\x80" * 200).decode(),
    path="",
    media_type="audio/wav",
)

HIGH_COMMAND = "cd analysis && rm -rf cache ../data/raw; git push --force origin main"
HIGH_EFFECTS = (
    Effect(part="cd analysis", text="Changes to the folder `analysis`", tag="Harmless", risk="low"),
    Effect(
        part="rm -rf cache ../data/raw",
        text="Deletes 2 folders with 226 files (1.4 GB); they don't go to the trash",
        detail=(
            "analysis/cache: 14 files, 3.0 MB · data/raw: 212 files, 1.4 GB. Runs only if the part before works (`&&`)."
        ),
        tag="Can't be undone",
        risk="high",
        action="delete 226 files",
    ),
    Effect(
        part="git push --force origin main",
        text="Force-pushes: replaces the branch `main` on `github.com/acme/penguins`",
        detail=(
            "3 commits exist only there (as of the last fetch) and would be lost. "
            "Runs even if the part before fails (`;`)."
        ),
        tag="Affects others",
        risk="high",
        action="force-push",
    ),
)
READ_FILE = Headline(verb="Read", doing="Reading", asking="Read", target="/home/me/surveys/2025.csv")

SCENES: dict[str, list[Event]] = {
    "running": begin(code_started(), ToolProgress(call_id="c1", text="epoch 1: loss 0.52\nepoch 2: loss 0.41\n")),
    "reads": begin(*looks("src/clean.py", "src/load.py", "src/missing.py", "tests/test_clean.py", "README.md")),
    "reasoning": [
        STARTED,
        TURN,
        ReasoningDelta("Let me see"),
    ],
    "plan": [
        STARTED,
        TURN,
        *planned("p1", Look="to do", Plot="to do"),
        *inspected(),
        *planned("p2", Look="done", Plot="in progress", Fit="cancelled", Write="to do"),
        code_started(),
    ],
    "thought": [
        STARTED,
        TURN,
        ReasoningDelta("x"),
        thought("The user wants means.\nI look at the columns first."),
        *inspected(),
    ],
    "streaming": begin(TextDelta("The bills are **not** all the same.\n\nFirst the mean of each spe")),
    "writing": begin(ToolCallDelta(position=0, name="run_code", arguments="{")),
    "card-code": begin(asked()),
    "card-long": begin(asked(code=LONG_CODE)),
    "card-cell-diff": begin(
        card(
            "diff",
            SHORT_DIFF,
            EDIT_CELL,
            "changes your notebook · runs code in this kernel",
            remember_as="edit_cell+run_cells",
            resources=(
                Resource(kind="cell", value="x", access="write"),
                Resource(kind="cell", value="x", access="execute"),
            ),
        ),
    ),
    "card-diff": begin(card("diff", DIFF, EDIT_CELL, "changes your notebook")),
    "card-file-diff": begin(card("diff", FILE_DIFF, EDIT_FILE, "changes a file")),
    "card-new-file": begin(card("diff", NEW_FILE, WRITE_FILE, "makes a file")),
    "card-command": begin(
        card(
            "command",
            COMMAND,
            RAN_COMMAND,
            "runs a command",
            remember_as="git log *",
            resources=(Resource(kind="command", value=COMMAND, access="execute"),),
        ),
    ),
    "card-high": begin(
        asked(
            preview=Preview(kind="command", text=HIGH_COMMAND, language="bash", edits="command"),
            call=ToolCall(id="c1", name="bash", arguments=json.dumps({"command": HIGH_COMMAND})),
            headline=RAN_COMMAND,
            reason="runs a shell command: deletes 2 folders with 226 files (1.4 GB)",
            remember_as=None,
            risk="high",
            effects=HIGH_EFFECTS,
            allow="Delete 226 files and force-push",
        )
    ),
    "card-low": begin(
        asked(
            preview=Preview(kind="text", text="Read /home/me/surveys/2025.csv and send it to the model."),
            headline=READ_FILE,
            reason="reads outside the project: /home/me/surveys/2025.csv",
            resources=(Resource(kind="path", value="/home/me/surveys/2025.csv", access="read"),),
            remember_as=None,
            risk="low",
        )
    ),
    "card-hidden": begin(
        card(
            "command",
            "echo 'safe\u202e; fr- mr ~\u202c' \u200b# \x1b[8mhidden\x1b[0m\a\nrm \u00a0 -r" + " " * 90 + "build",
            RAN_COMMAND,
            "runs a command · changes files outside the project",
            remember_as=None,
        ),
    ),
    "card-text": begin(
        card(
            "text",
            "Read ~/.ssh/config, all lines, and send it to the model.",
            headline("Read", "Reading", "Read", "~/.ssh/config"),
            "reads outside the project: /home/me/.ssh/config",
            remember_as=None,
        ),
    ),
    "card-trust": [
        card(
            "text",
            BROUGHT,
            headline("Asked to trust", "Asking to trust", "Trust", "/home/me/penguins"),
            "it has its own settings or tools",
            approval_id="trust",
            resources=(),
            remember_as=None,
            allow="Trust this folder",
        )
    ],
    "card-question": begin(ASKING, QuestionAsked(question_id="one", call_id="q", questions=(COLOUR,))),
    "card-questions": begin(
        ASKING,
        QuestionAsked(question_id="many", call_id="q", asker="the server github", questions=(COLOUR, SIZES, WHY)),
    ),
    "denied": begin(
        asked(),
        resolved(allowed=False, message="use the median instead"),
        code_finished(outcome="denied", output="", summary="", seconds=0.0),
        TURN,
        TextDelta("Then the median."),
    ),
    "failed-step": begin(*failed_step(), TURN, TextDelta("The column has another name.")),
    "notices": begin(
        Notice(level="warning", text="The server is busy (429). Retrying in 8 s."),
        Notice(level="info", text="`penguins` is large: the model sees a summary."),
    ),
    "steps-200": [STARTED, TURN, *steps(200), asked("last")],
    "long-answer": begin(TextDelta(ANSWER), said(ANSWER)),
    "right-to-left": begin(said(RIGHT_TO_LEFT)),
    "emoji": begin(said(EMOJI)),
    "outside-call": begin(
        ToolStarted(call_id="c1", name="mcp__lab__measure", headline=MEASURED, preview=ARGUMENTS),
        ToolProgress(call_id="c1", text="warming up", done=3, total=10),
    ),
    "sound": begin(
        ToolStarted(call_id="c1", name="mcp__lab__measure", headline=MEASURED, preview=ARGUMENTS),
        ToolFinished(
            call_id="c1",
            name="mcp__lab__measure",
            headline=MEASURED,
            outcome="ok",
            summary="ok · 1 file",
            seconds=1.0,
            display={DOWNLOAD_MIME: [SOUND.model_dump(mode="json")]},
        ),
    ),
}
"""Runs that go on."""

ENDS: dict[str, list[Event]] = {
    "finished": whole_run(),
    "failed": [
        *begin(*failed_step()),
        finished(
            "error",
            error=REFUSED,
        ),
    ],
    "denied": [*SCENES["denied"], finished("refused")],
    "interrupted": [*SCENES["running"], finished("interrupted")],
    "steps-200": [
        *SCENES["steps-200"],
        resolved("last"),
        code_started("last"),
        code_finished("last"),
        said("All done."),
        finished(),
    ],
    "long-answer": [*SCENES["long-answer"], finished()],
    "right-to-left": [*SCENES["right-to-left"], finished()],
    "emoji": [*SCENES["emoji"], finished()],
    "edited": [
        *begin(card("diff", FILE_DIFF, EDIT_FILE, "changes a file"), resolved()),
        ToolStarted(call_id="c1", name="edit_file", headline=EDIT_FILE, preview=Preview(kind="diff", text=FILE_DIFF)),
        ToolFinished(call_id="c1", name="edit_file", headline=EDIT_FILE, outcome="ok", summary="+3 −3", seconds=0.1),
        *failed_step(),
        said("The file is **changed**."),
        finished(),
    ],
}
"""Runs that are over: what the notebook keeps."""
