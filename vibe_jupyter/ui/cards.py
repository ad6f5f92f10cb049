"""Approval cards and question cards, as HTML or on a text prompt."""

import re
from collections.abc import Callable, Mapping, Sequence

from pydantic import JsonValue, TypeAdapter, ValidationError

from vibe_jupyter.protocol import (
    WHOLE,
    Answer,
    Answered,
    ApprovalRequested,
    Choice,
    Effect,
    Preview,
    Question,
    QuestionAsked,
    Risk,
    arguments_text,
)
from vibe_jupyter.tools.confusables import escape_lookalikes, without_lookalikes
from vibe_jupyter.ui.cell_references import FindCell, no_cell
from vibe_jupyter.ui.code import (
    KEPT,
    KEPT_PRE,
    LIVE,
    CodeLook,
    code_html,
    code_line,
    code_lines,
    line_digits,
    preview_language,
)
from vibe_jupyter.ui.diff import (
    count_changes,
    diff_lines,
    kept_diff,
    read_diff,
)
from vibe_jupyter.ui.icons import icon_html, tool_icon
from vibe_jupyter.ui.markup import NOTHING, Markup, escape_text, html_element, inert_text, is_link, join_markup
from vibe_jupyter.ui.text import has_hidden, one_line, plural_text, readable_text

LONG_PREVIEW = 15  # lines; a longer preview gets a size note
LONG_LINE = 100  # characters; so does a preview with a longer line

CODE_GRANT = (
    "Code that runs here can do anything your account can: “for this session” lets the agent run any code "
    "without asking again."
)
STILL_ASKED = "Files outside the project and protected files are still asked about."
HIGH_RISK_HINT = "To run it, click the red button (or press Space on it). Calls like this can't be allowed in advance."
# What a permission for each tool allows, as a noun phrase.
_DEEDS: Mapping[str, str] = {
    "edit_cell": "cell edits",
    "insert_cell": "new cells",
    "delete_cells": "deleting cells",
    "move_cells": "moving cells",
    "run_cells": "running cells",
    "verify_notebook": "verifying the notebook",
    "write_file": "writing files",
    "search_replace": "file edits",
    "read_file": "reading files",
    "grep": "searching files",
    "memory": "changes of the project's memory",
    "checkpoint": "restoring earlier states",
    "task": "sub-agents",
}
KEPT_GRANT = "“In this project” is saved until you revoke it: %vibe permissions."
HIDDEN_WARNING = "It contains hidden characters, shown as codes such as ⟨U+202E⟩."
LOOKALIKE_WARNING = "It contains look-alike letters, shown as codes such as ⟨U+0430⟩."

EFFECT_LENGTH = 400  # characters of one effect line, and of the reason for asking
_RISK_SIGNS: Mapping[Risk, str] = {"low": "·", "medium": "!", "high": "‼"}

# Icons by kind of effect. Others get the warning icon.
_EFFECT_ICONS: Mapping[str, str] = {
    "Harmless": "read",
    "Reads outside the project": "read",
    "Reads secrets": "read",
    "Changes files": "write",
    "Changes the repository": "edit",
    "Can't be undone": "delete",
    "Runs code": "run",
    "Downloads": "web",
    "Leaves this computer": "web",
    "Affects others": "web",
}

_KEYS = {"⏎": "Enter", "Esc": "Escape", "E": "E"}
_TOOLS = re.compile(r"\w+(?:\+\w+)*")
_ARGUMENTS = TypeAdapter(dict[str, JsonValue])

TAB_LENGTH = 24  # characters of a question used as its tab label if it has no header

NUMBER_KEYS = 9  # number of choices with a shortcut key (1 is the first)

SKIP = "-"  # answer that skips all questions


def card_html(request: ApprovalRequested, find_cell: FindCell = no_cell) -> Markup:
    """Render an approval card for the live view.

    Buttons carry their action in attributes; the page sends the command.
    """
    heading = card_title(request)
    edited = editable_argument(request)
    is_row = request.risk == "low" and "\n" not in request.preview.text and len(request.preview.text) <= LONG_LINE
    warnings = [*text_warnings(request), *([HIGH_RISK_HINT] if request.risk == "high" else [])]
    return html_element(
        "section",
        _card_header(request),
        preview_html(_unmistakable_preview(request.preview), LIVE),
        _argument_editor(edited),
        NOTHING if is_row else _effect_rows(request.effects),
        *(html_element("p", inert_text(hint), class_="vibe-hint") for hint in warnings),
        _card_footer(request, edited is not None),
        _denial_form(),
        class_="vibe-card vibe-row" if is_row else "vibe-card",
        role="group",
        tabindex="0",
        aria_label=f"Approval: {heading}",
        aria_description=f"{request.risk.capitalize()} risk",
        data_risk=request.risk,
        data_vibe_approval=request.approval_id,
        data_vibe_edits=request.preview.edits if edited is not None else None,
        data_vibe_cells=written_cells(request, find_cell),
    )


