"""Describe the effects of specialized programs: package managers, interpreters, network, containers and cloud tools."""

from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import urlsplit

from vibe_jupyter.files.sizes import bytes_text
from vibe_jupyter.permissions.shell.command_parts import WordOfPart
from vibe_jupyter.permissions.shell.effect_words import (
    AFFECTS_OTHERS,
    AS_ADMINISTRATOR,
    CANNOT_TELL,
    CHANGES,
    CHANGES_SYSTEM,
    DELETES,
    DOWNLOADS,
    HARMLESS,
    INSTALLS,
    LEAVES,
    NOT_EXPLAINED,
    RUNS_CODE,
    RUNS_DOWNLOADED,
    STOPS,
    UNKNOWN,
    EffectTag,
    Finding,
    PartCall,
    command_text,
    name_list,
    reading,
)
from vibe_jupyter.permissions.shell.measuring import count_text

DOWNLOADERS: Final = frozenset({"curl", "wget", "http", "https"})
SHELLS: Final = frozenset({"sh", "bash", "zsh", "dash", "ksh", "fish"})
INTERPRETERS: Final = frozenset(
    {"python", "python3", "ipython", "pypy3", "node", "deno", "bun", "perl", "ruby", "php", "Rscript", "julia", "lua"}
)
_FINDS_ONLY: Final = frozenset(
    {
        *(
            "-name",
            "-iname",
            "-path",
            "-ipath",
            "-type",
            "-size",
            "-mtime",
            "-mmin",
            "-newer",
            "-maxdepth",
            "-mindepth",
        ),
        *("-print", "-print0", "-ls", "-empty", "-not", "!", "-o", "-or", "-a", "-and", "(", ")", "-prune", "-perm"),
        *("-user", "-group", "-regex", "-iregex", "-regextype", "-printf", "-follow", "-L", "-H", "-P", "-quit"),
    }
)
# Read-only commands that require an operand.
_READ_NAMES: Final = frozenset({"stat", "file", "basename", "dirname", "md5sum", "sha256sum"})
_DELETES: Final = frozenset({"rm", "unlink", "shred"})
_FIND_RUNS: Final = ("-exec", "-execdir", "-ok", "-okdir")


def _subcommand(call: PartCall, valued: str = "") -> tuple[str, list[WordOfPart]]:
    """Return the first operand and the rest."""
    operands = call.operands(valued)
    return (operands[0].text, operands[1:]) if operands else ("", [])


def _python_packages(call: PartCall) -> Finding:
    words = [word for word in call.arguments if word.text not in ("pip", "tool", "env")]
    what = next((word.text for word in words if not word.text.startswith("-")), "")
    rest = [word for word in call.operands("rcieft") if word.text not in (what, "pip", "tool", "env")]
    match what:
        case "install" | "add" | "sync" | "create" | "update" | "upgrade" | "download":
            file = call.value("-r", "--requirement", "-f", "--file")
            named = name_list(rest) or (f"what `{file.raw}` lists" if file else "packages")
            return Finding(f"Downloads and installs {named}", INSTALLS)
        case "uninstall" | "remove":
            return Finding(f"Uninstalls {name_list(rest)}", INSTALLS)
        case "list" | "show" | "freeze" | "check" | "info" | "search" | "tree":
            return Finding("Shows installed packages", HARMLESS)
        case "publish" | "upload":
            return Finding("Publishes a package for everyone", AFFECTS_OTHERS, "", "publish")
        case "run" | "exec":
            return call.inner([word for word in call.arguments if word.text != what])
        case _:
            return NOT_EXPLAINED


def _system_packages(call: PartCall) -> Finding:
    what, rest = _subcommand(call)
    if what in ("install", "upgrade", "update", "dist-upgrade", "reinstall"):
        return Finding(f"Downloads and installs {name_list(rest) or 'updates'}", INSTALLS)
    if what in ("remove", "purge", "autoremove", "uninstall", "erase"):
        return Finding(f"Uninstalls {name_list(rest) or 'packages'}", INSTALLS)
    return Finding("Shows packages", HARMLESS) if what in ("list", "show", "search", "info") else NOT_EXPLAINED


