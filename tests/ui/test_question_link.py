"""A question that carries an address: shown whole, followed by the reader's click alone."""

import pytest

from tests.ui.dom import parse
from vibe_jupyter.protocol import Question, QuestionAsked
from vibe_jupyter.ui.cards import ask_questions, question_card_html

ADDRESS = "https://example.org/sign?a=1&b=<2>&" + "c" * 500


def asked(link: str) -> QuestionAsked:
    question = Question(question="Sign the form.\nOpen it only if you know it.", link=link)
    return QuestionAsked(question_id="q", call_id="c", asker="the server shop", questions=(question,))


def test_on_the_card_it_is_a_link_whose_text_is_where_it_leads() -> None:
    (link,) = parse(question_card_html(asked(ADDRESS))).find("a")
    assert link.text == link.attributes["href"] == ADDRESS
    assert (link.attributes["target"], link.attributes["rel"]) == ("_blank", "noopener noreferrer nofollow")


@pytest.mark.parametrize("address", ["", "javascript:alert(1)", "data:text/html,x", "file:///etc/passwd", "vbscript:x"])
def test_what_leads_to_no_page_is_no_link(address: str) -> None:
    assert parse(question_card_html(asked(address))).find("a") == []


def test_in_a_terminal_it_stands_in_full_below_the_question() -> None:
    written: list[str] = []
    ask_questions(asked(ADDRESS), lambda _: "-", written.append)
    lines = "".join(written).split("\n")
    assert lines[lines.index("Open it only if you know it.") - 1] == "Sign the form."
    assert lines[lines.index("Open it only if you know it.") + 1] == f"  {ADDRESS}"


def test_a_terminal_shows_no_hidden_letters_of_an_address() -> None:
    written: list[str] = []
    ask_questions(asked("https://example.org/\u202egpj.exe\x1b[2J"), lambda _: "-", written.append)
    assert not {"\u202e", "\x1b"} & set("".join(written))
