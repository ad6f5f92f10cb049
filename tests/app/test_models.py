"""Which model answers, what is known of it, what it may cost, and whether it sees."""

import base64
import math
import re
import tomllib
from pathlib import Path

import pytest

from tests.app.conftest import Session
from vibe_jupyter import config
from vibe_jupyter.app.models import ModelChoice
from vibe_jupyter.config.providers import DEFAULT_MODELS, ModelEntry, ProviderEntry
from vibe_jupyter.errors import ConfigError
from vibe_jupyter.llm.catalogue import KNOWN, complete_model
from vibe_jupyter.llm.request import Model, Server
from vibe_jupyter.protocol import Usage
from vibe_jupyter.testing import ScriptedModel, Tokens, answer, call, say

PAGE = (Path(__file__).parents[2] / "docs" / "models.md").read_text(encoding="utf-8")
PLOT = "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()"


def model(host: str = "api.openai.com", name: str = "gpt-4o", **more: float) -> Model:
    return Model(server=Server(name="p", api_base=f"https://{host}/v1"), name=name, alias=name, **more)


def settings_of(text: str, home: Path) -> config.Settings:
    (home / "config.toml").write_text(text, encoding="utf-8")
    return config.load_settings({"VIBE_HOME": str(home)})


@pytest.fixture(autouse=True)
def same_settings(request: pytest.FixtureRequest) -> object:
    """A test that shares a kernel leaves its settings as they were."""
    if "session" not in request.fixturenames:
        yield
        return
    path = request.getfixturevalue("session").folder / "vibe" / "config.toml"
    before = path.read_bytes()
    yield
    path.write_bytes(before)


def change(session: Session, models: str = "", top: str = "") -> None:
    """Add keys to the one model, or to the top of the file."""
    path = session.folder / "vibe" / "config.toml"
    path.write_text(f"{top}\n{path.read_text(encoding='utf-8')}\n{models}\n", encoding="utf-8")


def test_a_model_on_its_makers_server_has_its_price_window_and_eyes() -> None:
    known = complete_model(model(), sees_images=None)
    assert (known.input_price, known.output_price, known.cached_input_price) == (2.5, 10.0, 1.25)
    assert (known.context_window, known.sees_images) == (128_000, True)


def test_the_same_name_elsewhere_is_not_known() -> None:
    elsewhere = complete_model(model(host="10.0.0.7:8000"), sees_images=None)
    assert (elsewhere.input_price, elsewhere.context_window, elsewhere.sees_images) == (None, None, False)


def test_what_the_person_set_counts_instead() -> None:
    for one in ({"input_price": 1.0}, {"output_price": 2.0}, {"input_price": 0.0}, {"output_price": 0.0}):
        half = complete_model(model(**one), sees_images=None)
        assert (half.input_price, half.output_price) == (one.get("input_price"), one.get("output_price"))
        assert half.cached_input_price is None
    cached = complete_model(model(cached_input_price=0.5), sees_images=None)
    assert (cached.input_price, cached.output_price, cached.cached_input_price) == (2.5, 10.0, 0.5)
    own = complete_model(model(input_price=1.0, output_price=2.0, context_window=9), sees_images=False)
    assert (own.input_price, own.output_price, own.cached_input_price) == (1.0, 2.0, None)
    assert (own.context_window, own.sees_images) == (9, False)


@pytest.mark.parametrize(("host", "name"), [(host, name) for host, names in KNOWN.items() for name in names])
def test_the_catalogue_is_plausible(host: str, name: str) -> None:
    known = KNOWN[host][name]
    assert 0 < known.cached < known.input <= known.output < 100
    assert known.window >= 100_000


@pytest.mark.requirement("mistral.model.default")
def test_the_default_model_is_as_it_was_promised(tmp_path: Path) -> None:
    default = DEFAULT_MODELS[0]
    assert (default.name, default.alias, default.temperature) == ("mistral-vibe-cli-latest", "devstral-2", 0.2)
    found = config.choose_model(settings_of("", tmp_path), "devstral-2", {"MISTRAL_API_KEY": "k"})
    assert (found.name, found.temperature, found.input_price, found.output_price) == (default.name, 0.2, 0.4, 2.0)


