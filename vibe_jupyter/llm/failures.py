"""Turn failures of a request into a `ModelError`: a kind for the program, and a message with the next step for the
user.

Text from a server is always cleaned by `clean_text`, so that an echoed API key is never shown.
"""

import html
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

MAX_PROVIDER_MESSAGE = 400  # characters of a server's message
MAX_CLEANED = 8_000  # characters to clean; a server may send a megabyte of tags
BEGIN_SETTING = "api_timeout"
IDLE_SETTING = "api_stream_idle_timeout"
MIN_REDACTED_KEY = 4  # characters; shorter keys are placeholders such as `x`, and redacting them would garble the text

# Context-length errors of OpenAI, Mistral, llama.cpp, vLLM, TGI, Ollama, Groq and Gemini.
_OVERFLOW = lazy_pattern(
    r"context[ _-]?(length|size|window|limit)|maximum (model|sequence|input|prompt) length|prompt (is )?too long"
    r"|(input|conversation) is too long|too many (input |prompt )?tokens|maximum number of (input )?tokens"
    r"|(?<!max)(?<!max_)(?<!completion)(?<!output)[ _`'\"]tokens?\b.{0,40}exceed.{0,40}(limit|max)|model token limit"
    r"|max_new_tokens. must be|inputs. must have less than|reduce the length of|context overflow"
    r"|too large for .{0,40}model"
    r"|(prompt|input) exceeds? (the )?max|maximum allowed input|input length should be|\bn_ctx\b|max_(model|seq)_len"
    r"|max_seq_length|string_above_max_length|tokens_limit_reached|inputs tokens \+|kv[ _-]?cache is full"
    r"|(输入|提示|上下文).{0,12}(超出|超过)|(超出|超过).{0,8}(长度|上下文)",
    re.IGNORECASE,
)
# Refusals for other reasons: the answer's token limit, which may also name the context length, a rate limit, a field.
_OTHER_LIMIT = lazy_pattern(
    r"max_(completion_|output_|new_)?tokens\W{0,3}"
    r"(\(?\d+\)? )?(must be less|exceeds the max|is too large|: \d+ >|\d+ cannot)"
    r"|per[ _-](minute|hour|day)|rate[ _-]limit|tool_calls\W{0,2}\d|token (has|is) (exceeded|expired)|image too large",
    re.IGNORECASE,
)
# Even with a token limit, a server that counts the prompt could take a shorter one.
_COUNTS_PROMPT = lazy_pattern(
    r"\d+ (input|prompt) tokens|minus the prompt|tokens in the (prompt|messages)", re.IGNORECASE
)
_DURATION = lazy_pattern(r"(?:(\d{1,6})h)?(?:(\d{1,6})m)?(?:(\d{1,9}(?:\.\d{1,9})?)s)?(?:(\d{1,9}(?:\.\d{1,9})?)ms)?")
_WAIT = lazy_pattern(r'(?:"retryDelay"\s*:\s*"|\b(?:try again|retry) in )([\d.hms]*[hms])\b')
_BUSY = frozenset({429, 503, 529})
_OVERFLOW_STATUSES = frozenset({400, 422, 500})
_REFUSED_CALL_STATUSES = frozenset({400, 422})
# Groq's codes for a call that it could not parse
_UNREAD_CALL = lazy_pattern(r"""["'](?:tool_use_failed|output_parse_failed)["']""")
_PASSING_STATUSES = frozenset({408, 425, 429})
# Types of transient errors at OpenAI, Anthropic, Gemini and OpenRouter.
_PASSING_TYPES = frozenset(
    {"server_error", "internal_error", "internal_server_error", "overloaded_error", "api_error", "upstream_error"}
    | {"service_unavailable", "timeout", "UNAVAILABLE", "INTERNAL", "provider_error"}
    | {"tool_use_failed", "output_parse_failed"}
)
_TAG = lazy_pattern(r"<(script|style)\b.*?</\1\s*>|<[^>]{0,2000}>", re.IGNORECASE | re.DOTALL)
_TITLE = lazy_pattern(r"<title\b[^>]{0,200}>\s*([^<]*[^<\s])", re.IGNORECASE)
_BEARER = lazy_pattern(r"(?i)\bbearer\s+[\w.~+/=-]{8,}")
_INVISIBLE = lazy_pattern(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\s]+")


