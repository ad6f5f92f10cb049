"""The container file and the Kubernetes manifest of docs/deploy: what they name is there, and pods as written serve."""

import json
import re
import shlex
import tomllib
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests.gateway.conftest import PATIENCE, TOKEN, TOKEN_VARIABLE
from tests.gateway.redis_server import RedisServer, redis_server
from vibe_jupyter.cli.serve import add_arguments
from vibe_jupyter.config.loading import environment_layer
from vibe_jupyter.gateway.guard import OPEN
from vibe_jupyter.gateway.server import GRACE, LAST_WORDS, PORT, STOP_WAIT, GatewayServer

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "docs" / "deploy"
PAGE = (ROOT / "docs" / "gateway.md").read_text(encoding="utf-8")


class Image:
    """What the container file says."""

    def __init__(self) -> None:
        text = (DEPLOY / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", "")
        lines = [line.split(" ", 1) for line in text.splitlines() if line and not line.startswith("#")]
        self.said = [(name, words.strip()) for name, words in lines]
        self.variables = dict(words.split("=", 1) for words in self.all("ENV"))
        self.command: list[str] = json.loads(self.one("ENTRYPOINT"))

    def all(self, name: str) -> list[str]:
        """The words after each of these instructions."""
        return [words for one, words in self.said if one == name]

    def one(self, name: str) -> str:
        (words,) = self.all(name)
        return words

    def options(self, further: list[str]) -> Namespace:
        """The command line of a container as our own parser reads it."""
        program, command, *words = [*self.command, *further]
        assert (program, command) == ("vibe-jupyter", "serve")
        parser = ArgumentParser()
        add_arguments(parser)
        return parser.parse_args(words)


@pytest.fixture(scope="module")
def image() -> Image:
    return Image()


@pytest.fixture(scope="module")
def objects() -> Mapping[str, Any]:
    """Those of the manifest by their kinds."""
    found = list(yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text(encoding="utf-8")))
    assert {one["metadata"]["name"] for one in found} == {"vibe-gateway"}
    return {one["kind"]: one for one in found}


@pytest.fixture(scope="module")
def pod(objects: Mapping[str, Any]) -> Mapping[str, Any]:
    return objects["Deployment"]["spec"]["template"]["spec"]


@pytest.fixture(scope="module")
def container(pod: Mapping[str, Any]) -> Mapping[str, Any]:
    (found,) = pod["containers"]
    return found


@pytest.fixture(scope="module")
def redis() -> Iterator[RedisServer]:
    with redis_server() as server:
        yield server


def secret(redis: RedisServer) -> dict[str, str]:
    """The variables of `gateway.env` on the page, with values of this machine."""
    block = re.search(r"^VIBE_GATEWAY_TOKEN=…\n(?:[A-Z_]+=.*\n)+", PAGE, re.M)
    assert block is not None
    names = [line.split("=")[0] for line in block[0].splitlines()]
    return {**dict.fromkeys(names, "unused"), TOKEN_VARIABLE: TOKEN, "VIBE_GATEWAY__STORE": redis.url}


def test_the_image_has_what_its_command_needs(image: Image) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    package, extras = re.search(r"/(\w+)-\*\.whl\)\[([\w,]+)\]", image.all("RUN")[0]).groups()  # pyright: ignore[reportOptionalMemberAccess]
    version = image.one("FROM").removeprefix("python:").removesuffix("-slim")

    assert package == project["name"].replace("-", "_")
    assert image.one("COPY").split()[0] == f"{package}-*.whl"
    assert {"gateway", "redis"} == set(extras.split(",")) <= set(project["optional-dependencies"])
    assert f"Programming Language :: Python :: {version}" in project["classifiers"]
    assert image.command[0] in project["scripts"]

    options = image.options([])
    assert options.host == "0.0.0.0"
    assert options.port == PORT == int(image.one("EXPOSE"))
    asked = re.search(r"http://127\.0\.0\.1:(\d+)(/\w*)", image.one("HEALTHCHECK"))
    assert asked is not None
    assert (int(asked[1]), asked[2]) == (PORT, "/health")
    assert image.one("USER") != "0"