@pytest.mark.requirement("mistral.endpoint.default")
def test_mistral_is_there_without_any_settings_but_its_key(tmp_path: Path) -> None:
    settings = settings_of("", tmp_path)
    server = config.choose_model(settings, "devstral-2", {"MISTRAL_API_KEY": "its-key"}).server
    assert (server.name, server.api_base, server.dialect) == ("mistral", "https://api.mistral.ai/v1", "mistral")
    assert server.api_key == "its-key"
    with pytest.raises(ConfigError, match="MISTRAL_API_KEY"):
        config.choose_model(settings, "devstral-2", {"API_KEY": "another"})


def test_the_prices_of_the_default_model_can_be_set_by_the_person(tmp_path: Path) -> None:
    entry = '[[models]]\nname = "mistral-vibe-cli-latest"\nprovider = "mistral"\nalias = "devstral-2"\n'
    settings = settings_of(f"{entry}input_price = 1.5\noutput_price = 7.5\ncached_input_price = 0.15", tmp_path)
    own = config.choose_model(settings, "devstral-2", {"MISTRAL_API_KEY": "k"})
    assert (own.input_price, own.output_price, own.cached_input_price) == (1.5, 7.5, 0.15)
    assert math.isclose(own.cost(Usage(prompt_tokens=1_000_000, cached_tokens=500_000)) or 0, 0.825)


@pytest.mark.requirement("config.models.fields", "config.providers.fields")
def test_every_field_of_a_model_reaches_what_is_asked(tmp_path: Path) -> None:
    text = """
        [[providers]]
        name = "p"
        api_base = "http://127.0.0.1:1/v1"
        backend = "ollama"
        extra_headers = { x-team = "a" }
        reasoning_field_name = "thoughts"
        keep_alive = "30m"
        [[models]]
        name = "m"
        provider = "p"
        alias = "mine"
        temperature = 0.7
        input_price = 1
        output_price = 3
        cached_input_price = 0.5
        max_tokens = 5
        context_window = 4096
        supports_images = true
        thinking = "low"
    """
    server = Server(
        name="p",
        api_base="http://127.0.0.1:1/v1",
        dialect="ollama",
        headers={"x-team": "a"},
        reasoning_field="thoughts",
        keep_alive="30m",
    )
    assert config.choose_model(settings_of(text, tmp_path), "mine", {}) == Model(
        server=server,
        name="m",
        alias="mine",
        temperature=0.7,
        input_price=1,
        output_price=3,
        cached_input_price=0.5,
        max_tokens=5,
        context_window=4096,
        sees_images=True,
        thinking="low",
    )


@pytest.mark.requirement("config.models.alias")
def test_the_active_model_is_found_by_alias_or_name_and_a_repeated_alias_is_told(tmp_path: Path) -> None:
    entry = '[[models]]\nname = "{}"\nprovider = "llamacpp"\nalias = "{}"\n'
    for active in ("mine", "m1"):
        text = f'active_model = "{active}"\n{entry.format("m1", "mine")}'
        (tmp_path / "config.toml").write_text(text, encoding="utf-8")
        assert ModelChoice({"VIBE_HOME": str(tmp_path)}).current().name == "m1"
    with pytest.raises(ConfigError, match="'mine' a second time"):
        settings_of(entry.format("m1", "mine") + entry.format("m2", "mine"), tmp_path)


@pytest.mark.parametrize("entry", [ModelEntry, ProviderEntry])
def test_the_page_names_every_key(entry: type[ModelEntry | ProviderEntry]) -> None:
    assert [key for key in entry.model_fields if f"`{key}`" not in PAGE] == []


@pytest.mark.requirement("ollama.models.documented")
def test_the_page_names_models_that_call_tools_well_and_its_example_loads(tmp_path: Path) -> None:
    section = PAGE[PAGE.index("## Which models") : PAGE.index("## Servers")]
    for words in ("`qwen3`", "`llama3.1` or later", "tool calls"):
        assert words in section
    example, prices = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    assert tomllib.loads(example)["active_model"] == "qwen3"
    assert config.choose_model(settings_of(example, tmp_path), "qwen3", {}).server.dialect == "ollama"
    mistral = config.choose_model(settings_of(prices, tmp_path), "devstral-2", {"MISTRAL_API_KEY": "k"})
    assert (mistral.input_price, mistral.output_price) == (1.5, 7.5)


@pytest.mark.xdist_group("app")
def test_a_figure_goes_to_a_model_that_sees_images_and_only_to_one(session: Session) -> None:
    for sees in (True, False):
        change(session, f"supports_images = {str(sees).lower()}")
        session.model.will_reply(call("run_code", code=PLOT), say("A line."))
        session.run("%%vibe --yes=run_code\nplot it")
        body = str(session.model.requests[-1].body)
        assert ("data:image/png;base64," in body) is sees
        assert ("shown to the user" in body) is True
        config_file = session.folder / "vibe" / "config.toml"
        config_file.write_text(config_file.read_text(encoding="utf-8").rpartition("supports_images")[0], "utf-8")


