"""Merged patches must leave the page as the single ones would."""

from hypothesis import given
from hypothesis import strategies as st

from tests.patience import PATIENT
from vibe_jupyter.ui.page import FEW, PatchOutbox, ViewPatch

IDS = st.sampled_from(["t1", "s1", "s2", "c1"])
TEXT = st.text("ab", max_size=3)
PUTS = st.builds(lambda id, html: ViewPatch(id=id, kind="step", html=html), IDS, TEXT)
PUTS_BEFORE = st.builds(
    lambda id, html, before: ViewPatch(id=id, kind="step", html=html, before=before), IDS, TEXT, IDS
)
APPENDS = st.builds(lambda id, text: ViewPatch(id=id, append=text), IDS, TEXT)
REMOVALS = st.builds(lambda id: ViewPatch(id=id, remove=True), IDS)


def shown(patches: list[ViewPatch]) -> list[tuple[str, str, str]]:
    """What the page shows after these: id, html and added text of each part, in order."""
    parts: dict[str, tuple[str, str]] = {}
    order: list[str] = []
    for patch in patches:
        id = patch["id"]
        if "append" in patch:
            if id in parts:
                parts[id] = (parts[id][0], parts[id][1] + patch["append"])
        elif "html" in patch:
            before = patch.get("before")
            if id not in parts:
                order.append(id)
            if before in parts and before != id:
                order.remove(id)
                order.insert(order.index(before), id)
            parts[id] = (patch["html"], "")
        elif id in parts:
            order.remove(id)
            del parts[id]
    return [(id, *parts[id]) for id in order]


@PATIENT
@given(st.lists(st.one_of(PUTS, PUTS_BEFORE, APPENDS, REMOVALS), max_size=30), st.integers(0, 30))
def test_merging_changes_nothing_of_what_is_shown(patches: list[ViewPatch], cut: int) -> None:
    outbox = PatchOutbox()
    outbox.add(patches[:cut])
    sent = outbox.take()
    outbox.add(patches[cut:])
    sent += outbox.take()
    assert shown(sent) == shown(patches)
    assert not outbox


def test_text_added_to_one_tail_is_one_patch_and_a_part_put_twice_is_put_once() -> None:
    outbox = PatchOutbox()
    outbox.add([{"id": "foot", "kind": "foot", "html": "1"}, {"id": "t1", "append": "Gen"}])
    outbox.add([{"id": "foot", "kind": "foot", "html": "2"}, {"id": "t1", "append": "too"}])
    assert outbox.take() == [{"id": "foot", "kind": "foot", "html": "2"}, {"id": "t1", "append": "Gentoo"}]


def test_a_few_words_may_wait_longer_than_a_step() -> None:
    outbox = PatchOutbox()
    outbox.add([{"id": "t1", "kind": "tail", "html": ""}, {"id": "t1", "append": "a few words"}])
    assert outbox.is_little
    outbox.add([{"id": "s1", "kind": "step", "html": ""}])
    assert not outbox.is_little
    outbox.take()
    outbox.add([{"id": "t1", "append": "x" * FEW}])
    assert outbox.is_little
    outbox.add([{"id": "t1", "append": "x"}])
    assert not outbox.is_little