def written_cells(request: ApprovalRequested, find_cell: FindCell) -> str | None:
    """Return the space-separated ids of the cells the call would change, for the page to highlight, or None."""
    found = [find_cell(one.value) for one in request.resources if one.kind == "cell" and one.access == "write"]
    return " ".join(cell.id for cell in found if cell is not None) or None


def card_title(request: ApprovalRequested) -> str:
    """Return the card's title, such as ``Run code``."""
    # The card shows a command in full, so its first line would be redundant in the title.
    target = "" if request.preview.kind == "command" else request.headline.target
    return one_line(_unmistakable(f"{request.headline.asking} {target}".strip()))


def editable_argument(request: ApprovalRequested) -> str | None:
    """Return the argument the user may edit, or None if there is none or an editor couldn't show all of it.

    Diffs, and some cards that combine all arguments, preview the effect of the argument; the editor then shows the
    argument itself.
    """
    preview = request.preview
    text = argument_text(request.call.arguments, preview.edits) if preview.edits is not None else None
    if text is None or has_hidden(text) or _unmistakable(text) != text or has_hidden(preview.text):
        return None
    is_other = preview.kind == "diff" or preview.edits == WHOLE
    return text if is_other or text == preview.text else None


def argument_text(arguments: str, name: str | None) -> str | None:
    """Extract a string argument (or all arguments, for `WHOLE`) from a call's JSON."""
    try:
        given = _ARGUMENTS.validate_json(arguments)
    except ValidationError:
        return None
    value = arguments_text(given) if name == WHOLE else given.get(name or "")
    return value if isinstance(value, str) else None


def card_hints(request: ApprovalRequested) -> list[str]:
    """Return warnings and grant notes to show before the user decides."""
    return [*text_warnings(request), *grant_hints(request)]


def text_warnings(request: ApprovalRequested) -> list[str]:
    """Warn about hidden characters and look-alike letters in the shown text."""
    out = [HIDDEN_WARNING] if has_hidden(request.preview.text) else []
    shown = f"{request.headline.target}\n{request.preview.text}"
    if _unmistakable(shown) != shown:
        out.append(LOOKALIKE_WARNING)
    return out


def _unmistakable(text: str) -> str:
    """Escape look-alike letters. ASCII text, the common case, has none."""
    return text if text.isascii() else escape_lookalikes(text)


def _unmistakable_preview(preview: Preview) -> Preview:
    return preview if preview.text.isascii() and preview.note.isascii() else without_lookalikes(preview)


def grant_hints(request: ApprovalRequested) -> list[str]:
    """Explain what allowing more than this one call means."""
    out: list[str] = []
    if request.remember_as is not None:
        is_code = any(
            resource.access == "execute" and resource.kind in ("code", "cell") for resource in request.resources
        )
        out.append(CODE_GRANT if is_code else _grant_scope(request.remember_as))
    if request.keepable:
        out.append(KEPT_GRANT)
    return out


def effect_lines(request: ApprovalRequested) -> list[str]:
    """Return one line of plain text per effect."""
    said = (
        f"{_RISK_SIGNS[effect.risk]} {effect.part}: {effect.text} ({effect.tag}). {effect.detail}"
        for effect in request.effects
    )
    return [_unmistakable(one_line(text, EFFECT_LENGTH).replace("`", "")) for text in said]


def size_note(preview: Preview) -> str:
    """Return the size of the content if not all of it may be visible, else ""."""
    if preview.kind == "diff":
        done = zip(count_changes(preview.text), ("added", "removed"), strict=True)
        return ", ".join(f"{plural_text(count, 'line')} {word}" for count, word in done if count)
    lines = preview.text.split("\n")
    if preview.kind == "text" or (len(lines) <= LONG_PREVIEW and all(len(line) <= LONG_LINE for line in lines)):
        return ""
    return f"{plural_text(len(lines), 'line')}, {plural_text(len(preview.text), 'character')}"


