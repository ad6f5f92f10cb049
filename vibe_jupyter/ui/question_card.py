"""The card of questions: choices and free text, several questions behind tabs."""

from vibe_jupyter.protocol import Choice, Question, QuestionAsked
from vibe_jupyter.ui.addresses import is_link
from vibe_jupyter.ui.markup import NOTHING, Markup, element, escape, inert
from vibe_jupyter.ui.question_text import heading
from vibe_jupyter.ui.text import one_line

TAB_LENGTH = 24
"""Characters of a question that stand on its tab where it has no header."""


def question_card_html(asked: QuestionAsked) -> Markup:
    """The card in the live view. What is chosen stays in the page until it is sent."""
    title = heading(asked)
    several = len(asked.questions) > 1
    return element(
        "section",
        element("header", element("b", inert(title))),
        _tabs(asked) if several else NOTHING,
        *(
            _panel(question, place, asked.question_id, in_tabs=several)
            for place, question in enumerate(asked.questions)
        ),
        element(
            "footer",
            _button("next", "Next question", primary=True) if several else NOTHING,
            _button("answer", "Answer", primary=True, hidden=several),
            element("span", class_="vibe-spacer"),
            _button("skip", "Skip"),
        ),
        class_="vibe-card vibe-questions",
        role="group",
        tabindex="0",
        aria_label=title,
        data_vibe_question=asked.question_id,
    )


def _tabs(asked: QuestionAsked) -> Markup:
    tabs = (
        element(
            "button",
            inert(one_line(question.header) or _short(question.question)),
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
    return element("div", *tabs, role="tablist", class_="vibe-tabs", aria_label="Questions")


def _panel(question: Question, place: int, question_id: str, *, in_tabs: bool) -> Markup:
    group = f"{question_id}-{place}"
    kind = "checkbox" if question.multi_select else "radio"
    # A panel of its own around the choices: the role of a fieldset cannot be another.
    return element(
        "div",
        element(
            "fieldset",
            element("legend", inert(question.question)),
            _link(question.link),
            *(_option(option, kind, group) for option in question.options),
            _own_words(question),
        ),
        id=_panel_id(question_id, place),
        role="tabpanel" if in_tabs else None,
        class_="vibe-question",
        hidden=place > 0,
        data_vibe_text=question.question,
    )


def _link(address: str) -> Markup:
    """Followed by the reader's click alone; its text is where it leads."""
    if not is_link(address):
        return NOTHING
    shown = element("a", escape(address), href=address, target="_blank", rel="noopener noreferrer nofollow")
    return element("p", shown, class_="vibe-question-link")


def _option(option: Choice, kind: str, group: str) -> Markup:
    control = Markup(f'<input type="{kind}" name="{escape(group)}" value="{escape(option.label)}" class="vibe-choice">')
    words = element("b", inert(one_line(option.label)))
    more = element("span", inert(one_line(option.description)), class_="vibe-note") if option.description else NOTHING
    return element("label", control, words, more, class_="vibe-option")


def _own_words(question: Question) -> Markup:
    words = "Something else, in your words" if question.options else "Your answer"
    return Markup(f'<input type="text" class="vibe-own-words" aria-label="{words}" placeholder="{words}">')


def _button(action: str, label: str, *, primary: bool = False, hidden: bool = False) -> Markup:
    return element(
        "button",
        escape(label),
        type="button",
        class_="vibe-button vibe-primary" if primary else "vibe-button",
        hidden=hidden,
        data_vibe_action=action,
    )


def _panel_id(question_id: str, place: int) -> str:
    return f"vibe-question-{question_id}-{place}"


def _short(text: str) -> str:
    line = one_line(text)
    return line if len(line) <= TAB_LENGTH else f"{line[: TAB_LENGTH - 1]}…"
