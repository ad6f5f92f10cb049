"""From what went wrong to one `ModelError`: its kind for the program, two sentences for the user.

Every text a server sent passes `Words`, so that a key a server repeats is shown nowhere.
"""

import json
import math
import re
from typing import NamedTuple
from urllib.parse import urlsplit

from pydantic import JsonValue

from vibe_jupyter.errors import ModelError, ModelErrorKind
from vibe_jupyter.lazy_patterns import lazy_pattern
from vibe_jupyter.llm import json_text
from vibe_jupyter.llm.json_text import repair_surrogates
from vibe_jupyter.llm.request import Endpoint

MAX_PROVIDER_MESSAGE = 400
"""Characters kept of a server's own words."""
MAX_CLEANED = 8_000
"""Characters looked at for those; a server may send a megabyte of tags."""
MIN_REDACTED_KEY = 4
"""Characters; a shorter key is a placeholder such as ``x``, and hiding it would garble the text."""

_OVERFLOW = lazy_pattern(
    r"context[ _-]?(length|size|window)|maximum (model|sequence) length|prompt (is )?too long|input is too long"
    r"|too many (input |prompt )?tokens|maximum number of (input )?tokens"
    r"|tokens? .{0,40}exceeds? .{0,40}(limit|maximum)"
    r"|max_new_tokens. must be|reduce the length of|context overflow|too large for model",
    re.IGNORECASE,
)
"""How servers say that a conversation is too long: OpenAI, Mistral, llama.cpp, vLLM, TGI, Ollama, Groq, Gemini."""
_OVERFLOW_STATUSES = frozenset({400, 422, 500})
_TAG = lazy_pattern(r"<(script|style)\b.*?</\1\s*>|<[^>]{0,2000}>", re.IGNORECASE | re.DOTALL)
_BEARER = lazy_pattern(r"(?i)\bbearer\s+[\w.~+/=-]{8,}")
_INVISIBLE = lazy_pattern(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\s]+")


class BrokenAnswer(Exception):
    """An answer that cannot be used; raised by what reads it, before anyone knows where it came from."""

    def __init__(self, kind: ModelErrorKind, detail: str = "") -> None:
        super().__init__(kind, detail)
        self.kind: ModelErrorKind = kind
        self.detail = detail
        """The server's own words, or what exactly was wrong."""


class HttpRefusal(NamedTuple):
    """A status of 300 or more."""

    status: int
    body: str
    location: str = ""
    """Where a redirect points to."""


def provider_message(body: JsonValue) -> str:
    """The words for a user in an error object, whichever of the usual places they are in."""
    if isinstance(body, str):
        return body
    if isinstance(body, list):
        return "; ".join(filter(None, (provider_message(item) for item in body[:3])))
    if isinstance(body, dict):
        for name in ("error", "message", "msg", "detail", "errors"):
            if body.get(name):
                return provider_message(body[name]) or json.dumps(body, ensure_ascii=False)
        return json.dumps(body, ensure_ascii=False) if body else ""
    return ""


def clean_text(text: str, *secrets: str) -> str:
    """A server's text made fit to show: plain, on one line, short, and without the key."""
    text = repair_surrogates(text)
    for secret in secrets:
        if len(secret) >= MIN_REDACTED_KEY:
            text = text.replace(secret, "[redacted]")
    text = _BEARER.sub("Bearer [redacted]", text)
    text = _INVISIBLE.sub(" ", _TAG.sub(" ", text[:MAX_CLEANED])).strip()
    return text if len(text) <= MAX_PROVIDER_MESSAGE else text[: MAX_PROVIDER_MESSAGE - 1] + "…"


def refused_error(
    endpoint: Endpoint, refusal: HttpRefusal, *, retries: int = 0, wait: float | None = None
) -> ModelError:
    """The error of a status; `wait` is what the server asked for when that is more than we wait."""
    said = clean_text(_message_of(refusal.body), *endpoint.secrets)
    kind = _error_kind(refusal)
    what, step = _refusal_text(endpoint, refusal, kind)
    if retries:
        what += f", even after {retries} more attempt{'s' if retries > 1 else ''}"
    if wait is not None:
        step = f"It asks to wait {_duration_text(wait)}; try again after that."
    return ModelError(_error_text(what, said, step), kind=kind, status=refusal.status, provider_message=said)


def broken_error(endpoint: Endpoint, failure: BrokenAnswer, partial_text: str) -> ModelError:
    """The error of an answer that began with a status of 200."""
    said = clean_text(failure.detail, *endpoint.secrets)
    kind: ModelErrorKind = failure.kind
    if kind == "provider" and _OVERFLOW.search(failure.detail):
        kind = "overflow"
    what, step = _broken_text(endpoint, kind)
    return ModelError(_error_text(what, said, step), kind=kind, provider_message=said, partial_text=partial_text)


def unreachable_error(
    endpoint: Endpoint, reason: str, *, retries: int = 0, kind: ModelErrorKind = "connection"
) -> ModelError:
    """The error of a connection that never came about, or broke before an answer began."""
    again = f" after {retries + 1} attempts" if retries else ""
    what = f"No answer from {endpoint.place}{again} ({clean_text(reason, *endpoint.secrets)})"
    base = endpoint.setting
    if "certificate" in reason:
        step = "If its certificate comes from your own authority, set SSL_CERT_FILE to that authority's file."
    elif endpoint.loopback:
        step = f"Is the server running? Start it, or check {base}."
    elif "proxy" in reason:
        variable = "HTTPS_PROXY" if endpoint.tls else "HTTP_PROXY"
        step = f"Set {variable} to an HTTP proxy that can be reached, or put {endpoint.host} into NO_PROXY."
    elif proxy := _proxy_of(endpoint):
        step = f"It is asked through the proxy {proxy}. Check that and {base}, or put {endpoint.host} into NO_PROXY."
    else:
        step = f"Check the network and {base}."
    return ModelError(_error_text(what, "", step), kind=kind)


