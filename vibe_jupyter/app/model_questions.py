"""Questions of `%vibe model check`, and the evaluation of their answers.

The questions are short: together they use at most `ALL_TOKENS`, counted as the larger of the server's usage report and
an estimate. Each judgment names the observation, its consequence, and the setting that fixes it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal

from vibe_jupyter.agent.context_size import LEAST_SHARE, count_messages, count_tools
from vibe_jupyter.llm import json_text
from vibe_jupyter.llm.request import AS_TEXT, Model
from vibe_jupyter.protocol import (
    AssistantMessage,
    Message,
    ReasoningPart,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolMessage,
    ToolSpec,
    UserMessage,
)

ALL_TOKENS: Final = 3_000  # tokens of all questions and answers of one check
LEAST_ANSWER: Final = 48  # tokens that a meaningful answer needs
SHORT: Final = 8  # token limit of the answer that is meant to be truncated
TEXT_ANSWER: Final = 256  # tokens; a reasoning model needs some before its first word
CALL_ANSWER: Final = 400  # tokens
MOST_EXTRA: Final = 4_000  # tokens that a chat template may add; a larger count must be of another request

SYSTEM: Final = SystemMessage(text="You are being tested. Do exactly what is asked, and nothing more.")
TOOL: Final = ToolSpec(
    name="echo",
    description="Says a word.",
    parameters={"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]},
)
NUMBER: Final = "4711"
LINES: Final = "for n in range(2):\n    print(f\"{n}\\t'ok'\")\n# end"
HELLO: Final = "Say hello in a few words."
CALL: Final = 'Call the tool echo with the word "hello". Then tell me the number that it returns.'
TWO_CALLS: Final = 'Call the tool echo twice in one answer: with the word "red" and with the word "blue".'
MANY_LINES: Final = f"Call the tool echo. Its word is exactly these three lines:\n{LINES}"
COUNT: Final = "Count from one to fifty in words."

State = Literal["passed", "failed", "skipped"]

# Advice on enabling the server's tool call parser, keyed by `owned_by` in its model list.
PARSERS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "llamacpp": "Start llama-server with --jinja, and with --chat-template-file where its template knows no tools.",
        "vllm": "Start vLLM with --enable-auto-tool-choice and the --tool-call-parser of this model.",
        "sglang": "Start SGLang with the --tool-call-parser of this model.",
        "library": "Choose a model that Ollama lists with `tools`.",
    }
)
ANY_PARSER: Final = (
    "Choose a model made for calling tools. The server needs a parser for tool calls: llama-server --jinja with a "
    "chat template that knows tools, vLLM --enable-auto-tool-choice --tool-call-parser NAME, SGLang "
    "--tool-call-parser NAME; at Ollama a model listed with `tools`."
)


@dataclass(frozen=True)
class Judgement:
    """Outcome of one question, with an explanation."""

    state: State
    detail: str


@dataclass(frozen=True)
class TimedAnswer:
    message: AssistantMessage
    pieces: int  # number of text and reasoning chunks
    first: float  # seconds to the first chunk, or to the whole answer without one
    spread: float  # seconds from the first to the last chunk
    seconds: float


def passed(detail: str) -> Judgement:
    """Return a judgment for a correct answer."""
    return Judgement("passed", detail)


def failed(detail: str) -> Judgement:
    """Return a judgment for an answer that reveals a fault."""
    return Judgement("failed", detail)


def skipped(detail: str) -> Judgement:
    """Return a judgment for an inconclusive answer."""
    return Judgement("skipped", detail)


def estimate_prompt(messages: Sequence[Message], tools: Sequence[ToolSpec]) -> int:
    return count_messages(messages) + count_tools(tools)


def judge_stream(heard: TimedAnswer) -> Judgement:
    """Judge the streaming of a text."""
    if heard.pieces < 2:
        return skipped("the answer came in one piece: you will see it only when it is complete")
    if heard.seconds > 2 and heard.spread < heard.seconds / 50:
        return skipped(
            f"{heard.pieces} pieces, all at the end: something between holds them back. "
            "Switch off buffering in the proxy (nginx: proxy_buffering off)"
        )
    return passed(f"{heard.pieces} pieces")


def judge_call(message: AssistantMessage, parser: str) -> Judgement:
    """Judge the answer to a request for one call."""
    if was_cut(message):
        return skipped("it reached its token limit before the call was complete; it may think at length")
    if not message.calls:
        return failed(f"it answered with text instead, so the agent can do nothing. {parser}")
    call = message.calls[0]
    if call.name != TOOL.name:
        return failed(f"it called {short_text(call.name)!r}, which it was not offered. {parser}")
    if _arguments(call) is None:
        return failed(f"its arguments are not JSON: {short_text(call.arguments)}. {parser}")
    if call.mark == AS_TEXT:
        return failed(f"the call came as text; it is read all the same, but a complex one may be missed. {parser}")
    if call.mark:
        return failed(f"the call had to be repaired ({call.mark}). {parser}")
    return passed(f"{call.name}({short_text(call.arguments)})")


def judge_result(message: AssistantMessage) -> Judgement:
    """Judge the answer to a tool result."""
    if NUMBER in message.text.replace(",", "").replace(" ", "").replace(".", ""):
        return passed("it knows what the tool returned")
    if message.calls:
        return failed(
            "it called the tool again instead of reading the result: the chat template may leave results out. "
            "Take the model's own template (llama-server: --chat-template-file), or another model."
        )
    if was_cut(message):
        return skipped("it reached the token limit of this check before it answered")
    return failed(
        f"it says: {short_text(message.text)} The result is not in it: the chat template may leave results out. "
        "Take the model's own template (llama-server: --chat-template-file), or another model."
    )


def judge_two(message: AssistantMessage, parser: str) -> Judgement:
    """Judge the answer to a request for two calls."""
    words = [(_arguments(call) or {}).get("word") for call in message.calls]
    if len(words) >= 2 and None not in words and len(set(map(str, words))) >= 2:
        return passed(f"{len(words)} calls: {short_text(', '.join(map(str, words)))}")
    if len(words) >= 2:
        return failed(f"its calls ran into each other: {short_text(message.calls[0].arguments)}. {parser}")
    if words and words[0] is None:
        return failed(f"its calls ran into each other: {short_text(message.calls[0].arguments)}. {parser}")
    if words:
        return skipped("one call at a time: a run takes more rounds, and works")
    if was_cut(message):
        return skipped("it reached the token limit of this check before it called")
    return _uncalled(message)


def judge_lines(message: AssistantMessage, parser: str) -> Judgement:
    """Judge a call whose argument has several lines, indentation and quotes."""
    if was_cut(message):
        return skipped("it reached the token limit of this check before the argument was complete")
    if not message.calls:
        return _uncalled(message)
    call = message.calls[0]
    word = (_arguments(call) or {}).get("word")
    if not isinstance(word, str):
        return failed(f"the argument can't be read: {short_text(call.arguments)}. {parser}")
    if word.strip() == LINES:
        return passed(f"{len(LINES.splitlines())} lines came whole")
    if "\n" not in word.strip():
        return failed(f"the line ends are lost: {short_text(word)}. Code would not run. {parser}")
    if "".join(word.split()) == "".join(LINES.split()):
        return failed(f"blanks were changed: {word!r}. Python code would not run. {parser}")
    return failed(f"the text was changed: {short_text(repr(word))}. Choose a larger model, or less quantization.")


def _uncalled(message: AssistantMessage) -> Judgement:
    return failed(
        f"it answered with text this time: {short_text(message.text)} It calls tools now and then only: choose a "
        "larger model, or less quantization."
    )


def judge_limit(message: AssistantMessage) -> Judgement:
    """Judge an answer with a limit of `SHORT` tokens."""
    if message.stop_reason == "length":
        return passed(f"cut after {SHORT} tokens, and said so")
    tokens = count_messages((message,))
    if tokens > 4 * SHORT + 16:
        return failed(
            f"the limit of {SHORT} tokens was ignored ({tokens} came): max_tokens of a model does nothing here. "
            "Set the limit at the server (Ollama: num_predict)."
        )
    if len(message.text.split()) >= SHORT / 2:
        return failed(
            f"it was cut and says {message.stop_reason!r}: a cut call looks like a whole one. Update the server."
        )
    return skipped(f"it said too little to reach {SHORT} tokens")


def judge_counts(heard: Sequence[tuple[int, AssistantMessage]], model: Model) -> Judgement:
    """Judge the token counts of all answers.

    Args:
        heard: Answers, each with the estimated tokens of its prompt.
        model: The model that gave them.
    """
    is_ollama = model.server.dialect == "ollama"
    window = "set context_window in [[models]] (num_ctx)" if is_ollama else "compare num_ctx or --ctx-size"
    for prompt, message in heard:
        usage, said = message.usage, count_messages((message,))
        if usage is None or not usage.prompt_tokens:
            return failed(
                "it counts nothing: the size of a conversation is estimated, and prices are. Behind a proxy, let it "
                "pass stream_options.include_usage on."
            )
        if usage.prompt_tokens < LEAST_SHARE * prompt:
            return failed(
                f"it counted {usage.prompt_tokens} tokens where about {prompt} were sent: it counts something else, or "
                f"its window cut the prompt ({window}). An estimate is used instead."
            )
        if usage.prompt_tokens > 3 * prompt + MOST_EXTRA:
            return failed(
                f"it counted {usage.prompt_tokens} tokens where about {prompt} were sent: a system prompt of the "
                "server's own, or the counts of another request. Conversations will be compacted too early."
            )
        if usage.completion_tokens < LEAST_SHARE * said - SHORT:
            return failed(f"it counted {usage.completion_tokens} tokens of an answer of about {said}.")
    prompt, message = heard[0]
    assert message.usage is not None
    counted = f"{message.usage.prompt_tokens} tokens where about {prompt} were estimated"
    if is_ollama and model.context_window is None:
        counted += "; set context_window in [[models]], or Ollama cuts longer prompts silently at its num_ctx"
    return passed(counted)


def judge_thoughts(first: AssistantMessage, sent: bytes, *, was_taken: bool, refusal: str) -> Judgement:
    """Judge whether the server accepts reasoning that is returned to it.

    Args:
        first: The answer that may contain reasoning.
        sent: Body of the follow-up request.
        was_taken: Whether the server answered the follow-up request.
        refusal: The server's error message if not.
    """
    thought = "".join(part.text for part in first.parts if isinstance(part, ReasoningPart))
    if not was_taken:
        if "reason" in refusal.casefold() or "think" in refusal.casefold():
            return failed(f"{refusal} Set reasoning_field in its [[providers]] to the field that this server names.")
        return skipped("not known, since no answer to a result came")
    if not thought.strip():
        return skipped("no thoughts came; nothing had to be kept")
    if thought.strip()[:16].encode() in sent:
        return passed(f"{len(thought)} characters of thought went back and were taken")
    return passed(f"{len(thought)} characters of thought came; the server takes a round without them")


def was_cut(message: AssistantMessage) -> bool:
    """Return whether an answer reached its token limit."""
    return message.stop_reason == "length"


def result_of(call: ToolCall) -> ToolMessage:
    """Return the tool result of a call to `echo`."""
    text = TextPart(text=f"It was said. The number is {NUMBER}.")
    return ToolMessage(call_id=call.id, name=call.name, parts=(text,))


def user(text: str) -> UserMessage:
    """Return a user message with this text."""
    return UserMessage(parts=(TextPart(text=text),))


def short_text(text: str) -> str:
    """Shorten a text to one line of at most 60 characters."""
    words = " ".join(text.split())
    return words if len(words) <= 60 else f"{words[:59]}…"


def _arguments(call: ToolCall) -> Mapping[str, object] | None:
    try:
        return json_text.parse_json_object(call.arguments)
    except ValueError:
        return None
