"""Server-sent events by the standard."""

import pytest

from vibe_jupyter.llm.event_streams import EventTooLong, ServerEvent, SSEDecoder, encode_event


def events(*chunks: bytes) -> list[ServerEvent]:
    """What a decoder makes of some reads."""
    decoder = SSEDecoder()
    return [event for chunk in chunks for event in decoder.feed(chunk)]


def message(data: str) -> ServerEvent:
    """An event without a name."""
    return "message", data


@pytest.mark.requirement("stream.sse.line-ends")
@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
def test_each_line_end_ends_a_line_also_when_cut(end):
    data = b"data: a" + end + b"data: b" + end + end + b"data: c" + end + end
    assert events(data) == [message("a\nb"), message("c")]
    assert events(*(data[i : i + 1] for i in range(len(data)))) == [message("a\nb"), message("c")]


@pytest.mark.requirement("stream.sse.line-ends")
@pytest.mark.parametrize("character", ["\u2028", "\u2029", "\u0085", "\v", "\f", "\x1c"])
def test_what_only_python_takes_for_a_line_end_ends_no_line(character):
    assert events(f"data: a{character}b\n\n".encode()) == [message(f"a{character}b")]


@pytest.mark.requirement("stream.sse.data-lines")
def test_one_space_after_the_colon_is_dropped_and_no_more():
    assert events(b"data:a\n\ndata: b\n\ndata:  c\n\ndata\n\n") == [message(t) for t in ("a", "b", " c", "")]


@pytest.mark.requirement("stream.sse.blank-comments")
def test_comments_blank_lines_and_other_fields_are_passed_over():
    stream = b":\n\n: ping\n\n\n\nid: 7\nretry: 10\nfoo: bar\nDATA: x\nnonsense\n\ndata: a\nid: 8\n\n"
    assert events(stream) == [message("a")]


@pytest.mark.requirement("stream.sse.multi-data")
def test_data_lines_of_one_event_are_joined_by_line_feeds():
    assert events(b"data: {\ndata: }\n\ndata:\ndata:\n\n") == [message("{\n}"), message("\n")]


@pytest.mark.requirement("stream.sse.utf8")
def test_a_character_cut_between_reads_arrives_whole_and_a_broken_one_is_replaced():
    data = "data: aé😀\n\n".encode()
    assert events(*(data[i : i + 1] for i in range(len(data)))) == [message("aé😀")]
    assert events(b"data: a\xf0\x9fb\n\n") == [message("a\ufffdb")]


def test_a_byte_order_mark_is_dropped_at_the_start_only():
    assert events(b"\xef", b"\xbb", b"\xbfdata: a\n", b"\n\xef\xbb\xbfdata: b\n\n") == [message("a")]


def test_a_name_belongs_to_its_event_and_to_no_later_one():
    stream = b"event: ping\n\nevent: one\nevent: two\ndata: a\n\ndata: b\n\n"
    assert events(stream) == [("two", "a"), message("b")]


def test_an_event_the_stream_does_not_end_is_dropped():
    assert events(b"data: a\n\ndata: b\n") == [message("a")]


def test_an_event_without_end_is_stopped_at_its_bound():
    decoder = SSEDecoder(max_event=100)
    for _ in range(9):
        assert len(decoder.feed(b"data: aaa\n\n")) == 1
    for _ in range(10):
        decoder.feed(b"a" * 10)
    with pytest.raises(EventTooLong):
        decoder.feed(b"a")


@pytest.mark.parametrize("data", ["a", "", "a\nb", "\n", "é\u2028😀", '{"x": 1}'])
@pytest.mark.parametrize("name", ["message", "error"])
def test_what_is_encoded_is_decoded(name, data):
    assert events(encode_event(name, data)) == [(name, data)]


def test_a_name_of_two_lines_is_refused():
    with pytest.raises(ValueError, match="one line"):
        encode_event("a\ndata: b", "c")
