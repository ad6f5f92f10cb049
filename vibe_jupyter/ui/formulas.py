"""Which formulas may reach MathJax: only ones made of commands that draw.

TeX in a notebook can make links, classes, styles and macros. A formula is let through when every command in it is on
the list; any other is shown as its source.
"""

import re

FORMULA_LIMIT = 1_000
"""Characters; a longer formula is shown as its source."""

_COMMAND = re.compile(r"\\([A-Za-z]+|[\s\S]?)")
_ENVIRONMENT = re.compile(r"\\(?:begin|end)\s*\{([^}]*)\}")
_ENVIRONMENT_NAMES = """
aligned alignedat array bmatrix Bmatrix cases gathered matrix pmatrix smallmatrix split vmatrix Vmatrix
"""
_ENVIRONMENTS = frozenset(_ENVIRONMENT_NAMES.split())
_MARKS = frozenset("\\{}|,;:! _&%#()[]")
_COMMAND_NAMES = """
alpha beta gamma delta epsilon varepsilon zeta eta theta vartheta iota kappa lambda mu nu xi pi varpi rho varrho
sigma varsigma tau upsilon phi varphi chi psi omega Gamma Delta Theta Lambda Xi Pi Sigma Upsilon Phi Psi Omega
frac dfrac tfrac cfrac sqrt binom tbinom dbinom over sum prod coprod int iint iiint oint lim limsup liminf sup inf
max min arg argmax argmin log ln lg exp sin cos tan cot sec csc arcsin arccos arctan sinh cosh tanh coth det dim
ker deg gcd hom Pr mod bmod pmod limits nolimits displaystyle textstyle scriptstyle scriptscriptstyle
cdot cdots ldots dots dotsb dotsc vdots ddots times div pm mp ast star circ bullet oplus ominus otimes odot wedge
vee cap cup sqcap sqcup setminus le leq ge geq ne neq lt gt ll gg approx approxeq sim simeq cong equiv propto prec
succ preceq succeq subset subseteq supset supseteq in ni notin not mid nmid parallel perp models vdash dashv
forall exists nexists neg lnot land lor top bot emptyset varnothing infty partial nabla aleph hbar ell Re Im wp
angle triangle square prime degree dagger ddagger to gets mapsto leftarrow rightarrow leftrightarrow Leftarrow
Rightarrow Leftrightarrow longleftarrow longrightarrow Longrightarrow Longleftrightarrow iff implies impliedby
uparrow downarrow updownarrow hookrightarrow rightharpoonup xrightarrow xleftarrow
hat widehat bar overline underline tilde widetilde vec dot ddot acute grave breve check overbrace underbrace
overset underset stackrel substack boxed
mathrm mathbf mathit mathsf mathtt mathbb mathcal mathfrak mathscr boldsymbol bm text textbf textit textrm
operatorname rm bf it cal
left right middle big Big bigg Bigg bigl bigr Bigl Bigr biggl biggr Biggl Biggr lvert rvert lVert rVert vert Vert
langle rangle lceil rceil lfloor rfloor lbrace rbrace lbrack rbrack backslash
quad qquad thinspace enspace space hline begin end
"""
_WORDS = frozenset(_COMMAND_NAMES.split())


def only_draws(formula: str) -> bool:
    """Whether the inside of a formula may be typeset."""
    if len(formula) > FORMULA_LIMIT or re.search(r"(?<!\\)%", formula):
        return False
    commands: list[str] = _COMMAND.findall(formula)
    environments: list[str] = _ENVIRONMENT.findall(formula)
    return (
        all(command in _WORDS or command in _MARKS for command in commands)
        and all(name.rstrip("*") in _ENVIRONMENTS for name in environments)
        and len(environments) == sum(command in ("begin", "end") for command in commands)
    )


def find_formula(source: str, start: int) -> tuple[int, str, bool] | None:
    """The formula that opens at `start`: its end, its inside, and whether it stands on a line of its own.

    A dollar opens one only before and closes one only after something that is no blank, and never before a digit: so
    ``$5 to $6`` is money.
    """
    if source.startswith("$$", start):
        return _until(source, start + 2, "$$", display=True)
    if source.startswith("$", start):
        return _until_dollar(source, start + 1)
    if source.startswith("\\(", start):
        return _until(source, start + 2, "\\)", display=False)
    if source.startswith("\\[", start):
        return _until(source, start + 2, "\\]", display=True)
    return None


def _until(source: str, start: int, closing: str, *, display: bool) -> tuple[int, str, bool] | None:
    end = source.find(closing, start, start + FORMULA_LIMIT * 4)
    inside = source[start:end] if end > start else ""
    return (end + len(closing), inside, display) if inside.strip() and "$" not in inside else None


_DOLLAR_END = re.compile(r"(?<![\s\\])\$(?!\d)")


def _until_dollar(source: str, start: int) -> tuple[int, str, bool] | None:
    if source[start : start + 1].isspace():
        return None
    found = _DOLLAR_END.search(source, start, start + FORMULA_LIMIT)
    if found is None or found.start() == start:
        return None
    inside = source[start : found.start()]
    return None if "$" in inside.replace("\\$", "") or "\n\n" in inside else (found.end(), inside, False)