def _node_packages(call: PartCall) -> Finding:
    what, rest = _subcommand(call)
    if what in ("install", "i", "ci", "add", "update", ""):
        return Finding(f"Downloads and installs {name_list(rest) or 'the packages of the project'}", INSTALLS)
    if what in ("uninstall", "remove", "rm"):
        return Finding(f"Uninstalls {name_list(rest)}", INSTALLS)
    if what in ("publish", "unpublish", "deprecate"):
        return Finding(f"Changes what is published under the package's name (`{what}`)", AFFECTS_OTHERS, "", what)
    if what in ("run", "test", "start", "exec", "build"):
        named = " ".join(word.raw for word in (rest[:1] if what == "run" else ())) or what
        return Finding(f"Runs the project's script `{named}`, which can do anything", RUNS_CODE)
    return Finding("Shows packages", HARMLESS) if what in ("list", "ls", "view", "outdated") else NOT_EXPLAINED


def _run_project(call: PartCall) -> Finding:
    return Finding(f"Runs {command_text(call.words)} of the project, which can do anything", RUNS_CODE)


def _run_tests(call: PartCall) -> Finding:
    return Finding("Runs the project's tests, which are code", RUNS_CODE)


def _check_code(call: PartCall) -> Finding:
    if call.has("--fix", "--fix-only") or (call.name in ("black", "isort") and not call.has("--check", "--diff")):
        return Finding("Rewrites source files", CHANGES)
    if call.name == "ruff" and _subcommand(call)[0] == "format" and not call.has("--check", "--diff"):
        return Finding("Rewrites source files", CHANGES)
    return Finding("Checks source files", RUNS_CODE)


def _interpreter(call: PartCall) -> Finding:
    if [word.text for word in call.arguments[:1]] in (["--version"], ["-V"], ["-VV"]):
        return Finding(f"Shows the version of {call.name}", HARMLESS)
    module = call.value("-m")
    if module is not None and module.text in ("pip", "pytest", "unittest"):
        at = [word.text for word in call.words].index("-m")
        return call.inner(call.words[at + 1 :]) if module.text != "unittest" else _run_tests(call)
    if call.has("-c", "-e") and call.arguments:
        return Finding(f"Runs {call.name} code; {CANNOT_TELL.replace('this', 'it')}", RUNS_CODE)
    operands = call.operands("mWX")
    if not operands and module is None:
        downloaded = call.fed_by in DOWNLOADERS
        text = "Runs what the part before downloads" if downloaded else "Runs what the part before prints, as code"
        return Finding(
            text, RUNS_DOWNLOADED if downloaded else RUNS_CODE, "", "run downloaded code" if downloaded else ""
        )
    named = f"the module `{module.raw}`" if module is not None else f"`{operands[0].raw}`"
    return Finding(f"Runs {named}, which can do anything", RUNS_CODE)


def _download(call: PartCall) -> Finding:
    address = next((word for word in call.operands("HdFoXuAebTm") if "." in word.text or "/" in word.text), None)
    where = _host_text(address)
    sends = ("-d", "--data", "--data-raw", "--data-binary", "--json", "-F", "--form", "-T", "--upload-file")
    method = call.value("-X", "--request", "--method")
    sends += ("--post-data", "--post-file", "--body-file")
    if call.has(*sends) or (method is not None and method.text.upper() not in ("GET", "HEAD")):
        return Finding(f"Sends data to {where}", LEAVES, "", "send data")
    file = call.value("-o", "--output", "-O", "--output-document") if call.name == "curl" else call.value("-O")
    if call.name == "curl" and call.has("-O", "--remote-name") and not call.has("-o", "--output"):
        return Finding(f"Downloads a file from {where}", DOWNLOADS)
    if file is not None and file.text not in ("-", "/dev/null"):
        return Finding(f"Downloads from {where} to `{file.raw}`", DOWNLOADS)
    return Finding(f"Downloads from {where}", DOWNLOADS)


def _host_text(address: WordOfPart | None) -> str:
    if address is None or not address.literal:
        return "an address that can't be told"
    text = address.text if "://" in address.text else f"//{address.text}"
    try:
        return f"`{urlsplit(text).hostname or address.text}`"
    except ValueError:
        return f"`{address.text}`"