def test_the_manifest_fits_to_itself_and_to_the_image(
    objects: Mapping[str, Any], pod: Mapping[str, Any], container: Mapping[str, Any], image: Image
) -> None:
    deployment, (port,) = objects["Deployment"]["spec"], container["ports"]
    assert port["containerPort"] == image.options(container["args"]).port
    assert pod["securityContext"]["runAsUser"] == int(image.one("USER"))
    labels = deployment["template"]["metadata"]["labels"]
    assert deployment["selector"]["matchLabels"] == labels == objects["Service"]["spec"]["selector"]
    (served,) = objects["Service"]["spec"]["ports"]
    assert served["targetPort"] == port["name"]
    (rule,) = objects["Ingress"]["spec"]["rules"]
    assert objects["Ingress"]["spec"]["tls"][0]["hosts"] == [rule["host"]]
    assert rule["http"]["paths"][0]["backend"]["service"] == {
        "name": objects["Service"]["metadata"]["name"],
        "port": {"name": served["name"]},
    }

    home = image.variables["VIBE_HOME"]
    mounts = {one["mountPath"]: one for one in container["volumeMounts"]}
    volumes = {one["name"]: one for one in pod["volumes"]}
    assert {one["name"] for one in mounts.values()} == set(volumes)
    settings = mounts[f"{home}/config.toml"]
    assert settings["subPath"] in objects["ConfigMap"]["data"]
    assert volumes[settings["name"]]["configMap"]["name"] == objects["ConfigMap"]["metadata"]["name"]
    assert "emptyDir" in volumes[mounts[home]["name"]]  # all else of the container is read-only

    last = container["lifecycle"]["preStop"]["exec"]["command"]
    assert last[0] == "sleep"
    assert pod["terminationGracePeriodSeconds"] > int(last[1]) + GRACE + LAST_WORDS + STOP_WAIT


def test_token_and_redis_come_from_the_secret_of_the_page(
    container: Mapping[str, Any], pod: Mapping[str, Any], redis: RedisServer
) -> None:
    (source,) = container["envFrom"]
    made = re.search(r"kubectl create secret generic (\S+) --from-env-file=gateway\.env\n", PAGE)
    assert made is not None
    assert source == {"secretRef": {"name": made[1]}}
    assert "env" not in container

    variables = secret(redis)
    assert {"VIBE_GATEWAY_TOKEN", "VIBE_GATEWAY__STORE"} < set(variables)
    tree, warnings = environment_layer(variables)
    assert not warnings
    assert tree.plain() == {"gateway": {"store": redis.url}}

    assert pod["enableServiceLinks"] is False  # else there were warnings:
    assert environment_layer({"VIBE_GATEWAY_PORT": "tcp://10.0.0.1:80"})[1]


def test_pods_as_written_answer_for_each_other_and_their_probes(
    objects: Mapping[str, Any],
    container: Mapping[str, Any],
    image: Image,
    redis: RedisServer,
    own_home: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    names = [objects["Ingress"]["spec"]["rules"][0]["host"], objects["Service"]["metadata"]["name"]]
    with ExitStack() as stack:
        pods: list[httpx.Client] = []
        for _ in range(2):
            home = tmp_path_factory.mktemp("pod")
            home.chmod(0o2777)  # as that of an emptyDir with fsGroup
            settings = home / "config.toml"
            settings.write_text(objects["ConfigMap"]["data"]["config.toml"], encoding="utf-8")
            settings.chmod(0o444)
            host = image.options(container["args"]).host
            server = GatewayServer(home, {**secret(redis), "VIBE_HOME": str(home)}, host=host, port=0)
            stack.callback(server.stop)
            server.start()
            pods.append(stack.enter_context(httpx.Client(base_url=f"http://127.0.0.1:{server.port}", timeout=PATIENCE)))

        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            asks = container[probe]["httpGet"]
            headers = {one["name"]: one["value"] for one in asks["httpHeaders"]}
            assert asks["path"] in OPEN
            assert asks["port"] == container["ports"][0]["name"]
            assert pods[0].get(asks["path"], headers=headers).status_code == 200
            assert pods[0].get(asks["path"], headers={"host": f"10.0.0.1:{PORT}"}).status_code == 403
        for name in names:
            assert pods[0].get("/v1/models", headers={"host": name}).status_code == 401
            known = {"host": name, "authorization": f"Bearer {TOKEN}"}
            body = {"file": ("a.txt", b"here")}
            made = pods[0].post("/v1/files", headers=known, files=body, data={"purpose": "user_data"}).json()
            assert pods[1].get(f"/v1/files/{made['id']}/content", headers=known).content == b"here"


def test_the_commands_of_the_page_name_what_is_there() -> None:
    commands = [shlex.split(line) for line in re.findall(r"^(?:docker|kubectl) .*$", PAGE, re.M)]
    assert {(one[0], one[1]) for one in commands} >= {("docker", "build"), ("docker", "run"), ("kubectl", "apply")}
    places = [word for one in commands for word in one if word.startswith("docs/")]
    assert places
    assert all((ROOT / place).exists() for place in places)
