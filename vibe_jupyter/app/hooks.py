"""Loading of a prompt's hooks, and the check that every restriction in the config files is enforced.

The user's own hooks always run. A project's hooks run once its folder is trusted. Until then they are listed, and a
non-interactive run refuses to start, as it does for a restricting key that isn't supported (docs/hooks.md).
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from vibe_jupyter import config
from vibe_jupyter.config.narrowing import UnheededKey, unheeded_claude_keys
from vibe_jupyter.config.tables import matches_pattern
from vibe_jupyter.config.toml_file import DEEPEST, parse_toml
from vibe_jupyter.errors import ConfigError
from vibe_jupyter.files.plain_file import read_plain_file
from vibe_jupyter.hooks.definition import Hook
from vibe_jupyter.safe_imports import without_working_folder

if TYPE_CHECKING:
    from vibe_jupyter.app.project import CurrentSettings
    from vibe_jupyter.hooks.runner import CommandHooks

USER_FILES: Final = ("hooks.toml", "hooks.json")  # in the user's folder
VIBE_FILES: Final = (".vibe/hooks.toml", ".vibe/hooks.json")
CLAUDE_FILES: Final = (".claude/settings.json", ".claude/settings.local.json")
PROJECT_FILES: Final = (*VIBE_FILES, *CLAUDE_FILES)  # in a project; of Claude Code's files only the hooks are used
FILE_LIMIT: Final = 64 * 1024  # bytes
PROJECT_HOOKS: Final = "project_hooks"  # key in `ignored_guards` for the hooks of an untrusted folder
_NAMED: Final = 5  # hooks listed in a message


class LoadedHooks(NamedTuple):
    """Contents of all hook files."""

    # Hooks that run, the project's first, so that the user's own see input that these have rewritten.
    hooks: tuple[Hook, ...] = ()
    waiting: tuple[Hook, ...] = ()  # hooks of an untrusted folder
    unheeded: tuple[UnheededKey, ...] = ()
    # Unreadable files of an untrusted folder, and unsupported events, which don't run and guard nothing.
    problems: tuple[str, ...] = ()
    is_unreadable: bool = False  # True if hooks of an untrusted folder can't be read


class BrokenGuard(NamedTuple):
    """A restriction that isn't enforced."""

    key: str  # its key in `ignored_guards`
    text: str


def user_files(environ: Mapping[str, str]) -> list[Path]:
    """Return the paths of the user's own hook files."""
    return [config.vibe_home(environ) / name for name in USER_FILES]


def load_hooks(folder: Path, files: Mapping[str, bytes], environ: Mapping[str, str], *, trusted: bool) -> LoadedHooks:
    """Read all hooks.

    Args:
        folder: The project folder.
        files: Its files by relative path, as of the trust check.
        environ: The process's environment.
        trusted: Whether the folder is trusted.

    Raises:
        ConfigError: A file of the user's or of a trusted folder is invalid; the message names it.
    """
    loaded = LoadedHooks()
    for name in PROJECT_FILES:
        if name not in files:
            continue
        try:
            loaded = _with_file(loaded, folder / name, files[name], trusted=trusted)
        except ConfigError as error:
            if trusted:
                raise
            text = f"{error} The folder is not trusted, so that its hooks do not run anyway."
            loaded = loaded._replace(problems=(*loaded.problems, text), is_unreadable=True)
    for path in user_files(environ):
        content = _own_file(path)
        if content is not None:
            loaded = _with_file(loaded, path, content, trusted=True)
    return loaded


def has_hooks(name: str, content: bytes) -> bool:
    """Return whether a Claude Code settings file declares hooks. Most don't, and then none of it is loaded."""
    try:
        return bool(_parse(Path(name), content).get("hooks"))
    except ConfigError:
        return False


def hook_lines(folder: Path, files: Mapping[str, bytes]) -> list[str]:
    """Describe each hook, with its command, that a folder would run if it were trusted."""
    lines: list[str] = []
    for name in PROJECT_FILES:
        if name in files:
            try:
                lines += [hook.line for hook in _read(folder / name, files[name])[0]]
            except ConfigError as error:
                lines.append(f"hooks that cannot be read: {error}")
    return lines


def command_hooks(
    current: "CurrentSettings",
    environ: Mapping[str, str],
    session: Callable[[], tuple[str, str]],
    *,
    retries: int | None = None,
) -> "CommandHooks | None":
    """Return the hooks of a prompt, ready to run, or None without any.

    Args:
        current: The settings of the prompt.
        environ: The process's environment.
        session: Returns the session's id and the folder of its transcript.
        retries: How many times hooks may make the agent continue; None for the default.
    """
    if not current.hooks.hooks:
        return None
    with without_working_folder():
        from vibe_jupyter.hooks.runner import MOST_RETRIES, CommandHooks, HookPlace

    place = HookPlace(current.look.folder, environ, session)
    return CommandHooks(current.hooks.hooks, place, retries=MOST_RETRIES if retries is None else retries)


