"""Merged patches must leave the page as the single ones would."""

from hypothesis import given
from hypothesis import strategies as st

from tests.drawn_values import PATIENT
from vibe_jupyter.ui.page import FEW, PatchOutbox, ViewPart, ViewPatch

IDS = st.sampled_from(["t1", "s1", "s2", "c1"])
TEXT = st.text("ab", max_size=3)
PUTS = st.builds(lambda id, html: ViewPatch(id=id, kind="step", html=html), IDS, TEXT)
PUTS_BEFORE = st.builds(
    lambda id, html, before: ViewPatch(id=id, kind="step", html=html, before=before), IDS, TEXT, IDS
)
GROWING = st.builds(lambda id, html: ViewPatch(id=id, kind="tail", html=html), IDS, st.text("ab😀", max_size=6))
REMOVALS = st.builds(lambda id: ViewPatch(id=id, remove=True), IDS)


def shown(patches: list[ViewPatch]) -> list[tuple[str, str]]:
    """What the page shows after these: id and html of each part, in order."""
    parts: dict[str, str] = {}
    order: list[str] = []
    for patch in patches:
        id = patch["id"]
        if "html" in patch:
            before = patch.get("before")
            if id not in parts:
                order.append(id)
            if before in parts and before != id:
                order.remove(id)
                order.insert(order.index(before), id)
            had = parts.get(id, "").encode("utf-16-le")[: 2 * patch.get("keep", 0)].decode("utf-16-le")
            parts[id] = had + patch["html"]
        elif id in parts:
            order.remove(id)
            del parts[id]
    return [(id, parts[id]) for id in order]


@PATIENT
@given(st.lists(st.one_of(PUTS, PUTS_BEFORE, GROWING, REMOVALS), max_size=30), st.integers(0, 30))
def test_merging_changes_nothing_of_what_is_shown(patches: list[ViewPatch], cut: int) -> None:
    outbox = PatchOutbox()
    outbox.add(patches[:cut])
    sent = outbox.take()
    outbox.add(patches[cut:])
    sent += outbox.take()
    assert shown(sent) == shown(patches)
    assert outbox.waiting == []


def growing(html: str) -> ViewPatch:
    return {"id": "t1", "kind": "tail", "html": html}


def test_of_a_text_that_grows_what_is_new_is_sent_and_a_part_put_twice_is_put_once() -> None:
    outbox = PatchOutbox()
    outbox.add([{"id": "foot", "kind": "foot", "html": "1"}, growing("<p>Gen</p>")])
    outbox.add([{"id": "foot", "kind": "foot", "html": "2"}, growing("<p>Gent</p>")])
    assert outbox.take() == [{"id": "foot", "kind": "foot", "html": "2"}, growing("<p>Gent</p>")]
    outbox.add([growing("<p>Gent😀</p>")])
    outbox.add([growing("<p>Gent😀oo</p>")])
    assert outbox.take() == [growing("😀oo</p>") | {"keep": 7}]
    outbox.add([{"id": "t1", "kind": "prose", "html": "<p>Gent😀oo.</p>"}])
    assert outbox.take() == [{"id": "t1", "kind": "prose", "html": ".</p>", "keep": 11}]


def test_a_snapshot_is_what_the_page_has() -> None:
    outbox = PatchOutbox()
    outbox.note_snapshot([ViewPart("t1", "tail", "<p>a"), ViewPart("s1", "step", "<b>")])
    outbox.add([growing("<p>ab"), {"id": "s1", "kind": "step", "html": "<b>c"}])
    assert outbox.take() == [growing("b") | {"keep": 4}, {"id": "s1", "kind": "step", "html": "<b>c"}]


def test_a_few_words_may_wait_longer_than_a_step() -> None:
    outbox = PatchOutbox()
    outbox.add([growing("a few words")])
    assert outbox.added <= FEW
    outbox.add([{"id": "s1", "kind": "step", "html": ""}])
    assert outbox.added > FEW
    outbox.take()
    outbox.add([growing("a few words" + "x" * FEW)])
    assert outbox.added <= FEW
    outbox.add([growing("a few words" + "x" * FEW + "x")])
    assert outbox.added > FEW