def _remote(call: PartCall) -> Finding:
    host, command = _subcommand(call, "pioFlJLRDEbcemQSWw")
    does = f"Runs {command_text(command)} on" if command else "Opens a shell on"
    return Finding(f"{does} the computer `{host}`", LEAVES, "", f"use {host}")


def _remote_copy(call: PartCall) -> Finding:
    operands = call.operands("eFiPofB", ("--exclude", "--include", "--rsh", "--filter"))
    if len(operands) < 2:
        return NOT_EXPLAINED
    *sources, target = operands
    deletes = call.has("--delete", "--delete-after", "--delete-before", "--remove-source-files")
    if ":" in target.text.split("/", 1)[0]:
        return Finding(f"Sends {name_list(sources)} to `{target.raw}`", LEAVES, "", "send files")
    if any(":" in word.text.split("/", 1)[0] for word in sources):
        return Finding(f"Downloads {name_list(sources)} to `{target.raw}`", DOWNLOADS)
    text = f"Copies {name_list(sources)} to `{target.raw}`"
    if deletes:
        return Finding(f"{text} and deletes what isn't in both", DELETES, "", "delete files")
    return Finding(text, CHANGES)


def _containers(call: PartCall) -> Finding:
    compose = call.name.endswith("-compose") or "compose" in [word.text for word in call.arguments[:1]]
    what, rest = _subcommand(call, "fp" if compose else "H")
    first = rest[0].text if rest else ""
    if what in ("image", "container", "volume", "network", "system", "compose", "buildx"):
        what, rest, group = first, rest[1:], what
    else:
        group = "volume" if compose else "container"
    if what in ("ps", "images", "ls", "logs", "inspect", "version", "info", "stats", "top", "port", "df", "config"):
        return Finding("Shows containers and images", HARMLESS)
    if what in ("rm", "rmi", "prune") or (what == "down" and call.has("-v", "--volumes")):
        named = name_list(rest) or ("unused data" if what == "prune" else "containers and their volumes")
        return Finding(
            f"Deletes {'the ' + group + ' ' if rest else ''}{named}", DELETES, "", "delete containers or images"
        )
    if what in ("push", "login"):
        return Finding(f"Publishes {name_list(rest) or 'an image'}", AFFECTS_OTHERS, "", "publish an image")
    if what in ("pull", "load", "import"):
        return Finding(f"Downloads the image {name_list(rest)}", DOWNLOADS)
    if what in ("stop", "kill", "restart", "pause", "down"):
        return Finding(f"Stops the containers {name_list(rest)}".rstrip(), STOPS)
    if what in ("run", "exec", "build", "up", "start", "create", "cp"):
        return Finding(f"Runs code in a container (`{what}`), which can do anything", RUNS_CODE)
    return NOT_EXPLAINED


_CLOUD_READS: Final = ("get", "list", "ls", "describe", "show", "view", "status", "logs", "version", "plan", "whoami")
_CLOUD_DELETES: Final = ("delete", "rm", "rb", "destroy", "terminate", "remove", "drain", "purge")


def _cloud(call: PartCall) -> Finding:
    words = [word.text for word in call.operands("ncRfpo")][:3]
    said = command_text(call.words[: 1 + len(words)])
    if any(word.split("-")[0] in _CLOUD_DELETES for word in words):
        return Finding(
            f"Deletes something on a service others may use ({said})", AFFECTS_OTHERS, "", "delete remote data"
        )
    if any(word.split("-")[0] in _CLOUD_READS for word in words):
        return Finding(f"Shows data of a service ({said})", DOWNLOADS)
    return Finding(f"Changes something on a service others may use ({said})", AFFECTS_OTHERS, "", "change a service")


def _service(call: PartCall) -> Finding:
    what, rest = _subcommand(call)
    if what in ("status", "list-units", "is-active", "show", "cat"):
        return Finding("Shows the state of services", HARMLESS)
    return Finding(f"Changes services of this computer: {name_list(rest)} (`{what}`)", CHANGES_SYSTEM)


