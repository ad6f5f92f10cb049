"""What is configured, what is not, and what is wrong: each says what, where and the next step."""

import socket
from pathlib import Path

import pytest

from vibe_jupyter import config
from vibe_jupyter.app import models as app_models
from vibe_jupyter.app.models import ModelChoice
from vibe_jupyter.errors import ConfigError
from vibe_jupyter.llm.request import Model, Server
from vibe_jupyter.ui.front_end import RunRetention

LOCAL = """\
active_model = "mine"
[[providers]]
name = "office"
api_base = "https://models.example.org/v1"
api_key_env_var = "OFFICE_KEY"
backend = "generic"
[[models]]
name = "big-model"
provider = "office"
alias = "mine"
temperature = 0.7
max_tokens = 900
input_price = 1.5
output_price = 6
[tools.run_code]
permission = "never"
[something_newer]
key = 1
"""


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"VIBE_HOME": str(tmp_path)}


def write(environ: dict[str, str], text: str) -> None:
    config.config_path(environ).write_text(text, encoding="utf-8")


@pytest.mark.requirement("config.file.user", "config.providers.fields", "wire.auth.env-var", "openai.backend.generic")
def test_a_model_of_the_file_comes_with_its_server_its_key_and_its_numbers(environ: dict[str, str]) -> None:
    write(environ, LOCAL)
    environ["OFFICE_KEY"] = "secret-key"
    assert ModelChoice(environ).current() == Model(
        server=Server(
            name="office",
            api_base="https://models.example.org/v1",
            api_key="secret-key",
            key_from="the environment variable OFFICE_KEY",
        ),
        name="big-model",
        alias="mine",
        temperature=0.7,
        max_tokens=900,
        input_price=1.5,
        output_price=6,
    )
    assert config.load_settings(environ).levels() == {"run_code": "never"}


def test_a_key_never_shows_in_the_text_of_a_model(environ: dict[str, str]) -> None:
    write(environ, LOCAL)
    environ["OFFICE_KEY"] = "secret-key"
    assert "secret-key" not in repr(ModelChoice(environ).current())


@pytest.mark.requirement("wire.auth.env-var")
def test_a_missing_key_is_named_by_its_variable(environ: dict[str, str]) -> None:
    write(environ, LOCAL)
    with pytest.raises(ConfigError, match="OFFICE_KEY is not set"):
        ModelChoice(environ).current()


@pytest.mark.requirement("magics.unconfigured.advice", "config.file.user")
def test_with_nothing_configured_a_few_lines_say_what_to_do_and_nothing_is_sent(
    environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        stranger.settimeout(5)
        port = stranger.getsockname()[1]
        monkeypatch.setattr(app_models, "LOOPBACK_SERVERS", {port: "Ollama"})
        with pytest.raises(ConfigError) as raised:
            ModelChoice(environ).current()
        connection, _ = stranger.accept()
        with connection:
            connection.settimeout(5)
            assert connection.recv(100) == b""
    advice = str(raised.value)
    assert len(advice.splitlines()) == 7
    for words in ("%vibe setup", "MISTRAL_API_KEY", "%vibe model tour", f"127.0.0.1:{port}", "if it is yours"):
        assert words in advice


def test_the_mistral_key_alone_is_enough(environ: dict[str, str]) -> None:
    environ["MISTRAL_API_KEY"] = "secret-key"
    model = ModelChoice(environ).current()
    assert (model.name, model.server.host) == ("mistral-vibe-cli-latest", "api.mistral.ai")
    assert model.temperature == 0.2


def test_the_environment_wins_over_the_file(environ: dict[str, str]) -> None:
    write(environ, LOCAL)
    environ |= {"VIBE_ACTIVE_MODEL": "local", "VIBE_MAX_TURNS": "7"}
    environ |= {"VIBE_TRANSCRIPT": "summary", "VIBE_TRANSCRIPT_TIMES": "false"}
    assert ModelChoice(environ).current().name == "devstral"
    assert config.load_settings(environ).max_turns == 7
    assert config.load_settings(environ).keep() == RunRetention(form="summary", times=False)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("active_model = \n", "line 1"),
        ('\nmax_turns = "many"\n', "at max_turns: expected a whole number"),
        ('[[models]]\nprovider = "p"\nname = 1\n', "at models.0.name: expected text in quotes"),
        ('transcript = "short"\n', "at transcript: expected 'full', 'summary' or 'none'"),
        ('[tools.run_code]\npermission = "sometimes"\n', "at tools.run_code.permission: expected 'always', 'ask'"),
        ('[[models]]\nname = "m"\nprovider = "nowhere"\nalias = "x"\n', "nowhere"),
    ],
)
def test_a_wrong_file_is_an_error_that_names_the_file_and_the_place(
    environ: dict[str, str], text: str, words: str
) -> None:
    write(environ, text)
    with pytest.raises(ConfigError) as raised:
        ModelChoice(environ).current("x")
    assert words in str(raised.value)
    assert str(config.config_path(environ)) in str(raised.value)


def test_a_server_can_be_given_in_one_word(environ: dict[str, str]) -> None:
    model = ModelChoice(environ).current("qwen3:8b@http://127.0.0.1:11434/v1")
    assert (model.name, model.server.api_base) == ("qwen3:8b", "http://127.0.0.1:11434/v1")


def test_a_password_in_an_address_is_shown_nowhere(environ: dict[str, str]) -> None:
    models = ModelChoice(environ)
    assert models.choose("m@http://me:secret@127.0.0.1:8080/v1") == "Model: m at 127.0.0.1:8080."


def test_without_a_home_folder_the_variable_to_set_is_named() -> None:
    with pytest.raises(ConfigError, match="Set VIBE_HOME"):
        config.load_settings({"VIBE_HOME": "~nobody-of-this-name/vibe"})


def test_a_choice_that_cannot_be_used_leaves_the_one_before(environ: dict[str, str]) -> None:
    models = ModelChoice(environ)
    models.choose("local")
    with pytest.raises(ConfigError, match="nope"):
        models.choose("nope")
    assert models.current().alias == "local"
