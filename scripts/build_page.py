"""Build the front end when the package is built from a checkout: the build function that pyproject.toml names.

A wheel and an sdist carry the built front end, so only a checkout needs Node.js.
"""

import os
import shutil
import subprocess
from typing import Any

from hatch_jupyter_builder.utils import npm_builder

OLDEST_NODE = 20  # major version


def build(target_name: str, version: str, **options: Any) -> None:
    """Run npm as `hatch_jupyter_builder.npm_builder` does.

    Raises:
        SystemExit: there is no Node.js, or it is too old; the message says how to install without it.
    """
    if os.environ.get("HATCH_JUPYTER_BUILDER_SKIP_NPM") != "1" and (problem := _node_problem()):
        # pip shows a message alone where an exception would come with our traceback.
        raise SystemExit(
            f"\nA checkout of vibe-jupyter needs Node.js {OLDEST_NODE} or newer to build its front end: {problem}.\n"
            "Install Node.js, or install a wheel, which needs none: `make wheel` (it fetches a Node.js of its own) "
            "writes it to dist/, then run `pip install dist/vibe_jupyter-*.whl`.\n"
        )
    npm_builder(target_name, version, **options)


def _node_problem() -> str:
    """Reason why npm can't be run; "" if it can."""
    node = shutil.which("node")
    if node is None or shutil.which("npm") is None:
        return f"{'`node`' if node is None else '`npm`'} was not found on PATH"
    said = subprocess.run([node, "--version"], capture_output=True, text=True).stdout.strip()
    major = said.removeprefix("v").split(".")[0]
    return "" if major.isdigit() and int(major) >= OLDEST_NODE else f"`node` is {said or 'not working'}"
