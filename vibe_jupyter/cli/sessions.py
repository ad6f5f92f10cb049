"""`vibe-jupyter sessions`: list and print saved conversations."""

import argparse
import json
import os
import sys
from pathlib import Path

from vibe_jupyter import config
from vibe_jupyter.app.saved_sessions import gateway_store, session_store
from vibe_jupyter.commands.sessions import session_table
from vibe_jupyter.files.shown_names import decodable_name
from vibe_jupyter.session.export import as_markdown
from vibe_jupyter.session.journal import read_journal
from vibe_jupyter.session.store import find_session
from vibe_jupyter.ui.text import readable_text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `vibe-jupyter sessions`."""
    parser.add_argument("--folder", type=Path, metavar="DIR", help="those of this folder only (default: all)")
    parser.add_argument("--json", action="store_true", help="one JSON object a line, with all that is known")
    parser.add_argument("--gateway", action="store_true", help="the runs that the gateway keeps, in their place")
    parser.add_argument("--show", metavar="ID", help="print one as Markdown: prompts, answers, calls and results")
    parser.set_defaults(command=_list_chosen)


def _list_chosen(chosen: argparse.Namespace) -> int:
    store = (gateway_store if chosen.gateway else session_store)(config.load_settings(), os.environ)
    known = store.sessions()
    if chosen.show:
        one = find_session(chosen.show, known)
        text = as_markdown(one, read_journal(store.journal_of(one)).events)
        print(readable_text(text) if sys.stdout.isatty() else text, end="")
        return 0
    folder = str(chosen.folder.resolve()) if chosen.folder is not None else None
    listed = [one for one in known if folder is None or one.folder == decodable_name(folder)]
    if chosen.json:
        for one in listed:
            print(json.dumps(one.model_dump(exclude={"name"})))
    elif listed:
        print(session_table(listed, known))
    else:
        print("No conversation is saved yet." if folder is None else f"No conversation of {folder} is saved.")
    return 0
