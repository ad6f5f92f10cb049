"""Tool runners of the JavaScript SDKs, with the gateway as their model server."""

import json
import subprocess

import pytest

from tests.gateway.conftest import PATIENCE, TOKEN, Gateway
from tests.mcp.real_servers import node
from tests.mcp_server.real_clients import npm_folder
from vibe_jupyter.testing import answer, call

pytestmark = [pytest.mark.matrix, pytest.mark.xdist_group("real clients"), pytest.mark.timeout(900)]

PROGRAM = r"""
import { createRequire } from "node:module";

const [name, url, token] = process.argv.slice(2);
const require = createRequire(`${process.cwd()}/`);
const schema = { type: "object", properties: { word: { type: "string" } }, required: ["word"] };
const question = [{ role: "user", content: "How large is Bonn?" }];
const asked = [];

function lookUp({ word }) {
  asked.push(word);
  return "small";
}

async function openai(stream) {
  const OpenAI = require("openai").default;
  const client = new OpenAI({ baseURL: url, apiKey: token, maxRetries: 0 });
  const definition = { name: "look_up", description: "Looks up.", parameters: schema };
  const tools = [{ type: "function", function: { ...definition, function: lookUp, parse: JSON.parse } }];
  const runner = client.chat.completions.runTools({ model: "default", messages: question, tools, stream });
  return await runner.finalContent();
}

async function anthropic(stream) {
  const Anthropic = require("@anthropic-ai/sdk").default;
  const { betaTool } = require("@anthropic-ai/sdk/helpers/beta/json-schema");
  const client = new Anthropic({ baseURL: url.replace(/\/v1$/, ""), authToken: token, apiKey: null, maxRetries: 0 });
  const tools = [betaTool({ name: "look_up", description: "Looks up.", inputSchema: schema, run: lookUp })];
  const fields = { model: "default", max_tokens: 100, messages: question, tools, stream };
  const message = await client.beta.messages.toolRunner(fields).runUntilDone();
  return message.content.at(-1).text;
}

const [vendor, mode] = name.split("-");
const text = await { openai, anthropic }[vendor](mode === "streamed");
console.log(JSON.stringify({ text, asked }));
"""


@pytest.mark.requirement("gateway.translated.thread")
@pytest.mark.parametrize("runner", ["openai-whole", "openai-streamed", "anthropic-whole", "anthropic-streamed"])
def test_it_leads_a_conversation_with_tools_of_both_sides(gateway: Gateway, runner: str) -> None:
    first = gateway.will(
        answer("First a sum.", [call("mcp__sample__add", a=2, b=40)]),
        answer("Now the town.", [call("look_up", word="Bonn")]),
        "It is small.",
    )
    command = [node(), "--input-type=module", "-", runner, gateway.server.url, TOKEN]
    done = subprocess.run(
        command, cwd=npm_folder(), input=PROGRAM, capture_output=True, text=True, timeout=PATIENCE, check=False
    )

    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["asked"] == ["Bonn"]
    assert told["text"].endswith("It is small.")
    asked = gateway.model.requests[first - 1 :]
    assert len(asked) == 3
    assert [("42" in str(one), "small" in str(one)) for one in asked[-1].tool_results] == [(True, False), (False, True)]