def _grant_scope(pattern: str) -> str:
    """Describe what a session grant allows: all calls of some tools, or calls matching a pattern."""
    if _TOOLS.fullmatch(pattern):
        deeds = " and ".join(_DEEDS.get(name, f"all calls of {name}") for name in pattern.split("+"))
        return f"“For this session” allows {deeds} until the kernel restarts. {STILL_ASKED}"
    return f"“For this session” allows {one_line(pattern.removeprefix('bash: '))}"


def _card_header(request: ApprovalRequested) -> Markup:
    words = [_unmistakable(one_line(note)) for note in (request.headline.note, request.preview.note)]
    is_diff = request.preview.kind == "diff"
    notes = words if is_diff else [*words, size_note(request.preview)]
    warning = NOTHING if request.risk == "low" else icon_html("warning")
    return html_element(
        "header",
        icon_html(tool_icon(request.call.name)),
        html_element("b", inert_text(card_title(request))),
        *(html_element("span", inert_text(note), class_="vibe-note") for note in notes if note),
        counts_html(request.preview) if is_diff else NOTHING,
        html_element("span", warning, inert_text(one_line(_reason_text(request), EFFECT_LENGTH)), class_="vibe-why"),
    )


def counts_html(preview: Preview) -> Markup:
    """Render the counts of added and removed lines. Code counts as added; prose has no counts."""
    if preview.kind == "text":
        return html_element("span", class_="vibe-size")
    added, removed = count_changes(preview.text) if preview.kind == "diff" else (len(preview.text.splitlines()), 0)
    plus = html_element("span", inert_text(f"+{added}"), class_="vibe-added")
    minus = html_element("span", inert_text(f"−{removed}"), class_="vibe-removed")
    said = f"{plural_text(added, 'line')} added, {removed} removed"
    return html_element("span", plus, Markup(" "), minus, class_="vibe-size", role="img", aria_label=said)


def sentence_text(words: str) -> str:
    """Capitalize the first letter and leave the rest."""
    return f"{words[:1].upper()}{words[1:]}"


def _reason_text(request: ApprovalRequested) -> str:
    """Return the reason for asking, or the high-risk tags if the reason is a single clause."""
    tags = list(dict.fromkeys(effect.tag for effect in request.effects if effect.risk == "high"))
    return sentence_text(" · ".join(tags) if tags and " · " not in request.reason else request.reason)


def _effect_rows(effects: Sequence[Effect]) -> Markup:
    """Render each part of a command as a row."""
    if not effects:
        return NOTHING
    rows = [
        html_element(
            "li",
            html_element("code", escape_text(_unmistakable(effect.part)), class_="vibe-part")
            if len(effects) > 1
            else NOTHING,
            icon_html(_EFFECT_ICONS.get(effect.tag, "warning")),
            html_element("span", _worded(effect.text), class_="vibe-does"),
            html_element("span", inert_text(effect.tag), class_="vibe-tag"),
            html_element("span", _worded(effect.detail), class_="vibe-more") if effect.detail else NOTHING,
            data_risk=effect.risk,
        )
        for effect in effects
    ]
    return html_element("ul", *rows, class_="vibe-effects", aria_label="What it does")


def _worded(text: str) -> Markup:
    """Render text, with names in backticks as code."""
    pieces = _unmistakable(text).split("`")
    return join_markup(
        *(html_element("code", escape_text(one)) if at % 2 else inert_text(one) for at, one in enumerate(pieces))
    )


def _argument_editor(text: str | None) -> Markup:
    if text is None:
        return NOTHING
    # The HTML parser drops a newline directly after the opening tag.
    content = Markup("\n" + escape_text(text))
    return html_element(
        "textarea", content, class_="vibe-editor", hidden=True, aria_label="Edit the code before it runs"
    )


def _card_footer(request: ApprovalRequested, can_edit: bool) -> Markup:
    edit = card_button("edit", "Edit", key="E") if can_edit else NOTHING
    spacer = html_element("span", class_="vibe-spacer")
    if request.risk == "high":
        deny = card_button("deny", "Deny…", key="Esc", look="vibe-safe")
        return html_element("footer", deny, edit, spacer, card_button("approve", request.allow, look="vibe-danger"))
    return html_element(
        "footer",
        card_button("approve", request.allow, key="⏎", look="vibe-primary"),
        _grant_menu(request),
        edit,
        spacer,
        card_button("deny", "Deny…", key="Esc"),
    )


