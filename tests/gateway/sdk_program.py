"""Functions that use vendors' SDKs against a gateway, each called by its name; what it gives is printed as JSON.

python -I sdk_program.py FUNCTION URL TOKEN
"""

import json
import sys
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
    return [model.id for model in _openai(url, token).models.list()]


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


if __name__ == "__main__":
    print(json.dumps(globals()[sys.argv[1]](sys.argv[2], sys.argv[3])))
