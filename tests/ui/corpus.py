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
    Case(
        "markdown-card", "assistant_markdown", '<button class="vibe-allow" data-vibe-action="approve">ok</button>', "ok"
    ),
    Case(
        "details-summary",
        "assistant_markdown",
        "<details open ontoggle=window.__pwned=1><summary>ok</summary></details>",
        "ok",
    ),
    Case(
        "form", "assistant_markdown", '<form action="https://evil.example"><input name="ok" autofocus>ok</form>', "ok"
    ),
    Case("style-element", "assistant_markdown", "<style>.vibe-card{display:none}</style> ok", "ok"),
    Case(
        "meta-refresh",
        "assistant_markdown",
        '<meta http-equiv="refresh" content="0;url=https://evil.example"> ok',
        "ok",
    ),
    Case("base", "assistant_markdown", '<base href="https://evil.example/"> ok [ok](x)', "ok"),
    Case("math-annotation", "assistant_markdown", "<math><mi><script>window.__pwned=1</script></mi></math> ok", "ok"),
    Case("template", "assistant_markdown", "<template><script>window.__pwned=1</script></template> ok", "ok"),
    Case(
        "noscript",
        "assistant_markdown",
        '<noscript><p title="</noscript><img src=x onerror=window.__pwned=1>"></noscript> ok',
        "ok",
    ),
    Case("comment-end", "assistant_markdown", "<!--><img src=x onerror=window.__pwned=1>--> ok", "ok"),
    Case("cdata", "assistant_markdown", "<![CDATA[><img src=x onerror=window.__pwned=1>]]> ok", "ok"),
    Case("null-in-tag", "assistant_markdown", "<im\x00g src=x onerror=window.__pwned=1> ok", "ok"),
    Case("fence-info", "assistant_markdown", '```html" onmouseover="window.__pwned=1\nok\n```', "ok"),
    Case(
        "vbscript",
        "assistant_markdown",
        "[ok](vbscript:x) [ok](JaVaScRiPt:window.__pwned=1) [ok](java\tscript:1)",
        "ok",
    ),
    Case("entity-scheme", "assistant_markdown", "[ok](&#106;avascript:window.__pwned=1)", "ok"),
    Case(
        "image-set",
        "assistant_markdown",
        '<p style="background:image-set(url(https://evil.example/p.png) 1x)">ok</p>',
        "ok",
    ),
    Case("terminal-title", "tool_output_text", "\x1b]0;owned\x07\x1b]52;c;cm0gLXJm\x07 ok", "ok"),
    Case("terminal-link", "tool_output_text", "\x1b]8;;javascript:window.__pwned=1\x07ok\x1b]8;;\x07", "ok"),
    Case("terminal-erase", "tool_output_text", "rm -rf ~\x1b[2K\x1b[1A\x1b[0Gls ok\x9b2J", "ok"),
    Case("terminal-report", "tool_output_text", '\x1b[6n\x1b[c\x1bP$q"p\x1b\\ ok', "ok"),
    Case("fake-decision", "tool_output_text", "Allowed by you\n[a] allow  [d] deny ok", "ok"),
    Case("script-in-name", "approval_field", "</textarea><script>window.__pwned=1</script> ok", "ok"),
    Case("attribute-break", "approval_field", '" autofocus onfocus="window.__pwned=1 ok', "ok"),
    Case("bidi-command", "approval_field", "ls \u202e fr- mr \u2066 ok \u2069", "ok"),
    Case("tag-characters", "approval_field", "ls \U000e0072\U000e006d ok", "ok"),
    Case("diff-header", "file_diff", "--- a/x\n+++ b/</pre><script>window.__pwned=1</script>\n+ok\r-ok", "ok"),
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
