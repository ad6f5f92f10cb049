"""Requests whose end could be seen in two places, as bytes, and what each is answered with.

`{path}`, `{host}` and `{token}` are the server's; `{body}` is a JSON text it answers with 200, `{length}` its length
and `{chunk}` the same in hexadecimal. Behind each request stands a second one, which is answered only where that is
right.
"""

from typing import NamedTuple


class Framing(NamedTuple):
    """One request as bytes."""

    name: str
    fields: str
    """Header lines, each with its end."""
    body: str = "{body}"
    line: str = "POST {path} HTTP/1.1\r\n"
    host: str = "Host: {host}\r\n"
    answers: tuple[int, ...] = (400,)
    """Status of each answer; the connection is closed after the last."""


CHUNKED = "{chunk}\r\n{body}\r\n0\r\n\r\n"
LENGTH = "Content-Length: {length}\r\n"
CODING = "Transfer-Encoding: chunked\r\n"
BOTH = (200, 200)

REFUSED = [
    Framing("length and coding", LENGTH + CODING, CHUNKED),
    Framing("coding and length", CODING + LENGTH, CHUNKED),
    Framing("a length of zero and a coding", "Content-Length: 0\r\n" + CODING, CHUNKED),
    Framing("a length of the chunks and a coding", "content-length: 6\r\ntransfer-encoding: CHUNKED\r\n", "0\r\n\r\nG"),
    Framing("two lengths", LENGTH + "Content-Length: 0\r\n"),
    Framing("two equal lengths", LENGTH + LENGTH),
    Framing("two equal lengths, other case", LENGTH + "content-LENGTH:{length}\r\n"),
    Framing("a list of lengths", "Content-Length: {length}, 0\r\n"),
    Framing("a list of equal lengths", "Content-Length: {length}, {length}\r\n"),
    Framing("a list with an empty item", "Content-Length: {length},\r\n"),
    Framing("a length with a sign", "Content-Length: +{length}\r\n"),
    Framing("a negative length", "Content-Length: -1\r\n"),
    Framing("a length in hexadecimal", "Content-Length: 0x{chunk}\r\n"),
    Framing("a length with an underscore", "Content-Length: 5_0\r\n"),
    Framing("a length with a space inside", "Content-Length: 1 0\r\n"),
    Framing("a length with a fraction", "Content-Length: {length}.0\r\n"),
    Framing("a length of other digits", "Content-Length: \u0665\r\n"),
    Framing("an empty length", "Content-Length:\r\n"),
    Framing("a length without end", "Content-Length: " + "9" * 40 + "\r\n"),
    Framing("chunked and identity", "Transfer-Encoding: chunked, identity\r\n", CHUNKED),
    Framing("identity and chunked", "Transfer-Encoding: identity, chunked\r\n", CHUNKED),
    Framing("identity", "Transfer-Encoding: identity\r\n"),
    Framing("chunked twice in a list", "Transfer-Encoding: chunked, chunked\r\n", CHUNKED),
    Framing("chunked twice", CODING + CODING, CHUNKED),
    Framing("chunked and an unknown coding", CODING + "Transfer-Encoding: x\r\n", CHUNKED),
    Framing("a coding that begins otherwise", "Transfer-Encoding: xchunked\r\n", CHUNKED),
    Framing("a coding in quotes", 'Transfer-Encoding: "chunked"\r\n', CHUNKED),
    Framing("a coding with a parameter", "Transfer-Encoding: chunked;q=1\r\n", CHUNKED),
    Framing("a coding after a vertical tab", "Transfer-Encoding: \x0bchunked\r\n", CHUNKED),
    Framing("an empty coding", "Transfer-Encoding:\r\n", CHUNKED),
    Framing("a compressed body", "Transfer-Encoding: gzip, chunked\r\n", CHUNKED),
    Framing("a coding in HTTP/1.0", CODING, CHUNKED, line="POST {path} HTTP/1.0\r\n"),
    Framing("a folded header", "X-One: 1\r\n  2\r\n" + LENGTH),
    Framing("a folded coding", "Transfer-Encoding:\r\n chunked\r\n", CHUNKED),
    Framing("a coding folded into another header", LENGTH + "X-One: 1\r\n\tTransfer-Encoding: chunked\r\n"),
    Framing("a folded line before all headers", LENGTH, line="POST {path} HTTP/1.1\r\n X-One: 1\r\n"),
    Framing("a space before the colon of the length", "Content-Length : {length}\r\n"),
    Framing("a space before the colon of the coding", "Transfer-Encoding : chunked\r\n", CHUNKED),
    Framing("a tab before the colon", "Transfer-Encoding\t: chunked\r\n", CHUNKED),
    Framing("a name in another script", "Content\u2010Length: {length}\r\n"),
    Framing("a header without a colon", "X-One\r\n" + LENGTH),
    Framing("a header without a name", ": 1\r\n" + LENGTH),
    Framing("a bare LF after a header", "X-One: 1\n" + LENGTH),
    Framing("a bare LF before the coding", LENGTH.rstrip("\r\n") + "\n" + CODING, CHUNKED),
    Framing("a bare LF after the request line", LENGTH, line="POST {path} HTTP/1.1\n"),
    Framing("a bare CR in a header", "X-One: 1\rTransfer-Encoding: chunked\r\n" + LENGTH),
    Framing("a bare LF at the end of the head", LENGTH + "\n", ""),
    Framing("a NUL in a value", "X-One: 1\x002\r\n" + LENGTH),
    Framing("a NUL in a name", "X\x00One: 1\r\n" + LENGTH),
    Framing("another control character in a value", "X-One: 1\x012\r\n" + LENGTH),
    Framing("a form feed in a value", "X-One: 1\x0c2\r\n" + LENGTH),
    Framing("two hosts", "Host: {host}\r\n" + LENGTH),
    Framing("two different hosts", "Host: other.example\r\n" + LENGTH),
    Framing("no host", LENGTH, host=""),
    Framing("a URL of another host", LENGTH, line="POST http://other.example{path} HTTP/1.1\r\n"),
    Framing("a URL with a user", LENGTH, line="POST http://me@{host}{path} HTTP/1.1\r\n"),
    Framing("a URL of another scheme", LENGTH, line="POST file://{host}{path} HTTP/1.1\r\n"),
    Framing("a target without a slash", LENGTH, line="POST x{path} HTTP/1.1\r\n"),
    Framing("a target of CONNECT", LENGTH, line="CONNECT {host} HTTP/1.1\r\n"),
    Framing("a target with a space", LENGTH, line="POST {path} x HTTP/1.1\r\n"),
    Framing("two spaces in the request line", LENGTH, line="POST  {path} HTTP/1.1\r\n"),
    Framing("a tab in the request line", LENGTH, line="POST\t{path} HTTP/1.1\r\n"),
    Framing("no version", LENGTH, line="POST {path}\r\n"),
    Framing("HTTP/0.9", LENGTH, line="POST {path} HTTP/0.9\r\n"),
    Framing("HTTP/1.2", LENGTH, line="POST {path} HTTP/1.2\r\n"),
    Framing("HTTP/2.0", LENGTH, line="PRI * HTTP/2.0\r\n"),
    Framing("a version in lower case", LENGTH, line="POST {path} http/1.1\r\n"),
    Framing("a version with more digits", LENGTH, line="POST {path} HTTP/1.10\r\n"),
    Framing("a chunk with 0x", CODING, "0x{chunk}\r\n{body}\r\n0\r\n\r\n"),
    Framing("a chunk with a sign", CODING, "+{chunk}\r\n{body}\r\n0\r\n\r\n"),
    Framing("a negative chunk", CODING, "-1\r\n{body}\r\n0\r\n\r\n"),
    Framing("a chunk with an underscore", CODING, "1_0\r\n{body}\r\n0\r\n\r\n"),
    Framing("a chunk after a space", CODING, " {chunk}\r\n{body}\r\n0\r\n\r\n"),
    Framing("a chunk without a size", CODING, ";x\r\n{body}\r\n0\r\n\r\n"),
    Framing("a chunk whose size ends with LF", CODING, "{chunk}\n{body}\r\n0\r\n\r\n"),
    Framing("a chunk whose extension holds LF", CODING, "{chunk};a\n{body}\r\n0\r\n\r\n"),
    Framing("a chunk that is longer than its size", CODING, "{chunk}\r\n{body} \r\n0\r\n\r\n"),
    Framing("a chunk that ends with LF", CODING, "{chunk}\r\n{body}\n0\r\n\r\n"),
    Framing("a chunk without its end", CODING, "{chunk}\r\n{body}0\r\n\r\n"),
    Framing("a chunk without end", CODING, "f" * 21 + "\r\n{body}\r\n0\r\n\r\n"),
]
ACCEPTED = [
    Framing("a length", LENGTH, answers=BOTH),
    Framing("a length with zeros before it", "Content-Length: 00{length}\r\n", answers=BOTH),
    Framing("a length with tabs around it", "Content-Length:\t{length}\t\r\n", answers=BOTH),
    Framing("a coding", CODING, CHUNKED, answers=BOTH),
    Framing("a coding in other case", "tRANSFER-eNCODING: CHUNKED\r\n", CHUNKED, answers=BOTH),
    Framing("chunks with extensions", CODING, "0{chunk};a=b;c\r\n{body}\r\n000;x\r\n\r\n", answers=BOTH),
    Framing("a length in a trailer", CODING, "{chunk}\r\n{body}\r\n0\r\nContent-Length: 1\r\n\r\n", answers=BOTH),
    Framing("a coding in a trailer", CODING, "{chunk}\r\n{body}\r\n0\r\n" + CODING + "\r\n", answers=BOTH),
    Framing("a URL of the same host", LENGTH, line="POST http://{host}{path} HTTP/1.1\r\n", answers=BOTH),
    Framing("a header that only looks alike", LENGTH + "Transfer_Encoding: chunked\r\n", answers=BOTH),
    Framing("a length in HTTP/1.0", LENGTH, line="POST {path} HTTP/1.0\r\n", answers=(200,)),
    Framing("a connection that is to be closed", LENGTH + "Connection: close\r\n", answers=(200,)),
]
