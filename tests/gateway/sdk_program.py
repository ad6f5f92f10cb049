"""Functions that use vendors' SDKs against a gateway, each called by its name.

python -I sdk_program.py    reads lines of [FUNCTION, URL, TOKEN], and answers each with [what it gave, why it failed]
"""

import json
import sys
import traceback
from typing import Any

QUESTION: Any = [{"role": "user", "content": "add 2 and 40"}]


def _openai(url: str, token: str) -> Any:
    from openai import OpenAI

    return OpenAI(base_url=url, api_key=token, max_retries=0, timeout=30)


def openai_plain(url: str, token: str) -> Any:
    answer = _openai(url, token).chat.completions.create(model="default", messages=QUESTION)
    return {"text": answer.choices[0].message.content, "finish": answer.choices[0].finish_reason}


def openai_stream(url: str, token: str) -> Any:
    chunks = list(_openai(url, token).chat.completions.create(model="default", messages=QUESTION, stream=True))
    choices = [choice for chunk in chunks for choice in chunk.choices]
    return {
        "text": "".join(choice.delta.content or "" for choice in choices),
        "finishes": [choice.finish_reason for choice in choices if choice.finish_reason],
        "ids": len({chunk.id for chunk in chunks}),
    }


def openai_stream_helper(url: str, token: str) -> Any:
    with _openai(url, token).chat.completions.stream(model="default", messages=QUESTION) as stream:
        kinds = [event.type for event in stream]
        final = stream.get_final_completion()
    choice = final.choices[0]
    return {"text": choice.message.content, "finish": choice.finish_reason, "last": kinds[-1]}


def openai_models(url: str, token: str) -> Any:
    """The names of all models, each found by its name, and what is said of one that there is not."""
    from openai import NotFoundError

    models = _strict_openai(url, token).models
    names = [model.id for model in models.list()]
    missing: Any = None
    try:
        models.retrieve("org/unknown")
    except NotFoundError as error:
        missing = error.body
    return {"names": names, "found": [models.retrieve(name).id for name in names], "missing": missing}


def mistral_plain(url: str, token: str) -> Any:
    from mistralai.client import Mistral

    with Mistral(server_url=url.removesuffix("/v1"), api_key=token) as client:
        answer = client.chat.complete(model="default", messages=QUESTION)
    return {"text": answer.choices[0].message.content, "finish": answer.choices[0].finish_reason}


def mistral_stream(url: str, token: str) -> Any:
    from mistralai.client import Mistral

    with Mistral(server_url=url.removesuffix("/v1"), api_key=token) as client:
        choices = [event.data.choices[0] for event in client.chat.stream(model="default", messages=QUESTION)]
    return {
        "text": "".join(choice.delta.content or "" for choice in choices),
        "finishes": [choice.finish_reason for choice in choices if choice.finish_reason],
    }


def _strict_openai(url: str, token: str) -> Any:
    from openai import OpenAI

    return OpenAI(base_url=url, api_key=token, max_retries=0, timeout=30, _strict_response_validation=True)


def openai_responses(url: str, token: str) -> Any:
    client = _strict_openai(url, token)
    first = client.responses.create(model="default", input="add 2 and 40")
    second = client.responses.create(model="default", input="and again?", previous_response_id=first.id)
    calls = [item for item in first.output if item.type == "mcp_call"]
    return {
        "text": first.output_text,
        "status": first.status,
        "calls": [[call.server_label, call.name, call.status, "42" in (call.output or "")] for call in calls],
        "counted": first.usage is not None and first.usage.total_tokens > 0,
        "again": second.output_text,
        "after": second.previous_response_id == first.id,
    }


def openai_responses_stream(url: str, token: str) -> Any:
    events = list(_strict_openai(url, token).responses.create(model="default", input="add 2 and 40", stream=True))
    return {
        "kinds": [event.type for event in events],
        "numbered": [event.sequence_number for event in events] == list(range(len(events))),
        "text": "".join(event.delta for event in events if event.type == "response.output_text.delta"),
        "last": type(events[-1]).__name__,
    }