def _proxy_of(endpoint: Endpoint) -> str:
    """The host and port of the proxy that it is asked through; empty where there is none."""
    from urllib.request import getproxies, proxy_bypass  # noqa: PLC0415 - most servers answer

    proxies = getproxies()
    named = proxies.get("https" if endpoint.tls else "http") or proxies.get("all", "")
    place = (named.partition("://")[2] or named).rstrip("/").rpartition("@")[2]  # without a password
    return "" if proxy_bypass(endpoint.host) else place


def retry_reason(status: int) -> str:
    """Why another attempt is made, in a few words."""
    return f"the server {'is busy' if status in {429, 503, 529} else 'failed'} ({status})"


def _message_of(body: str) -> str:
    try:
        return provider_message(json_text.parse_json(body)) or body
    except ValueError:
        return body


def is_overflow(refusal: HttpRefusal) -> bool:
    """Whether the conversation is too long, which no further attempt makes shorter."""
    return refusal.status == 413 or (
        refusal.status in _OVERFLOW_STATUSES and _OVERFLOW.search(refusal.body) is not None
    )


def _error_kind(refusal: HttpRefusal) -> ModelErrorKind:
    status = refusal.status
    if is_overflow(refusal):
        return "overflow"
    if status in {401, 403}:
        return "auth"
    if status == 404:
        return "not_found"
    return "rate_limit" if status == 429 else "http"


def _refusal_text(endpoint: Endpoint, refusal: HttpRefusal, kind: ModelErrorKind) -> tuple[str, str]:
    host, name, status = endpoint.place, endpoint.provider, refusal.status
    if kind == "overflow":
        return _overflow_text(endpoint, f" ({status})")
    if kind == "auth" and endpoint.key is None:
        return f"{host} requires an API key ({status})", _key_step(name)
    if kind == "auth":
        what = "rejected" if status == 401 else "denied access with"
        found = f"The key comes from {endpoint.key_from}. Correct it there" if endpoint.key_from else "Check that key"
        return f"{host} {what} the API key of provider '{name}' ({status})", f"{found}, or set another: %vibe setup"
    if kind == "not_found":
        return (
            f"{host} does not know the model '{endpoint.model}', or has nothing at {endpoint.address} ({status})",
            f"Check the model's name and {endpoint.setting}{_hint_of_v1(endpoint)}.",
        )
    if status == 402:
        return f"{host} requires payment (402)", "Check the account there, or choose another model: %vibe model"
    if kind == "rate_limit":
        return f"{host} is rate-limiting requests (429)", "Wait a moment, then try again."
    if status < 400:
        return (
            f"{host} answered with a redirect ({status}) to "
            f"{clean_text(refusal.location, *endpoint.secrets) or 'nowhere'}, "
            "which is not followed, since the key is meant for this host only",
            f"If you trust the new address, set it as {endpoint.setting}.",
        )
    if status >= 500:
        return f"{host} failed ({status})", "The fault is on the server's side; try again later."
    return f"{host} refused the request ({status})", f"Check the settings of model '{endpoint.model}'."


def _hint_of_v1(endpoint: Endpoint) -> str:
    """The end that people forget most often."""
    bare = urlsplit(endpoint.url).path == "/chat/completions"
    return "; at most servers it ends in /v1" if bare else ""


def _broken_text(endpoint: Endpoint, kind: ModelErrorKind) -> tuple[str, str]:
    host = endpoint.place
    again = "Try again."
    match kind:
        case "overflow":
            return _overflow_text(endpoint, "")
        case "provider":
            return f"{host} stopped with an error", again
        case "truncated":
            return f"The answer of {host} was cut off before its end", again
        case "bad_json":
            return f"{host} sent an answer that cannot be read", f"If it happens again, {_check_hint(endpoint)}"
        case "not_sse":
            return f"{host} sent something that is not a model's answer", _check_hint(endpoint).capitalize()
        case "empty":
            return f"The model '{endpoint.model}' on {host} answered with nothing", again
        case _:
            return f"The answer of {host} exceeded a limit and was stopped", again


def _check_hint(endpoint: Endpoint) -> str:
    return f"check {endpoint.setting}."


def _key_step(provider: str) -> str:
    if provider:
        return f"Set one for provider '{provider}': %vibe setup"
    return "Give the server an entry in config.toml: [[providers]] with api_key_env_var, and a [[models]] of it."


def _overflow_text(endpoint: Endpoint, status: str) -> tuple[str, str]:
    return (
        f"The conversation is longer than the model '{endpoint.model}' on {endpoint.place} takes{status}",
        "Shorten it with %vibe compact, begin a new one with %vibe reset, or choose a model with a larger window.",
    )


def _error_text(what: str, said: str, step: str) -> str:
    return f"{what}: {said.rstrip('.')}. {step}" if said else f"{what}. {step}"


def _duration_text(seconds: float) -> str:
    if seconds < 120:
        return f"{math.ceil(seconds)} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{round(minutes / 60)} h"
