"""What a program is started in, and what is kept of it: a small environment, its folder, a log without its keys."""

import json
import os
import sys
from pathlib import Path

import pytest

from tests.mcp.conftest import SAMPLE, NewServers, call, connection, declared
from vibe_jupyter.config.tool_servers import ServerProgram
from vibe_jupyter.errors import ServerError
from vibe_jupyter.mcp.log import LINE_LIMIT, LOG_LIMIT, TAIL_WIDTH

PLANTED = {
    name: f"planted-{number}-value"
    for number, name in enumerate(
        (
            "MISTRAL_API_KEY",
            "OPENAI_API_KEY",
            "AWS_SECRET_ACCESS_KEY",
            "AWS_SESSION_TOKEN",
            "AZURE_CLIENT_SECRET",
            "GITHUB_TOKEN",
            "HF_TOKEN",
            "DATABASE_URL",
            "PGPASSWORD",
            "JUPYTER_TOKEN",
            "SSH_AUTH_SOCK",
            "NPM_TOKEN",
        )
    )
}


async def test_a_program_is_given_a_small_environment_and_what_is_declared_for_it(
    new_servers: NewServers, tmp_path: Path
) -> None:
    at = ServerProgram((sys.executable, str(SAMPLE)), env={"FOR_IT": "declared"}, cwd="inner")
    (tmp_path / "inner").mkdir()
    servers = await new_servers(declared("sample", at), environ=os.environ | PLANTED)
    one = connection(servers, "sample")

    environment = json.loads(await call(one, "environment"))

    assert [name for name in PLANTED if name in environment] == []
    assert not any("planted" in value for value in environment.values())
    assert environment["FOR_IT"] == "declared"
    assert environment["PATH"] == os.environ["PATH"]
    assert await call(one, "where") == str(tmp_path / "inner")


async def test_a_program_or_a_folder_that_is_not_there_is_named(new_servers: NewServers, tmp_path: Path) -> None:
    servers = await new_servers(
        declared("typo", ServerProgram(("mcp-servr-time", "--local"))),
        declared("lost", ServerProgram((sys.executable,), cwd="no-such-folder")),
        declared("plain", ServerProgram((str(SAMPLE),))),
    )
    problems = {text.split()[3]: text.splitlines()[0] for text in await servers.start(["typo", "lost", "plain"])}

    assert problems["typo"] == (
        "The MCP server typo (mcp-servr-time --local) did not start: mcp-servr-time was not found."
    )
    assert problems["lost"].endswith(f"{tmp_path / 'no-such-folder'} was not found.")
    assert problems["plain"].endswith(f"{SAMPLE} may not be run.")


TALKER = """
import sys
sys.stderr.write("the key is " + "very-secret-key" + "\\n")
for number in range(20_000):
    sys.stderr.write(f"line {number}\\n")
sys.stderr.write("x" * 100_000)
sys.stderr.write("\\nthe key was very-secret-key")
sys.stderr.flush()
sys.exit(7)
"""


async def test_standard_error_is_kept_within_bounds_without_the_servers_keys(new_servers: NewServers) -> None:
    at = ServerProgram((sys.executable, "-c", TALKER), env={"SOME_KEY": "very-secret-key"})
    servers = await new_servers(declared("talker", at))
    talker = connection(servers, "talker")

    with pytest.raises(ServerError) as failure:
        await talker.start()

    log = talker.log_lines()
    assert sum(map(len, log)) <= LOG_LIMIT
    assert max(map(len, log)) < LINE_LIMIT + 100
    assert log[-1].endswith("stderr] the key was [redacted: SOME_KEY]")
    assert "very-secret-key" not in "".join(log) + str(failure.value) + talker.error
    assert "the key was [redacted: SOME_KEY]" in failure.value.last_words


async def test_of_a_long_line_a_failure_tells_the_beginning(new_servers: NewServers) -> None:
    at = ServerProgram((sys.executable, "-c", "import sys; sys.exit('x' * 1000)"))
    servers = await new_servers(declared("talker", at))
    with pytest.raises(ServerError) as failure:
        await connection(servers, "talker").start()
    assert failure.value.last_words == f"{'x' * TAIL_WIDTH} […]"
    assert "x" * 1000 in connection(servers, "talker").log_lines()[-1]