def openai_responses_helper(url: str, token: str) -> Any:
    with _strict_openai(url, token).responses.stream(model="default", input="add 2 and 40") as stream:
        final = stream.get_final_response()
    return {"output": [item.type for item in final.output], "status": final.status, "text": final.output_text}


def openai_responses_shell(url: str, token: str) -> Any:
    """What the items of a shell call and of a text with a citation are, without a stream and in one."""
    client = _strict_openai(url, token)
    whole = client.responses.create(model="default", input="make it")
    last = list(client.responses.create(model="default", input="make it", stream=True))[-1]

    def kinds(response: Any) -> list[str]:
        return [type(one).__name__ for one in (*response.output, *response.output[-1].content[0].annotations)]

    return {"whole": kinds(whole), "streamed": kinds(last.response)}


def openai_responses_calls(url: str, token: str) -> Any:
    """A call of the client's tool in a stream; then a stream that breaks off."""
    client = _strict_openai(url, token)
    tool: Any = {"type": "function", "name": "look_up", "parameters": {"type": "object"}, "strict": False}
    called = list(client.responses.create(model="default", input="look", tools=[tool], stream=True))
    broken = list(client.responses.create(model="default", input="hello", stream=True))
    return {
        "output": [item.type for item in called[-1].response.output],
        "broken": [type(event).__name__ for event in broken[-2:]],
    }


def openai_responses_tools(url: str, token: str) -> Any:
    """Calls of a tool in a namespace and of a custom one, streamed; then the conversation with their results, whole."""
    client = _strict_openai(url, token)
    grouped: Any = {"type": "function", "name": "count", "parameters": {"type": "object"}, "strict": False}
    tools: Any = [
        {"type": "namespace", "name": "mcp__cities", "description": "Cities.", "tools": [grouped]},
        {"type": "custom", "name": "apply_patch"},
        {"type": "web_search"},
    ]
    with client.responses.stream(model="default", input="hello", tools=tools) as stream:
        kinds = [event.type for event in stream]
        output = stream.get_final_response().output
    results: Any = [
        {"type": f"{item.type}_output", "call_id": item.call_id, "output": "done"}
        for item in output
        if item.type.endswith("_call")
    ]
    history: Any = [{"role": "user", "content": "hello"}, *(item.model_dump() for item in output), *results]
    last = client.responses.create(model="default", input=history, tools=tools)
    return {
        "calls": [
            [item.type, item.name, item.namespace, item.input if item.type == "custom_tool_call" else item.arguments]
            for item in output
            if item.type.endswith("_call")
        ],
        "input": "response.custom_tool_call_input.done" in kinds,
        "warning": output[0].summary[0].text,
        "text": last.output_text,
        "last": [item.type for item in last.output],
    }


def _anthropic(url: str, token: str) -> Any:
    from anthropic import Anthropic

    address = url.removesuffix("/v1")
    return Anthropic(base_url=address, api_key=token, max_retries=0, timeout=30, _strict_response_validation=True)


def anthropic_plain(url: str, token: str) -> Any:
    answer = _anthropic(url, token).messages.create(model="default", max_tokens=100, messages=QUESTION)
    counted = answer.usage.input_tokens > 0 and answer.usage.output_tokens > 0
    return {"text": answer.content[0].text, "stop": answer.stop_reason, "counted": counted}


def anthropic_stream(url: str, token: str) -> Any:
    asked = {"model": "default", "max_tokens": 100, "messages": QUESTION}
    events = list(_anthropic(url, token).messages.create(**asked, stream=True))
    return [event.type for event in events]


def anthropic_stream_helper(url: str, token: str) -> Any:
    with _anthropic(url, token).messages.stream(model="default", max_tokens=100, messages=QUESTION) as stream:
        text = "".join(stream.text_stream)
        final = stream.get_final_message()
    return {"text": text, "stop": final.stop_reason, "counted": final.usage.output_tokens > 0}