@pytest.mark.xdist_group("app")
def test_an_image_file_goes_to_a_model_that_sees_images(session: Session) -> None:
    tiny = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
    (session.folder / "tiny.png").write_bytes(base64.b64decode(tiny))
    change(session, "supports_images = true")
    session.model.will_reply(call("read_file", path="tiny.png"), say("A dot."))
    session.run("%vibe look at tiny.png")
    assert tiny in str(session.model.requests[-1].body)


@pytest.mark.xdist_group("app")
def test_a_run_ends_when_it_costs_more_than_its_limit(session: Session) -> None:
    change(session, "input_price = 1000\noutput_price = 1000", top="max_price = 0.5")
    dear = answer(calls=[call("inspect")], usage=Tokens(prompt=600, completion=1))
    session.model.will_reply(dear, say("never asked"))
    shown = session.html(session.run("%vibe what is there?")).replace("<span>$</span>", "$")
    assert "Stopped at the price limit" in shown
    assert "the limit of one run is $0.50" in shown
    assert "$0.601" in shown
    assert len(session.model.requests) == 1


@pytest.mark.xdist_group("app")
def test_a_limit_of_nothing_is_none(session: Session) -> None:
    change(session, "input_price = 1000\noutput_price = 1000", top="max_price = 0")
    dear = answer(calls=[call("inspect")], usage=Tokens(prompt=6_000, completion=1))
    session.model.will_reply(dear, say("asked"))
    assert "asked" in session.html(session.run("%vibe what is there?"))


@pytest.mark.xdist_group("app")
@pytest.mark.parametrize("backend", ["mistral", "ollama", "generic"])
def test_another_server_goes_on_with_a_conversation_that_has_calls_in_it(session: Session, backend: str) -> None:
    with ScriptedModel([say("Going on.")]) as other:
        base = other.url if backend != "ollama" else other.url.removesuffix("/v1")
        change(
            session,
            f'[[providers]]\nname = "other"\napi_base = "{base}"\nbackend = "{backend}"\n'
            '[[models]]\nname = "other-1"\nprovider = "other"',
        )
        session.model.will_reply(call("inspect"), say("There."))
        session.run("%vibe what is there?")
        session.run("%vibe model other-1")
        cell = session.run("%vibe and now?")
        assert "Going on." in session.html(cell)
        roles = [message["role"] for message in other.requests[0].messages]
        assert roles == ["system", "user", "assistant", "tool", "assistant", "user"]
    session.run("%vibe model scripted")


def test_without_a_model_the_list_shows_what_there_could_be_and_how_to_get_there(tmp_path: Path) -> None:
    text = ModelChoice({"VIBE_HOME": str(tmp_path)}).listing()
    for name in ("devstral-2", "local", "tour"):
        assert re.search(rf"^  {name} ", text, re.MULTILINE), text
    assert "No model is connected yet." in text
    assert "%vibe setup" in text


@pytest.mark.parametrize("place", ["variable", "file"])
def test_where_a_key_was_found_is_known(tmp_path: Path, place: str) -> None:
    environ = {"VIBE_HOME": str(tmp_path)} | ({"MISTRAL_API_KEY": "k" * 32} if place == "variable" else {})
    (tmp_path / ".env").write_text("MISTRAL_API_KEY=" + "f" * 32, encoding="utf-8")
    words = {
        "variable": "the environment variable MISTRAL_API_KEY",
        "file": f"MISTRAL_API_KEY in {tmp_path / '.env'}",
    }
    assert ModelChoice(environ).current().server.key_from == words[place]


def test_any_model_of_a_provider_is_chosen_by_the_names_of_both(tmp_path: Path) -> None:
    settings = settings_of('[[providers]]\nname = "here"\napi_base = "http://127.0.0.1:9/v1"', tmp_path)
    choice = ModelChoice({"VIBE_HOME": str(tmp_path)}, load=lambda: settings)
    assert choice.choose("qwen3@here") == "Model: qwen3@here at 127.0.0.1:9."
    assert (choice.current().name, choice.chosen_name()) == ("qwen3", "qwen3@here")
    assert ("qwen3@here", "") in choice.choices()
    with pytest.raises(ConfigError, match="There is no model 'qwen3@there'"):
        choice.choose("qwen3@there")