class BrokenAnswer(Exception):
    """Raised by decoders for an unusable answer, before the endpoint is known."""

    def __init__(self, kind: ModelErrorKind, detail: str = "", *, passing: bool = True, step: str = "") -> None:
        super().__init__(kind, detail)
        self.kind: ModelErrorKind = kind
        self.passing = passing  # False if the same request would certainly fail again
        self.detail = detail  # the server's message, or the exact problem
        self.step = step  # next step for the user, if it isn't the usual one of this kind


def late_answer(what: str, seconds: float, setting: str) -> BrokenAnswer:
    """Return the error for a stream or body that exceeded a time limit.

    Args:
        what: How the time passed, such as ``nothing came for``.
        seconds: The limit.
        setting: Key in config.toml that changes the limit.
    """
    return BrokenAnswer("limit", f"{what} {seconds:g} s", step=_limit_step(seconds, setting))


class HttpRefusal(NamedTuple):
    """A response with a status of 300 or more."""

    status: int
    body: str
    location: str = ""  # target of a redirect


def provider_message(body: JsonValue) -> str:
    """Extract the message from an error object, wherever the server puts it."""
    if isinstance(body, str):
        return body
    if isinstance(body, list):
        return "; ".join(filter(None, (provider_message(item) for item in body[:3])))
    if isinstance(body, dict):
        for name in ("error", "message", "msg", "detail", "errors"):
            if said := provider_message(body.get(name)):
                place = _field_place(body.get("loc"))
                said = f"{place}: {said}" if place else said
                behind = _reason_behind(body.get("metadata"))
                return f"{said}: {behind}" if behind else said
        return json.dumps(body, ensure_ascii=False) if body else ""
    return ""


def _reason_behind(metadata: JsonValue) -> str:
    """Return what the server behind a router said, as OpenRouter passes it on."""
    raw = metadata.get("raw") if isinstance(metadata, dict) else None
    return server_reason(raw) if isinstance(raw, str) else provider_message(raw)


def is_passing(error: JsonValue) -> bool:
    """Return whether an error object in an answer reports a transient server failure rather than a bad request."""
    if not isinstance(error, dict):
        return False
    code = next((error[name] for name in ("code", "status", "status_code") if error.get(name) is not None), None)
    if isinstance(code, int | str) and str(code).isdigit():
        return int(code) in _PASSING_STATUSES or int(code) >= 500
    return any(isinstance(one, str) and one in _PASSING_TYPES for one in (error.get("type"), code))


def _field_place(loc: JsonValue) -> str:
    """Format the path of an invalid field, as FastAPI and Mistral report it."""
    return ".".join(str(part) for part in loc if part != "body") if isinstance(loc, list) else ""


def clean_text(text: str, *secrets: str) -> str:
    """Clean a server's text for display: no markup, one line, truncated, secrets redacted."""
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
    """Return the error for a refusal. `wait` is the server's requested delay if it exceeds our limit."""
    said = clean_text(server_reason(refusal.body), *endpoint.secrets)
    kind = _error_kind(refusal)
    what, step = _refusal_text(endpoint, refusal, kind)
    if retries:
        what += f", even after {retries} more attempt{'s' if retries > 1 else ''}"
    if wait is not None:
        step = f"It asks to wait {_duration_text(wait)}; try again after that."
    return ModelError(_error_text(what, said, step), kind=kind, status=refusal.status, provider_message=said)


