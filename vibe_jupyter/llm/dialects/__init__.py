"""One module a dialect. A new one is added to the table here, and to `Server.dialect`."""

from vibe_jupyter.llm.dialect import Dialect
from vibe_jupyter.llm.dialects.openai import OpenAIDialect

DIALECTS: dict[str, Dialect] = {"openai": OpenAIDialect()}