def _database(call: PartCall) -> Finding:
    text = " ".join(word.text for word in call.arguments).lower()
    if any(f"{word} " in text for word in ("drop", "delete", "truncate")):
        return Finding("Deletes data of a database", DELETES, "", "delete data of a database")
    return Finding("Runs statements in a database", RUNS_CODE)


def _find(call: PartCall) -> Finding:
    words = list(call.arguments)
    starts: list[WordOfPart] = []
    while words and not words[0].text.startswith(("-", "(", "!")):
        starts.append(words.pop(0))
    where = name_list(starts) or "the folder"
    texts = [word.text for word in words]
    if "-delete" in texts:
        return _find_deleting(call, starts, texts, where)
    for at, text in enumerate(texts):
        if text in _FIND_RUNS:
            started = [word for word in words[at + 1 :] if word.text not in (";", "+")]
            if started and started[0].text.rpartition("/")[2] in _DELETES:
                text = f"Deletes the files it finds below {where}; they don't go to the trash"
                return Finding(text, DELETES, "", "delete files")
            inner = call.inner(started)
            detail = f"It does so for each file it finds below {where}."
            return inner._replace(detail=" ".join(filter(None, (inner.detail, detail))))
    if any(text.startswith("-") and text not in _FINDS_ONLY for text in texts):
        return NOT_EXPLAINED
    return reading(call, starts, f"Searches for files below {where}")


def _find_deleting(call: PartCall, starts: list[WordOfPart], texts: list[str], where: str) -> Finding:
    tests = dict(zip(texts[::2], texts[1::2], strict=False))
    counted = set(texts[::2]) <= {"-name", "-type", "-delete"} and len(tests) == len(texts) // 2
    here = [call.here] if call.here is not None else None
    paths = call.paths(starts) if starts else here
    if call.meter is None or paths is None or not counted:
        return Finding(
            f"Deletes the files it finds below {where}; they don't go to the trash", DELETES, "", "delete files"
        )
    names = (tests["-name"],) if "-name" in tests else ()
    sizes = [call.meter.matching(path, names, kind=tests.get("-type", "")) for path in paths]
    files, size = sum(one.files for one in sizes), sum(one.bytes for one in sizes)
    more = "" if all(one.whole for one in sizes) else "more than "
    found = f"{more}{count_text(files, 'file')}"
    text = f"Deletes {found} ({bytes_text(size)}) below {where}; they don't go to the trash"
    return Finding(text, DELETES, "", f"delete {found}")


def _for_each(call: PartCall) -> Finding:
    """Describe ``xargs`` and similar programs."""
    words = list(call.arguments)
    while words and words[0].text.startswith("-"):
        option = words.pop(0).text
        if option in ("-n", "-I", "-P", "-L", "-s", "-d", "-E", "--max-args", "--max-procs", "--delimiter") and words:
            words.pop(0)
    if not words:
        return Finding("Prints its input", HARMLESS)
    name = words[0].text.rpartition("/")[2]
    if name in _DELETES:
        return _delete_input(words)
    inner = call.inner(words)
    detail = "It does so for what the part before prints."
    if inner is NOT_EXPLAINED and name in _READ_NAMES:
        inner = Finding(f"Runs `{name}`, which only reads", HARMLESS)
    return inner._replace(detail=" ".join(filter(None, (inner.detail, detail))))


def _delete_input(words: list[WordOfPart]) -> Finding:
    """Describe a deletion of the files listed on standard input."""
    text = "Deletes every file that the part before names; they don't go to the trash"
    return Finding(text, DELETES, f"Runs {command_text(words)} for each.", "delete files")


def _as_administrator(call: PartCall) -> Finding:
    words = list(call.arguments)
    while words and words[0].text.startswith("-"):
        option = words.pop(0).text
        if option in ("-u", "-g", "-C", "-p", "-h") and words:
            words.pop(0)
    if not words:
        return Finding("Opens a shell as administrator", AS_ADMINISTRATOR, "", "run as administrator")
    inner = call.inner(words)
    tag: EffectTag = inner.tag if inner.tag.risk == "high" else AS_ADMINISTRATOR
    action = f"{inner.action} as administrator" if inner.action else "run as administrator"
    return Finding(f"{inner.text}, as administrator of this computer", tag, inner.detail, action)


