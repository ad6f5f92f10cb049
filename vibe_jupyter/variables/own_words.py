"""Custom descriptions of classes: registered functions, and allowlisted `_ai_repr_` methods.

Both run the user's code, which is why the user enables each class explicitly. Failures are logged, and the standard
description is used instead.
"""

import asyncio
import inspect
import logging
import threading
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, Final, NamedTuple, cast

from vibe_jupyter.variables.adapters import (
    VariableAdapter,
    VariableDescription,
    VariableView,
    class_dict,
    class_mro,
    class_name,
    module_of,
    type_name,
    type_of,
)

logger = logging.getLogger(__name__)

Describe = Callable[[Any], "str | Mapping[str, object]"]  # returns text, or a MIME bundle containing text

SECONDS: Final = 1.0  # time limit of one `_ai_repr_` call
_TEXT_LIMIT: Final = 4_000  # characters per description
_LINE_LIMIT: Final = 200
_TEXTS: Final = ("text/markdown", "text/plain")
_METHOD: Final = "_ai_repr_"


class _Registered(NamedTuple):
    cls: type | str
    describe: Describe


_registered: list[_Registered] = []
_allowed: set[str] = set()
_too_slow: set[str] = set()  # classes whose method timed out; it isn't called again


def register(cls: type | str, describe: Describe | None) -> None:
    """Describe values of a class and its subclasses with a function.

    Args:
        cls: The class, or its name such as ``"package.module.Class"``, which then need not be imported.
        describe: Takes a value and returns text, or a MIME bundle containing text. The first line is shown in lists of
            variables. It runs on the kernel's main thread each time, so it should be fast and free of side effects.
            None restores the standard description.

    Raises:
        TypeError: `cls` is neither a class nor a name, or `describe` isn't callable.
    """
    if not isinstance(cls, type | str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"register takes a class or its name, not {cls!r}.")
    if describe is not None and not callable(describe):
        raise TypeError(f"{describe!r} cannot be called.")
    _registered[:] = [one for one in _registered if one.cls is not cls and (type(cls) is not str or one.cls != cls)]
    if describe is not None:
        _registered.append(_Registered(cls, describe))


def allow_ai_repr(names: Iterable[str]) -> None:
    """Allow `_ai_repr_` for exactly these classes, named as by `class_name`."""
    _allowed.clear()
    _allowed.update(name.removeprefix("__main__.") for name in names)


def in_own_words(value: object, adapter: VariableAdapter) -> VariableAdapter:
    """Return an adapter that uses the class's custom description where there is one, and `adapter` otherwise."""
    describe = _function_for(value)
    if describe is not None:
        return _asking(adapter, describe, "its registered function")
    if not _has_method(value):
        return adapter
    if name := _allowed_name(value):
        return adapter._replace(describe=_asking(adapter, lambda one: _ask_method(one, name), _METHOD).describe)
    return adapter._replace(describe=_with_hint(adapter))


def _function_for(value: object) -> Describe | None:
    if not _registered:
        return None
    for cls in class_mro(type_of(value)):
        for one in reversed(_registered):
            if one.cls is cls or (type(one.cls) is str and one.cls == _full_name(cls)):
                return one.describe
    return None


def _full_name(cls: type) -> str:
    name = class_name(cls)
    return name if "." in name or module_of(cls) in ("", "builtins") else f"{module_of(cls)}.{name}"


def _asking(adapter: VariableAdapter, describe: Describe, what: str) -> VariableAdapter:
    def ask(value: object) -> str:
        try:
            return _text_of(describe(value))[:_TEXT_LIMIT].strip()
        except Exception:
            logger.warning("A value of class %s was not described by %s.", type_name(value), what, exc_info=True)
            return ""

    def line(value: object) -> str:
        first = ask(value).partition("\n")[0][:_LINE_LIMIT]
        return f"{type_name(value)} {first}" if first else adapter.line(value)

    def described(value: object, view: VariableView) -> VariableDescription:
        text = ask(value)
        return VariableDescription(adapter.line(value), text) if text else adapter.describe(value, view)

    return adapter._replace(line=line, describe=described)


def _text_of(found: object) -> str:
    """Extract the text from a description, a MIME bundle, or a (bundle, metadata) tuple."""
    chosen: Any = found
    if isinstance(chosen, tuple):
        chosen = next(iter(cast("tuple[object, ...]", chosen)), "")
    if isinstance(chosen, Mapping):
        bundle: dict[str, Any] = {str(mime): one for mime, one in cast("Mapping[Any, Any]", chosen).items()}
        texts = [bundle[mime] for mime in _TEXTS if mime in bundle]
        texts += [one for mime, one in bundle.items() if mime.startswith("text/")]
        chosen = next((one for one in texts if isinstance(one, str)), "")
    if not isinstance(chosen, str):
        raise TypeError(f"a description must be a text or a MIME bundle, not {type_name(found)}")
    return str.__str__(chosen)


def _has_method(value: object) -> bool:
    return any(_METHOD in class_dict(cls) for cls in class_mro(type_of(value)))


def _allowed_name(value: object) -> str:
    """Return the name under which the class or one of its bases is allowed, or ""."""
    if not _allowed:
        return ""
    return next((name for name in map(class_name, class_mro(type_of(value))) if name in _allowed), "")


def _with_hint(adapter: VariableAdapter) -> Callable[[Any, VariableView], VariableDescription]:
    def describe(value: Any, view: VariableView) -> VariableDescription:
        described = adapter.describe(value, view)
        setting = f'[variables] ai_repr = ["{type_name(value)}"]'
        hint = f"It has {_METHOD}, which runs only if the user's config.toml has {setting}."
        return described._replace(body="\n".join(filter(None, (described.body, hint))))

    return describe


def _ask_method(value: Any, name: str) -> str:
    """Return the text from `_ai_repr_`. Runs it on a separate thread, which is abandoned after the time limit."""
    if name in _too_slow:
        return ""
    given: list[object] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            found: object = value._ai_repr_()
            given.append(asyncio.run(_awaited(found)) if inspect.isawaitable(found) else found)
        except BaseException as error:  # noqa: BLE001 - raised again in the calling thread
            failed.append(error)

    asking = threading.Thread(target=run, name=f"vibe {_METHOD}", daemon=True)
    asking.start()
    asking.join(SECONDS)
    if asking.is_alive():
        _too_slow.add(name)
        logger.warning("%s of %s took more than %g s and is not asked again.", _METHOD, name, SECONDS)
        return ""
    if failed:
        raise RuntimeError(f"{_METHOD} failed") from failed[0]
    return _text_of(given[0])


async def _awaited(found: Any) -> object:
    return await cast("Coroutine[Any, Any, object]", found)