def hold_guards(current: "CurrentSettings", attended: Callable[[], bool]) -> list[str]:
    """Check that every restriction in the config files is enforced. Returns warnings for an attending user.

    Raises:
        ConfigError: A restriction isn't enforced and no user attends to see the warning.
    """
    guards = list(_broken_guards(current))
    texts = [guard.text for guard in guards]
    if guards and not attended():
        ignored = current.reading.settings.ignored_guards
        left = [one for one in guards if not any(matches_pattern(pattern, one.key) for pattern in ignored)]
        if left:
            raise ConfigError(_refusal(current, left))
    return [*current.hooks.problems, *texts]


def list_hooks(current: "CurrentSettings") -> str:
    """List the hooks and their sources for `%vibe config`."""
    loaded = current.hooks
    lines = ["Hooks (docs/hooks.md):"]
    lines += [f"  {hook.line}  # {hook.source}" for hook in loaded.hooks]
    lines += [f"  not run, since the folder is not trusted: {hook.line}  # {hook.source}" for hook in loaded.waiting]
    lines += [f"  ! {problem}" for problem in loaded.problems]
    lines += [f"  ! {guard.text}" for guard in _broken_guards(current) if guard.key != PROJECT_HOOKS]
    return "\n".join(lines if len(lines) > 1 else ["Hooks: none"])


def _broken_guards(current: "CurrentSettings") -> Iterator[BrokenGuard]:
    loaded = current.hooks
    if loaded.waiting:
        count = len(loaded.waiting)
        named = "; ".join(hook.line for hook in loaded.waiting[:_NAMED])
        more = f"; and {count - _NAMED} more" if count > _NAMED else ""
        words = (
            f"{count} hook{'s do' if count > 1 else ' does'} not run, since the folder is not trusted: {named}{more}."
        )
        yield BrokenGuard(PROJECT_HOOKS, f"{current.look.folder}: {words} %vibe trust shows them and asks.")
    elif loaded.is_unreadable:
        yield BrokenGuard(PROJECT_HOOKS, f"{current.look.folder} has hooks that cannot be read, and they do not run.")
    for key in (*current.reading.unheeded, *loaded.unheeded):
        yield BrokenGuard(key.key, key.text)


def _refusal(current: "CurrentSettings", guards: Sequence[BrokenGuard]) -> str:
    keys = list(dict.fromkeys(guard.key for guard in guards))
    advice = [f"ignored_guards = {json.dumps(keys)} in your config.toml, or VIBE_IGNORED_GUARDS={','.join(keys)}"]
    trust = "Trust the folder: open a notebook in it and run %vibe trust. " if PROJECT_HOOKS in keys else ""
    return "\n".join(
        [
            "Nothing was sent: nobody is here to see that these restrictions do not hold.",
            *(f"- {guard.text}" for guard in guards),
            f"{trust}Or run without them: {advice[0]} for one run.",
        ]
    )


def _with_file(loaded: LoadedHooks, path: Path, content: bytes, *, trusted: bool) -> LoadedHooks:
    hooks, unheeded, unused = _read(path, content)
    return loaded._replace(
        hooks=(*loaded.hooks, *(hooks if trusted else ())),
        waiting=(*loaded.waiting, *(() if trusted else hooks)),
        unheeded=(*loaded.unheeded, *unheeded),
        problems=(*loaded.problems, *(f"{path}: {key} is not run." for key in unused)),
    )


def _read(path: Path, content: bytes) -> tuple[tuple[Hook, ...], list[UnheededKey], tuple[str, ...]]:
    with without_working_folder():
        from vibe_jupyter.hooks.reading import read_hooks

    parsed = _parse(path, content)
    found = read_hooks(parsed, path)
    unheeded = [UnheededKey(key, str(path)) for key in found.unheeded]
    return found.hooks, [*unheeded, *unheeded_claude_keys(parsed, str(path))], found.unused


def _parse(path: Path, content: bytes) -> Mapping[str, Any]:
    if len(content) > FILE_LIMIT:
        raise ConfigError(f"{path} has {len(content):,} bytes; at most {FILE_LIMIT:,} are read. Shorten it.")
    text = content.decode("utf-8-sig", "replace")
    if path.suffix == ".toml":
        parsed: Any = parse_toml(text, path, "project").plain()
    else:
        try:
            parsed = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ConfigError(f"{path} is not JSON: {error}. Fix it, then try again.") from None
        if _is_nested_deep(parsed):
            raise ConfigError(f"{path} is nested too deeply to be read. Fix it, then try again.")
    if not isinstance(parsed, dict):
        raise ConfigError(f"{path}: expected a table with hooks. Fix it, then try again.")
    return cast("dict[str, Any]", parsed)


def _is_nested_deep(value: Any) -> bool:
    level: list[Any] = [value]
    for _ in range(DEEPEST):
        level = [inner for one in level if isinstance(one, dict | list) for inner in _inside(cast("list[Any]", one))]
    return bool(level)


def _inside(container: Mapping[str, Any] | list[Any]) -> Iterable[Any]:
    return container.values() if isinstance(container, Mapping) else container


def _own_file(path: Path) -> bytes | None:
    """Return the content of a user's file, or None if it doesn't exist."""
    try:
        return read_plain_file(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(f"Cannot read {path}: {error.strerror}. Fix or move the file, then try again.") from error