def _wrapped(call: PartCall) -> Finding:
    """Describe the command started by a wrapper such as ``env``, ``nohup`` or ``time``."""
    words = list(call.arguments)
    while words and (words[0].text.startswith("-") or "=" in words[0].text):
        option = words.pop(0).text
        if option in ("-n", "-k", "-s", "-o", "-e", "-i", "--signal", "-u", "-C") and words and call.name != "env":
            words.pop(0)
    if call.name == "timeout" and words:
        words.pop(0)
    if not words:
        return Finding("Shows variables of the environment", HARMLESS) if call.name == "env" else NOT_EXPLAINED
    if call.name == "command" and call.has("-v", "-V"):
        return Finding("Shows where a program is", HARMLESS)
    return call.inner(words)


def _shell(call: PartCall) -> Finding:
    """Describe a shell that runs a script. ``-c`` with a literal string has already been split into parts."""
    operands = call.operands()
    if operands and not call.has("-c"):
        return Finding(f"Runs the script `{operands[0].raw}`, which can do anything", RUNS_CODE)
    if call.has("-c") or not call.fed_by:
        return Finding(CANNOT_TELL, UNKNOWN)
    return _interpreter(call)


def _notebook(call: PartCall) -> Finding:
    what, rest = _subcommand(call)
    if what in ("nbconvert", "execute", "run") or call.name == "papermill":
        runs = call.has("--execute") or call.name == "papermill" or what != "nbconvert"
        text = f"{'Runs' if runs else 'Converts'} the notebook {name_list(rest) or 'it is given'}"
        return Finding(text, RUNS_CODE if runs else CHANGES)
    return Finding("Starts Jupyter or changes its settings", RUNS_CODE)


def _publish(call: PartCall) -> Finding:
    return Finding(f"Publishes a package for everyone ({command_text(call.words[:2])})", AFFECTS_OTHERS, "", "publish")


def _cargo(call: PartCall) -> Finding:
    what, _ = _subcommand(call)
    return _publish(call) if what == "publish" else _run_project(call)


# Program -> function that describes a call.
PROGRAMS: Final[Mapping[str, Callable[[PartCall], Finding]]] = {
    **dict.fromkeys(("pip", "pip3", "uv", "conda", "mamba", "poetry", "pipx", "pdm"), _python_packages),
    **dict.fromkeys(("apt", "apt-get", "brew", "dnf", "yum", "apk", "snap"), _system_packages),
    **dict.fromkeys(("npm", "pnpm", "yarn"), _node_packages),
    **dict.fromkeys(("make", "just", "tox", "nox", "npx", "uvx", "cmake", "go", "gradle", "mvn"), _run_project),
    "cargo": _cargo,
    "pytest": _run_tests,
    **dict.fromkeys(("ruff", "black", "isort", "mypy", "pyright", "flake8", "pylint", "eslint", "tsc"), _check_code),
    **dict.fromkeys(INTERPRETERS, _interpreter),
    **dict.fromkeys(SHELLS, _shell),
    **dict.fromkeys(DOWNLOADERS, _download),
    **dict.fromkeys(("ssh", "mosh"), _remote),
    **dict.fromkeys(("scp", "rsync", "sftp"), _remote_copy),
    **dict.fromkeys(("docker", "podman", "docker-compose"), _containers),
    **dict.fromkeys(
        ("gh", "glab", "aws", "gcloud", "az", "kubectl", "helm", "terraform", "heroku", "databricks", "gsutil"), _cloud
    ),
    **dict.fromkeys(("systemctl", "service", "launchctl"), _service),
    **dict.fromkeys(("psql", "mysql", "sqlite3", "mongosh", "redis-cli", "duckdb"), _database),
    "find": _find,
    **dict.fromkeys(("xargs", "parallel"), _for_each),
    **dict.fromkeys(("sudo", "doas", "su", "pkexec"), _as_administrator),
    **dict.fromkeys(
        ("env", "nohup", "time", "timeout", "nice", "stdbuf", "setsid", "command", "exec", "builtin"), _wrapped
    ),
    **dict.fromkeys(("jupyter", "papermill"), _notebook),
    **dict.fromkeys(("twine", "flit"), _publish),
}
