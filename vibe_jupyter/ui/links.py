"""Where links lead and pictures come from: shown beside their words, and followed by nobody but the reader."""

from collections.abc import Sequence

from markdown_it.token import Token

from vibe_jupyter.ui.addresses import is_link, is_picture

ADDRESS_LIMIT = 120
"""Characters of a link's address shown beside its text; host and beginning of the path."""


def with_addresses(children: Sequence[Token]) -> list[Token]:
    """Follow each link by where it leads, unless its text says it; make links of pictures from elsewhere."""
    out: list[Token] = []
    link: Token | None = None
    words: list[str] = []
    for token in children:
        if token.type == "link_open":
            link, words = token, []
            if is_link(_target(token)):
                out.append(token)
        elif token.type == "link_close" and link is not None:
            if is_link(_target(link)):
                out.append(token)
            out += _address(_target(link), "".join(words))
            link = None
        elif token.type == "image":
            out += _picture(token, inside_link=link is not None)
        else:
            words.append(token.content)
            out.append(token)
    return out


def _address(address: str, words: str) -> list[Token]:
    if words.strip() in (address, address.removeprefix("mailto:"), address.rstrip("/")):
        return []
    shown = address if len(address) <= ADDRESS_LIMIT else address[:ADDRESS_LIMIT] + "…"
    return [Token("address", "", 0, content=shown)]


def _picture(token: Token, *, inside_link: bool) -> list[Token]:
    """A picture that came with the text; one from elsewhere is only a link to it, since drawing it would fetch it."""
    address = str(token.attrs["src"])
    if is_picture(address):
        return [token]
    words = Token("text", "", 0, content=token.content or "picture")
    if inside_link:
        return [words, *_address(address, words.content)]
    opening = Token("link_open", "a", 1, attrs={"href": address})
    return [opening, words, Token("link_close", "a", -1), *_address(address, words.content)]


def _target(link: Token) -> str:
    return str(link.attrs["href"])