def _grant_menu(request: ApprovalRequested) -> Markup:
    """Render the menu of session and project grants, with notes on what will still need approval."""
    if request.remember_as is None:
        return NOTHING
    return html_element(
        "details",
        html_element("summary", escape_text("Always allow"), class_="vibe-button"),
        html_element(
            "div",
            card_button("approve-session", "Allow for this session"),
            card_button("approve-project", "Allow in this project") if request.keepable else NOTHING,
            *(html_element("p", inert_text(hint), class_="vibe-hint") for hint in grant_hints(request)),
        ),
        class_="vibe-menu",
    )


def _denial_form() -> Markup:
    field = Markup(
        '<input type="text" class="vibe-deny-message" aria-label="Tell the agent why (optional)"'
        ' placeholder="Tell the agent why (optional)">'
    )
    return html_element("div", field, card_button("deny-now", "Deny"), class_="vibe-deny", hidden=True)


def card_button(action: str, label: str, *, key: str = "", look: str = "") -> Markup:
    """Render a card button with its action and its shortcut key."""
    return html_element(
        "button",
        escape_text(label),
        html_element("kbd", escape_text(key), aria_hidden="true") if key else NOTHING,
        type="button",
        aria_keyshortcuts=_KEYS.get(key),
        class_=f"vibe-button {look}".rstrip(),
        data_vibe_action=action,
    )


def preview_html(preview: Preview, look: CodeLook) -> Markup:
    """Render the whole preview."""
    if preview.kind == "text":
        return html_element("div", inert_text(preview.text), class_="vibe-words" if look is LIVE else None)
    if look is not LIVE:
        kept = (
            kept_diff(preview) if preview.kind == "diff" else code_html(preview.text, preview_language(preview), KEPT)
        )
        return html_element("pre", html_element("code", kept), style=KEPT_PRE)
    if preview.kind == "diff":
        lines = diff_lines(preview)
        digits = max((line.number or 0 for line in read_diff(preview.text)), default=0)
        return html_element("div", *lines, class_="vibe-code vibe-diff", data_digits=line_digits(digits))
    lines = [code_line(line) for line in code_lines(preview.text, preview_language(preview), LIVE)]
    code = html_element("code", *lines)
    is_command = preview.kind == "command" and len(lines) == 1
    return html_element(
        "pre",
        code,
        class_="vibe-code",
        data_digits=line_digits(len(lines)),
        data_kind="command" if is_command else None,
    )


def question_card_html(asked: QuestionAsked) -> Markup:
    """Render a question card for the live view. Choices stay in the page until they are sent."""
    title = question_heading(asked)
    several = len(asked.questions) > 1
    return html_element(
        "section",
        html_element("header", icon_html("question"), html_element("b", inert_text(title))),
        _question_tabs(asked) if several else NOTHING,
        *(
            _question_panel(question, place, asked.question_id, in_tabs=several)
            for place, question in enumerate(asked.questions)
        ),
        html_element(
            "footer",
            _question_button("next", "Next question", "⏎", primary=True) if several else NOTHING,
            _question_button("answer", "Answer", "⏎", primary=True, hidden=several),
            html_element("span", class_="vibe-spacer"),
            _question_button("skip", "Skip", "Esc"),
        ),
        class_="vibe-card vibe-questions",
        role="group",
        tabindex="0",
        aria_label=title,
        data_vibe_question=asked.question_id,
    )


def _question_tabs(asked: QuestionAsked) -> Markup:
    tabs = (
        html_element(
            "button",
            inert_text(one_line(question.header) or _short_label(question.question)),
            type="button",
            role="tab",
            class_="vibe-tab",
            aria_selected="true" if place == 0 else "false",
            aria_controls=_panel_id(asked.question_id, place),
            tabindex="0" if place == 0 else "-1",
            data_vibe_action="tab",
            data_vibe_place=str(place),
        )
        for place, question in enumerate(asked.questions)
    )
    return html_element("div", *tabs, role="tablist", class_="vibe-tabs", aria_label="Questions")


def _question_panel(question: Question, place: int, question_id: str, *, in_tabs: bool) -> Markup:
    group = f"{question_id}-{place}"
    kind = "checkbox" if question.multi_select else "radio"
    # An extra panel around the choices: a fieldset can't take another ARIA role.
    return html_element(
        "div",
        html_element(
            "fieldset",
            html_element("legend", inert_text(question.question)),
            _address_link(question.link),
            *(_option_html(option, kind, group, place) for place, option in enumerate(question.options, 1)),
            _own_words(question),
        ),
        id=_panel_id(question_id, place),
        role="tabpanel" if in_tabs else None,
        class_="vibe-question",
        hidden=place > 0,
        data_vibe_text=question.question,
    )


