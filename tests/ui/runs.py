"""Events of a run, and the page as a plain fold of patches."""

import json
from collections.abc import Iterable, Sequence

from vibe_jupyter.protocol import (
    PLAN_MIME,
    TABLE_MIME,
    ApprovalRequested,
    ApprovalResolved,
    AssistantMessage,
    Event,
    Headline,
    MessageAdded,
    Plan,
    PlanItem,
    PlanStatus,
    Preview,
    Resource,
    RunFinished,
    RunStarted,
    Table,
    TextDelta,
    TextPart,
    ToolCall,
    ToolFinished,
    ToolStarted,
    TurnStarted,
    Usage,
)
from vibe_jupyter.ui.front_end import EVERYTHING, RunRetention
from vibe_jupyter.ui.page import PatchOutbox, ViewPart, ViewPatch
from vibe_jupyter.ui.transcript import Transcript

CODE = "from scipy.stats import linregress\nprint('slope', 1.5)  # mm, g"
RAN = Headline(verb="Ran code", doing="Running code", asking="Run code", target="", note="fit a line per species")
INSPECTED = Headline(verb="Inspected", doing="Inspecting", asking="Inspect", target="penguins")
TABLE = Table(columns=("column", "type", "nulls"), rows=(("species", "str", "0"), ("bill_length_mm", "float64", "2")))

STARTED = RunStarted(run_id="r1", model="devstral-2", provider="api.mistral.ai", agent="default")


def finished(reason: str = "stop", **fields: object) -> RunFinished:
    """The end of a run of two turns."""
    usage = Usage(prompt_tokens=6_300, cached_tokens=5_100, completion_tokens=900)
    return RunFinished.model_validate({"reason": reason, "turns": 2, "seconds": 21.0, "usage": usage, **fields})


def said(text: str, *calls: ToolCall, stop_reason: str = "stop", in_history: bool = True) -> MessageAdded:
    """A whole answer."""
    parts = [*([TextPart(text=text)] if text else []), *calls]
    message = AssistantMessage.model_validate({"parts": parts, "stop_reason": stop_reason})
    return MessageAdded(message=message, in_history=in_history)


def code_call(call_id: str = "c1", code: str = CODE) -> ToolCall:
    return ToolCall(id=call_id, name="run_code", arguments=json.dumps({"code": code}))


def asked(call_id: str = "c1", code: str = CODE, **fields: object) -> ApprovalRequested:
    """A card for code."""
    known: dict[str, object] = {
        "approval_id": f"approval-{call_id}",
        "call": code_call(call_id, code),
        "headline": RAN,
        "preview": Preview(kind="code", text=code, language="python", edits="code"),
        "reason": "runs code in this kernel",
        "resources": (Resource(kind="code", value=code, access="execute"),),
        "remember_as": "run_code",
        "digest": "0" * 64,
    }
    return ApprovalRequested.model_validate(known | fields)


def resolved(call_id: str = "c1", *, allowed: bool = True, **fields: object) -> ApprovalResolved:
    known = {"approval_id": f"approval-{call_id}", "call_id": call_id, "allowed": allowed, "by": "person"}
    return ApprovalResolved.model_validate(known | fields)


def code_started(call_id: str = "c1", code: str = CODE) -> ToolStarted:
    preview = Preview(kind="code", text=code, language="python", edits="code")
    return ToolStarted(call_id=call_id, name="run_code", headline=RAN, preview=preview)


def code_finished(
    call_id: str = "c1", outcome: str = "ok", output: str = "slope 1.5\n", **fields: object
) -> ToolFinished:
    known: dict[str, object] = {
        "call_id": call_id,
        "name": "run_code",
        "headline": RAN,
        "outcome": outcome,
        "summary": "1 line",
        "seconds": 0.2,
        "display": {"text/plain": output} if output else {},
    }
    return ToolFinished.model_validate(known | fields)


def inspected(call_id: str = "c0") -> list[Event]:
    """A step that was never asked about."""
    return [
        ToolStarted(call_id=call_id, name="inspect", headline=INSPECTED),
        ToolFinished(
            call_id=call_id,
            name="inspect",
            headline=INSPECTED,
            outcome="ok",
            summary="344 × 8, nulls in 5 columns",
            seconds=0.1,
            display={TABLE_MIME: TABLE.model_dump(mode="json")},
        ),
    ]


def planned(call_id: str, **steps: PlanStatus) -> list[Event]:
    """The model writes its plan; the words of a step have no spaces here."""
    plan = Plan(items=tuple(PlanItem(words=words, status=status) for words, status in steps.items()))
    line = Headline(verb="Planned", doing="Planning", asking="Plan", target="")
    known = {"call_id": call_id, "name": "todo", "headline": line}
    end = {"outcome": "ok", "seconds": 0.0, "display": {PLAN_MIME: plan.model_dump(mode="json")}}
    return [ToolStarted.model_validate(known), ToolFinished.model_validate(known | end)]


def whole_run() -> list[Event]:
    """A question, a look, approved code, an answer."""
    first = "I will look at the data first."
    answer = "**Gentoo bills are as long as Chinstraps'.** The slope is `1.5`."
    return [
        STARTED,
        TurnStarted(turn=1),
        *(TextDelta(piece) for piece in ("I will look", " at the data", " first.")),
        said(first, code_call(), stop_reason="tool_calls"),
        *inspected(),
        asked(),
        resolved(),
        code_started(),
        code_finished(),
        TurnStarted(turn=2),
        *(TextDelta(piece) for piece in (answer[:20], answer[20:])),
        said(answer),
        finished(),
    ]


def transcript(events: Iterable[Event], keep: RunRetention = EVERYTHING) -> Transcript:
    """The fold of some events; its clock stands still."""
    folded = Transcript(lambda: 0.0, keep=keep)
    for event in events:
        folded.apply(event)
    return folded


def live(events: Iterable[Event]) -> str:
    """The HTML of the live view."""
    return "\n".join(part.html for part in transcript(events).parts())


def kept(events: Iterable[Event]) -> dict[str, str]:
    """The kept form."""
    return {kind: str(content) for kind, content in transcript(events).bundle().items()}


def page(patches: Iterable[ViewPatch], parts: Sequence[ViewPart] = ()) -> list[ViewPart]:
    """What a page shows that applies patches as `vibe_jupyter.ui.page` says, and knows nothing else."""
    shown = list(parts)
    for patch in patches:
        at = next((at for at, part in enumerate(shown) if part.id == patch["id"]), None)
        if patch.get("remove"):
            assert at is not None, patch
            del shown[at]
        elif at is not None:
            had = shown[at].html.encode("utf-16-le")[: 2 * patch.get("keep", 0)].decode("utf-16-le")
            shown[at] = ViewPart(patch["id"], patch["kind"], had + patch["html"])
        else:
            has_foot = bool(shown) and shown[-1].kind == "foot"
            part = ViewPart(patch["id"], patch["kind"], patch["html"])
            before = [at for at, one in enumerate(shown) if one.id == patch.get("before")]
            shown.insert(before[0] if before else len(shown) - has_foot, part)
    return shown


def message(patches: Iterable[ViewPatch], outbox: PatchOutbox | None = None) -> list[ViewPatch]:
    """Patches as one message of a run's outbox, by default its first."""
    outbox = PatchOutbox() if outbox is None else outbox
    outbox.add(patches)
    return outbox.take()