def anthropic_calls(url: str, token: str) -> Any:
    """A call of the client's tool in a stream; then a stream that breaks off."""
    from anthropic import APIStatusError

    client = _anthropic(url, token)
    asked: Any = {"model": "default", "max_tokens": 100, "messages": QUESTION}
    tool: Any = {"name": "look_up", "input_schema": {"type": "object"}}
    with client.messages.stream(**asked, tools=[tool]) as stream:
        blocks = [block.model_dump() for block in stream.get_final_message().content]
    broken = ""
    try:
        list(client.messages.create(**asked, stream=True))
    except APIStatusError as error:
        broken = error.body["error"]["type"]
    return {"blocks": [block["type"] for block in blocks], "input": blocks[-1]["input"], "broken": broken}


def anthropic_parsed(url: str, token: str) -> Any:
    """An answer in the form of a class."""
    from pydantic import BaseModel

    class City(BaseModel):
        city: str

    client, asked = _anthropic(url, token), {"model": "default", "max_tokens": 100, "messages": QUESTION}
    return client.messages.parse(**asked, output_format=City).parsed_output.model_dump()


def anthropic_tool_runner(url: str, token: str) -> Any:
    """A conversation that the SDK leads, with a tool."""
    from anthropic import beta_tool

    asked: list[str] = []

    @beta_tool
    def look_up(word: str) -> str:
        """Looks up."""
        asked.append(word)
        return "small"

    runner = _anthropic(url, token).beta.messages.tool_runner(
        model="default", max_tokens=100, messages=QUESTION, tools=[look_up]
    )
    return {"text": runner.until_done().content[-1].text, "asked": asked}


def anthropic_loop(url: str, token: str) -> Any:
    """Calls of the client's tool, streamed, until there are none; what comes goes back as it is."""
    client, said = _anthropic(url, token), list(QUESTION)
    tool: Any = {"name": "look", "input_schema": {"type": "object"}}
    while True:
        with client.messages.stream(model="default", max_tokens=100, messages=said, tools=[tool]) as stream:
            content = stream.get_final_message().content
        said.append({"role": "assistant", "content": content})
        calls = [block for block in content if block.type == "tool_use"]
        if not calls:
            return content[-1].text
        results = [{"type": "tool_result", "tool_use_id": call.id, "content": "seen"} for call in calls]
        said.append({"role": "user", "content": results})


def openai_responses_loop(url: str, token: str) -> Any:
    """The same with Responses, where nothing is stored."""
    client, said = _strict_openai(url, token), list(QUESTION)
    tool: Any = {"type": "function", "name": "look", "parameters": {"type": "object"}, "strict": False}
    asked: Any = {"model": "default", "tools": [tool], "store": False, "include": ["reasoning.encrypted_content"]}
    while True:
        with client.responses.stream(**asked, input=said) as stream:
            made = stream.get_final_response()
        said += [item.model_dump(exclude_none=True, exclude={"parsed_arguments"}) for item in made.output]
        calls = [item for item in made.output if item.type == "function_call"]
        if not calls:
            return made.output_text
        said += [{"type": "function_call_output", "call_id": call.call_id, "output": "seen"} for call in calls]


def openai_chat_loop(url: str, token: str) -> Any:
    """The same with Chat Completions."""
    client, said = _openai(url, token), list(QUESTION)
    tool: Any = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
    while True:
        message = client.chat.completions.create(model="default", messages=said, tools=[tool]).choices[0].message
        said.append(message)
        if not message.tool_calls:
            return message.content
        said += [{"role": "tool", "tool_call_id": call.id, "content": "seen"} for call in message.tool_calls]


def _answer(function: str, url: str, token: str) -> list[Any]:
    try:
        return [globals()[function](url, token), None]
    except Exception:  # noqa: BLE001 - it is told to the test
        return [None, traceback.format_exc()]


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps(_answer(*json.loads(line))), flush=True)
