"""Outputs are collected within bounds."""

import pytest

from vibe_jupyter.kernel.outputs import CollectedOutputs

LIMIT = 10_000  # characters


def text_of(outputs: CollectedOutputs) -> str:
    return "".join(str(output.get("text")) for output in outputs.collected())


def test_adjacent_streams_are_one_output() -> None:
    outputs = CollectedOutputs(LIMIT)
    for name, text in (("stdout", "a"), ("stdout", "b"), ("stderr", "c"), ("stdout", "d")):
        outputs.stream(name, text)
    assert outputs.collected() == (
        {"output_type": "stream", "name": "stdout", "text": "ab"},
        {"output_type": "stream", "name": "stderr", "text": "c"},
        {"output_type": "stream", "name": "stdout", "text": "d"},
    )


@pytest.mark.parametrize("size", [1, 37, 1_000, 4_999, 50_000])
def test_beginning_and_end_are_kept_whatever_the_pieces(size: int) -> None:
    outputs = CollectedOutputs(LIMIT)
    whole = "".join(f"{number:06d} " for number in range(20_000))
    for start in range(0, len(whole), size):
        outputs.stream("stdout", whole[start : start + size])
    kept = text_of(outputs)
    head, mark, tail = kept.partition("\n[… ")
    said, _, tail = tail.partition(" characters of output left out …]\n")
    assert mark
    assert head
    assert tail
    assert whole.startswith(head)
    assert whole.endswith(tail)
    assert len(kept) < LIMIT + 100
    assert len(head) + len(tail) + int(said.replace(",", "")) == len(whole)


def test_an_output_that_is_too_large_alone_is_left_out_and_said() -> None:
    outputs = CollectedOutputs(LIMIT)
    outputs.rich({"output_type": "display_data", "data": {"image/png": "x" * 20_000}, "metadata": {}})
    outputs.stream("stdout", "after")
    assert "left out …]" in text_of(outputs)
    assert text_of(outputs).endswith("after")


def test_a_display_that_grows_by_updates_is_bounded_too() -> None:
    outputs = CollectedOutputs(LIMIT)
    outputs.stream("stdout", "x" * 6_000)
    outputs.rich({"output_type": "display_data", "data": {"text/plain": "small"}, "metadata": {}}, "id")
    assert outputs.update("id", {"text/plain": "y" * 20_000}, {})
    assert sum(len(str(output)) for output in outputs.collected()) < LIMIT


def test_an_update_of_what_was_never_displayed_is_told() -> None:
    assert not CollectedOutputs(LIMIT).update("id", {}, {})


def test_a_wait_to_clear_waits_for_the_next_output() -> None:
    outputs = CollectedOutputs(LIMIT)
    outputs.stream("stdout", "old")
    outputs.clear(wait=True)
    assert text_of(outputs) == "old"
    outputs.stream("stdout", "new")
    assert text_of(outputs) == "new"
    outputs.clear(wait=False)
    assert outputs.collected() == ()
