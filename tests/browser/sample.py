"""A view with one part of every kind, in the HTML the kernel makes."""

from vibe_jupyter.ui.icons import icon_html

CODE = """\
<section class="vibe-card" role="group" tabindex="0" aria-label="Approval: Run code" data-vibe-approval="a1"
 data-vibe-edits="code"><header><b>Run code</b><span class="vibe-note">fit a line per species</span>
<span class="vibe-why">runs code in this kernel</span></header><pre class="vibe-code"><code>
<span class="vibe-line"><span class="vibe-k">from</span> scipy.stats <span class="vibe-k">import</span> \
linregress</span>
<span class="vibe-line"><span class="vibe-k">for</span> name, g <span class="vibe-k">in</span> \
penguins.dropna().groupby(<span class="vibe-s">"species"</span>):</span>
<span class="vibe-line">    fit = linregress(g.bill_length_mm, g.body_mass_g)  \
<span class="vibe-c"># mm, g</span></span>
<span class="vibe-line"></span>
<span class="vibe-line">    print(name, round(fit.slope, <span class="vibe-m">1</span>))</span></code></pre>
<textarea class="vibe-editor" hidden aria-label="Edit the code before it runs">from scipy.stats import linregress
for name, g in penguins.dropna().groupby("species"):
    print(name)</textarea>
<p class="vibe-hint">Code that runs here can do anything your account can: “for this session” lets the agent run any \
code without asking again.</p><footer>
<button type="button" class="vibe-button vibe-primary" data-vibe-action="approve">Allow once<kbd>⏎</kbd></button>
<button type="button" class="vibe-button" data-vibe-action="approve-session">Allow for this session</button>
<button type="button" class="vibe-button" data-vibe-action="edit">Edit<kbd>E</kbd></button>
<span class="vibe-spacer"></span>
<button type="button" class="vibe-button" data-vibe-action="deny">Deny…<kbd>Esc</kbd></button></footer>
<div class="vibe-deny" hidden><input type="text" class="vibe-deny-message" aria-label="Tell the agent why (optional)" \
placeholder="Tell the agent why (optional)"><button type="button" data-vibe-action="deny-now" \
class="vibe-button">Deny</button></div></section>""".replace(">\n<", "><")

DIFF = """\
<section class="vibe-card" role="group" tabindex="0" aria-label="Approval: Edit cell" data-vibe-approval="a2">
<header><b>Edit cell [6]</b><span class="vibe-why">changes your notebook</span></header><pre class="vibe-code"><code>
<span class="vibe-line">by_species = (</span><span class="vibe-line" data-change="del">    ["bill_len"].mean()</span>
<span class="vibe-line" data-change="add">    [<span class="vibe-s">"bill_length_mm"</span>].mean()</span>
<span class="vibe-line">)</span></code></pre><footer>
<button type="button" class="vibe-button vibe-primary" data-vibe-action="approve">Allow once<kbd>⏎</kbd></button>
<span class="vibe-spacer"></span>
<button type="button" class="vibe-button" data-vibe-action="deny">Deny…<kbd>Esc</kbd></button></footer></section>\
""".replace(">\n<", "><")


GROWING = '<div class="vibe-prose"><p>The slope is 4</p></div>'
"""An answer that is being written."""


def step(icon: str, what: str, came: str, *, outcome: str = "ok", detail: str = "") -> str:
    """One quiet line."""
    spans = (
        f'{icon_html(icon)}<span class="vibe-what">{what}</span>'
        f'<span class="vibe-came">{came}</span><span class="vibe-time">0.1 s</span>'
    )
    if not detail:
        return f'<div class="vibe-step" data-outcome="{outcome}">{spans}</div>'
    return (
        f'<details class="vibe-step" data-outcome="{outcome}"><summary>{spans}</summary>'
        f'<div class="vibe-detail">{detail}</div></details>'
    )


def foot(state: str, words: str, *, stop: bool = True) -> str:
    """The last line."""
    button = (
        '<span class="vibe-spacer"></span>'
        '<button type="button" class="vibe-button vibe-stop" data-vibe-action="stop">Stop</button>'
    )
    return (
        f'<div class="vibe-foot" data-state="{state}"><span class="vibe-state" aria-live="polite">'
        f'<i class="vibe-dot"></i>{words}</span><span>devstral-2</span><span>turn 3</span>'
        f'<span>4.1k tokens</span><span class="vibe-clock" data-vibe-clock="9.2">9 s</span>'
        f"{button if stop else ''}</div>"
    )


def part(id: str, kind: str, html: str) -> dict[str, str]:
    """As the kernel sends it."""
    return {"id": id, "kind": kind, "html": html}


TABLE = (
    "<table><thead><tr><th>column</th><th>type</th><th>nulls</th></tr></thead><tbody>"
    "<tr><td>species</td><td>str</td><td>0</td></tr><tr><td>bill_length_mm</td><td>float64</td><td>2</td></tr>"
    "</tbody></table>"
)
PARTS = [
    part("t1", "prose", '<div class="vibe-prose"><p>I will look at the <code>penguins</code> first.</p></div>'),
    part("s1", "step", step("read", "<b>Listed</b> the variables", "9 names")),
    part("s2", "step", step("inspect", "<b>Inspected</b> <code>penguins</code>", "344 × 8", detail=TABLE)),
    part(
        "s3",
        "step",
        step(
            "failed",
            "<b>Ran</b> code",
            "KeyError: 'x'",
            outcome="error",
            detail='<pre class="vibe-output">KeyError</pre>',
        ),
    ),
    part(
        "n1", "notice", '<div class="vibe-notice" data-level="warning">The server is busy; trying again in 2 s.</div>'
    ),
    part("a2", "card", DIFF),
    part("a1", "card", CODE),
    part(
        "e1",
        "error",
        '<div class="vibe-error" role="alert"><b>The server refused the key (401).</b> Set a new one.</div>',
    ),
    part("t2", "tail", GROWING),
    part("foot", "foot", foot("waiting", "Waiting for you")),
]