def _address_link(address: str) -> Markup:
    """Render a link that opens only on a click and shows its address as text."""
    if not is_link(address):
        return NOTHING
    shown = html_element("a", escape_text(address), href=address, target="_blank", rel="noopener noreferrer nofollow")
    return html_element("p", shown, class_="vibe-question-link")


def _option_html(option: Choice, kind: str, group: str, place: int) -> Markup:
    control = Markup(
        f'<input type="{kind}" name="{escape_text(group)}" value="{escape_text(option.label)}" class="vibe-choice">'
    )
    words = html_element("b", inert_text(one_line(option.label)))
    more = (
        html_element("span", inert_text(one_line(option.description)), class_="vibe-note")
        if option.description
        else NOTHING
    )
    return html_element("label", control, words, more, _option_key(place), class_="vibe-option")


def _own_words(question: Question) -> Markup:
    words = "Other…" if question.options else "Your answer"
    field = Markup(f'<input type="text" class="vibe-own-words" aria-label="{words}" placeholder="{words}">')
    key = _option_key(len(question.options) + 1) if question.options else NOTHING
    return html_element("div", field, key, class_="vibe-own")


def _option_key(place: int) -> Markup:
    """Render the shortcut key of an option. The page derives the option from its position."""
    return html_element("kbd", Markup(str(place)), aria_hidden="true") if place <= NUMBER_KEYS else NOTHING


def _question_button(action: str, label: str, key: str, *, primary: bool = False, hidden: bool = False) -> Markup:
    return html_element(
        "button",
        escape_text(label),
        html_element("kbd", escape_text(key), aria_hidden="true"),
        type="button",
        class_="vibe-button vibe-primary" if primary else "vibe-button",
        hidden=hidden,
        data_vibe_action=action,
    )


def _panel_id(question_id: str, place: int) -> str:
    return f"vibe-question-{question_id}-{place}"


def _short_label(text: str) -> str:
    line = one_line(text)
    return line if len(line) <= TAB_LENGTH else f"{line[: TAB_LENGTH - 1]}…"


def ask_questions(asked: QuestionAsked, read_line: Callable[[str], str], write: Callable[[str], None]) -> Answer:
    """Ask the questions one by one on the text prompt. Main thread.

    Raises:
        EOFError, NotImplementedError: There is no text prompt to answer on.
    """
    answers: list[Answered] = []
    write(f"\n{question_heading(asked)}\n")
    for question in asked.questions:
        write(_shown_question(question))
        line = read_line(_question_prompt(question)).strip()
        if line == SKIP:
            return Answer(question_id=asked.question_id, answers=None)
        answers.append(understood_answer(question, line))
    return Answer(question_id=asked.question_id, answers=tuple(answers))


def question_heading(asked: QuestionAsked) -> str:
    """Return the card's heading, naming who asks."""
    return f"Question from {readable_text(one_line(asked.asker))}" if asked.asker else "Question"


def understood_answer(question: Question, line: str) -> Answered:
    """Parse a typed line: option numbers (several if allowed), else free text."""
    words = [word for word in line.replace(",", " ").split() if word]
    numbers = [int(word) for word in words if word.isdecimal() and 1 <= int(word) <= len(question.options)]
    fits = bool(words) and len(numbers) == len(words) and (question.multi_select or len(words) == 1)
    if not fits:
        return Answered(question=question.question, other=line)
    chosen = [option.label for number, option in enumerate(question.options, 1) if number in numbers]
    return Answered(question=question.question, selected=tuple(chosen))


def _shown_question(question: Question) -> str:
    head = "\n".join(readable_text(one_line(line)) for line in question.question.split("\n"))
    if question.link:
        head += f"\n  {readable_text(one_line(question.link, len(question.link)))}"
    options = [
        f"  {number}  {readable_text(one_line(option.label))}"
        + (f": {readable_text(one_line(option.description))}" if option.description else "")
        for number, option in enumerate(question.options, 1)
    ]
    return "\n".join([head, *options]) + "\n"


def _question_prompt(question: Question) -> str:
    if not question.options:
        return f"Your answer ({SKIP} for none): "
    numbers = "Numbers" if question.multi_select else "A number"
    return f"{numbers}, or your own words ({SKIP} for none): "