def broken_error(endpoint: Endpoint, failure: BrokenAnswer, partial_text: str) -> ModelError:
    """Return the error for an answer that failed after a status of 200."""
    said = clean_text(failure.detail, *endpoint.secrets)
    kind: ModelErrorKind = failure.kind
    if kind == "provider" and _says_overflow(failure.detail):
        kind = "overflow"
    what, step = _broken_text(endpoint, kind)
    return ModelError(
        _error_text(what, said, failure.step or step),
        kind=kind,
        provider_message=said,
        partial_text=partial_text,
        passing=failure.passing,
    )


def unreachable_error(
    endpoint: Endpoint, reason: str, *, retries: int = 0, kind: ModelErrorKind = "connection"
) -> ModelError:
    """Return the error for a connection that failed before an answer began."""
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


def late_error(endpoint: Endpoint, seconds: float, *, retries: int = 0) -> ModelError:
    """Return the error of an answer that did not begin within the limit."""
    again = f" after {retries + 1} attempts" if retries else ""
    what = f"No answer from {endpoint.place}{again} (nothing for {seconds:g} s)"
    return ModelError(_error_text(what, "", _limit_step(seconds, BEGIN_SETTING)), kind="limit")


def _limit_step(seconds: float, setting: str) -> str:
    return f"If the server is only slow, raise {setting} in config.toml, now {seconds:g} s (0 for no limit)."


def _proxy_of(endpoint: Endpoint) -> str:
    """Return the host and port of the proxy used for an endpoint, or '' if there is none."""
    from urllib.request import getproxies, proxy_bypass  # noqa: PLC0415 - most servers answer

    proxies = getproxies()
    named = proxies.get("https" if endpoint.tls else "http") or proxies.get("all", "")
    place = (named.partition("://")[2] or named).rstrip("/").rpartition("@")[2]  # without user and password
    return "" if proxy_bypass(endpoint.host) else place


def retry_reason(refusal: HttpRefusal) -> str:
    """Explain briefly why the request is retried."""
    status = refusal.status
    if is_unread_call(refusal):
        return f"the server could not read the model's call ({status})"
    return f"the server {'is busy' if status in _BUSY else 'failed'} ({status})"


def duration(text: str) -> float | None:
    """Return the seconds of a duration such as ``1m30.5s``, or None for any other text."""
    found = _DURATION.fullmatch(text.strip())
    if found is None or not found[0]:
        return None
    hours, minutes, seconds, milliseconds = (float(one or 0) for one in found.groups())
    return hours * 3600 + minutes * 60 + seconds + milliseconds / 1000


def wait_in_words(refusal: HttpRefusal) -> float | None:
    """Return the seconds that a busy server's body asks to wait, as Gemini's does, or None."""
    found = _WAIT.search(refusal.body) if refusal.status in _BUSY else None
    return None if found is None else duration(found[1])


def server_reason(body: str) -> str:
    """Return the reason in a refusal: the message of a JSON body, the title of an HTML page, or the text itself."""
    try:
        return provider_message(json_text.parse_json(body)) or body
    except ValueError:
        title = _TITLE.search(body[:MAX_CLEANED])
        return html.unescape(title[1]) if title else body


def is_unread_call(refusal: HttpRefusal) -> bool:
    """Return whether the server could not read the call that the model wrote, which may be better the next time."""
    return refusal.status in _REFUSED_CALL_STATUSES and _UNREAD_CALL.search(refusal.body) is not None


def is_overflow(refusal: HttpRefusal) -> bool:
    """Return whether this is a context-length error, which retrying can't fix."""
    return refusal.status == 413 or (refusal.status in _OVERFLOW_STATUSES and _says_overflow(refusal.body))


def _says_overflow(said: str) -> bool:
    if _OVERFLOW.search(said) is None:
        return False
    return _COUNTS_PROMPT.search(said) is not None or _OTHER_LIMIT.search(said) is None


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
    """Suggest ``/v1``, the suffix that is most often forgotten."""
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
