"""SIGKILL of a kernel at random moments of a run, and a new kernel that resumes the conversation.

What the model was sent before is sent again, byte for byte, nothing with effects is done twice, and a strict server
takes the history.
"""

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.sweeps.kills import READY_WITHIN, Kernels, attempts, make_folders, run_cell, wrong_on_disk
from vibe_jupyter.session.conversation import MAY_HAVE_RUN, NOT_STARTED, RESULT_LOST, check_history, fold_history
from vibe_jupyter.session.journal import read_journal
from vibe_jupyter.testing import Call, ModelRequest, Reply, ScriptedModel, answer, call, say

COUNT = 200
LATEST = 0.5
"""Seconds after a request in which the kernel is killed."""
TURNS = 4
"""Answers with calls, before the last."""
DONE = "done.txt"
"""Each call adds a line of its own to this file."""
PROMPT = "%%vibe --yes=bash,write_file,run_code\ngo"
FURTHER = "go on after the crash"


def sweep(count: int, seed: int) -> Iterator[str]:
    chosen = random.Random(seed)
    closed: Counter[str] = Counter()
    yield from attempts(count, _reply, lambda forks, model, folder: _try(forks, model, folder, chosen, closed))
    print(f"kills_resumed: {', '.join(f'{times} {how}' for how, times in sorted(closed.items()))}", flush=True)


def _reply(request: ModelRequest) -> Reply:
    turn = len([message for message in request.messages if message["role"] == "assistant"])
    if FURTHER in request.last_user_text or turn >= TURNS:
        return say("Done.")
    return answer(f"Turn {turn}.", [_append_by_shell(f"shell-{turn}"), _append_by_code(f"code-{turn}")])


def _append_by_shell(line: str) -> Call:
    return call("bash", command=f"sleep 0.1; echo {line} >> {DONE}; sleep 0.1")


def _append_by_code(line: str) -> Call:
    return call(
        "run_code",
        code=f"with open({DONE!r}, 'a') as file:\n    print({line!r}, file=file)\nimport time; time.sleep(0.1)",
    )


def _try(
    forks: Kernels, model: ScriptedModel, folder: Path, chosen: random.Random, closed: Counter[str]
) -> Iterator[str]:
    make_folders(folder, model)
    before = len(model.requests)
    process, client = forks.start(folder)
    try:
        run_cell(client, "%load_ext vibe_jupyter")
        client.execute(PROMPT, allow_stdin=False)
        model.wait_for_request(before + chosen.randint(1, TURNS + 1), timeout=READY_WITHIN)
        time.sleep(chosen.uniform(0, LATEST))
        os.kill(process, signal.SIGKILL)
    finally:
        client.stop_channels()
    yield from wrong_on_disk(folder, process)
    sent = model.requests[-1].messages
    done = _done(folder)
    yield from (f"{line!r} was done {times} times" for line, times in Counter(done).items() if times > 1)
    yield from _resume(forks, model, folder, sent, closed)
    if _done(folder) != done:
        yield f"the resumed conversation did something again: {_done(folder)[len(done) :]}"


def _resume(
    forks: Kernels, model: ScriptedModel, folder: Path, sent: list[dict[str, object]], closed: Counter[str]
) -> Iterator[str]:
    before = len(model.requests)
    _, client = forks.start(folder)
    try:
        run_cell(client, "%load_ext vibe_jupyter")
        said = run_cell(client, "%vibe resume")
        if "Continuing 'go' (" not in said:
            yield f"it is not resumed: {said!r}"
        run_cell(client, f"%%vibe\n{FURTHER}")
    finally:
        client.shutdown()
        client.stop_channels()
    requests = model.requests[before:]
    if len(requests) != 1:
        yield f"{len(requests)} requests after the resume: a strict server refused, or none was sent"
        return
    messages = requests[0].messages
    if messages[1 : len(sent)] != sent[1:]:
        yield f"what was sent before is not sent again: {len(sent)} messages before, {len(messages)} now"
    (journal,) = (folder / "vibe").rglob("journal.jsonl")
    contents = read_journal(journal)
    try:
        check_history(fold_history(contents.events))
    except ValueError as error:
        yield f"the history is broken: {error}"
    closed[_how_it_ended(str(messages))] += 1


def _how_it_ended(sent: str) -> str:
    if MAY_HAVE_RUN in sent or RESULT_LOST in sent:
        return "in a call"
    return "before a call" if NOT_STARTED in sent else "between turns"


def _done(folder: Path) -> list[str]:
    try:
        return (folder / "work" / DONE).read_text(encoding="utf-8").split()
    except FileNotFoundError:
        return []
