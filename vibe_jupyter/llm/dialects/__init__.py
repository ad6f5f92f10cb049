"""One module a dialect. A new one is added to the table here, and to `DialectName`."""

from vibe_jupyter.llm.dialects.mistral import MistralDialect
from vibe_jupyter.llm.dialects.mistralrs import MistralrsDialect
from vibe_jupyter.llm.dialects.ollama import OllamaDialect
from vibe_jupyter.llm.dialects.openai import OpenAIDialect
from vibe_jupyter.llm.request import Dialect

DIALECTS: dict[str, Dialect] = {
    "openai": OpenAIDialect(),
    "mistral": MistralDialect(),
    "mistralrs": MistralrsDialect(),
    "ollama": OllamaDialect(),
}
