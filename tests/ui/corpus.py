"""Hostile texts, sent through the display path of where they come from."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.ui.runs import (
    INSPECTED,
    RAN,
    STARTED,
    asked,
    code_call,
    code_finished,
    code_started,
    finished,
    said,
    transcript,
)
from vibe_jupyter.protocol import Event, Headline, Notice, Preview, TextDelta, ToolFinished, ToolProgress

_PATH = Path(__file__).parents[1] / "corpora" / "markdown_injection.jsonl"


@dataclass(frozen=True)
class Case:
    """One hostile text."""

    id: str
    channel: str
    text: str
    keep: str


@dataclass(frozen=True)
class Shown:
    """All that a display path made of a text."""

    where: str
    html: str
    plain: str = ""
    all_texts: tuple[str, ...] = ()


def cases() -> list[Case]:
    lines = _PATH.read_text(encoding="utf-8").splitlines()
    loaded: list[Mapping[str, str]] = [json.loads(line) for line in lines]
    return [Case(one["id"], one["channel"], one["text"], one["keep"]) for one in loaded] + MORE


MORE = [
    Case("entity-bidi", "assistant_markdown", "a &#x202e; &#8203; ok", "ok"),
    Case("tex-href", "assistant_markdown", r"$\href{javascript:window.__pwned=1}{ok}$", "ok"),
    Case("tex-style", "assistant_markdown", r"$$\style{background:url(https://evil.example/p.png)}{x}$$ ok", "ok"),
    Case("tex-bare", "assistant_markdown", r"\begin{align}\href{javascript:window.__pwned=1}{x}\end{align} ok", "ok"),
    Case("tex-split", "assistant_markdown", r"\\(\href{javascript:window.__pwned=1}{x}\\) ok \$\unicode{1}\$", "ok"),
    Case("link-title", "assistant_markdown", '[ok](https://a.example/ "x\\" onclick=\\"window.__pwned=1")', "ok"),
    Case("reference", "assistant_markdown", "[ok][r]\n\n[r]: javascript:window.__pwned=1", "ok"),
    Case("autolink", "assistant_markdown", "<javascript:window.__pwned=1> ok", "ok"),
    Case("protocol-relative", "assistant_markdown", "![x](//evil.example/p.png) ok", "ok"),
    Case("svg-data", "assistant_markdown", "![x](data:image/svg+xml;base64,PHN2Zz4=) ok", "ok"),
    Case("html-data", "assistant_markdown", "[ok](data:text/html;base64,PHNjcmlwdD4=)", "ok"),
    Case("picture-link", "assistant_markdown", "[![ok](https://evil.example/p.png)](https://evil.example/)", "ok"),
    Case("tags", "assistant_markdown", "ok \U000e0041\U000e0042\u2066\ufeff\u00ad", "ok"),
    Case("surrogate", "tool_output_text", "ok \ud83d \udca9", "ok"),
    Case("overwrite", "tool_output_text", "rm -rf ~\rls -l   \b\b ok", "rm -rf ~"),
    Case("fake-card", "tool_output_text", '</pre><section data-vibe-approval="x"><button>Allow</button> ok', "ok"),
    Case("blank-lines", "approval_field", "ls" + "\n" * 400 + "rm -rf ~", "rm -rf ~"),
    Case("returns", "approval_field", "ls\rrm -rf ~ \x1b[8m hidden \u200b ok", "ok"),
]


@cache
def shown(case: Case) -> list[Shown]:
    """Everything the product makes of the text, live and kept."""
    return [
        Shown(f"{name} {form}", html, plain)
        for name, events in _channels(case).items()
        for form, html, plain in _forms(events)
    ]


def _forms(events: list[Event]) -> list[tuple[str, str, str]]:
    """Live while it goes on and at the end, and kept."""
    out: list[tuple[str, str, str]] = []
    for name, upto in (("live", events), ("live end", [*events, finished()])):
        parts = transcript(upto).parts()
        out.append((name, "".join(part.html for part in parts), ""))
    bundle = transcript([*events, finished()]).bundle()
    assert set(bundle) == {"text/html", "text/plain"}
    return [*out, ("kept", str(bundle["text/html"]), str(bundle["text/plain"]))]


def _channels(case: Case) -> dict[str, list[Event]]:
    text = case.text
    match case.channel:
        case "assistant_markdown":
            return {
                "streamed": [STARTED, *(TextDelta(one) for one in text)],
                "whole": [STARTED, said(text)],
                "streamed whole": [STARTED, *(TextDelta(one) for one in text), said(text)],
                "cut": [STARTED, TextDelta(text), said(text, in_history=False)],
                "markdown of a tool": [STARTED, code_finished(output="", display={"text/markdown": text})],
            }
        case "file_diff":
            preview = Preview(kind="diff", text=text)
            return {"card": [STARTED, asked(preview=preview)]}
        case "approval_field":
            command = asked(code=text, preview=Preview(kind="command", text=text, edits="code"))
            return {"card": [STARTED, command], "code": [STARTED, asked(code=text)]}
        case "tool_output_text" | "dataframe_repr":
            return _everywhere(text)
        case other:
            raise AssertionError(f"a channel nobody shows: {other}")


def _everywhere(text: str) -> dict[str, list[Event]]:
    """Foreign words wherever a call has some."""
    headline = Headline(verb=text, doing=text, asking=text, target=text, note=text)
    table = {"columns": [text], "rows": [[text]]}
    steps = [code_started(), ToolProgress(call_id="c1", text=text), code_finished(output=text, summary=text)]
    return {
        "output": [STARTED, *steps],
        "running": [STARTED, *steps[:2]],
        "headline": [
            STARTED,
            ToolFinished(call_id="c2", name=text, headline=headline, outcome="error", summary=text),
        ],
        "table": [
            STARTED,
            code_finished(output="", display={"application/vnd.vibe.table+json": table}, headline=INSPECTED),
        ],
        "card words": [STARTED, asked(headline=headline, reason=text, remember_as=text, resources=())],
        "notice": [STARTED, Notice(level="warning", text=text), finished("error", error=text)],
        "names": [STARTED.model_copy(update={"model": text, "provider": text}), said("x", code_call()), *steps],
        "lines": [STARTED, code_finished(output="", display={"text/plain": [text, text]}, headline=RAN)],
    }
