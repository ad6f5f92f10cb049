"""Models as a table for the person: where each is, what it costs, what it can."""

from collections.abc import Sequence

from vibe_jupyter.llm.request import Model


def facts_of(model: Model) -> list[str]:
    """Server, price, window and abilities, in a few words each; what is not known is said."""
    abilities = ["tools", "images"] if model.sees_images else ["tools"]
    if model.thinking not in (None, "off"):
        abilities.append(f"thinks ({model.thinking})")
    where = f"{model.server.name} at {model.server.host}" if model.server.name else model.server.host
    return [where, price_words(model), window_words(model), ", ".join(abilities)]


def price_words(model: Model) -> str:
    """What it costs."""
    if model.input_price is None or model.output_price is None:
        return "price not known"
    if not model.input_price and not model.output_price:
        return "free"
    cached = "" if model.cached_input_price is None else f" (cached ${model.cached_input_price:g})"
    return f"${model.input_price:g}{cached} in, ${model.output_price:g} out per million tokens"


def window_words(model: Model) -> str:
    """How much it takes at once."""
    return "window not known" if model.context_window is None else f"{model.context_window:,} tokens"


def model_table(rows: Sequence[Sequence[str]]) -> str:
    """Rows under each other; a row with fewer columns ends in a text of any length."""
    columns = max(len(row) for row in rows)
    whole = [row for row in rows if len(row) == columns]
    widths = [max((len(row[at]) for row in whole), default=0) for at in range(columns)]
    widths[1] = max(len(row[1]) for row in rows)
    lines = [f"{row[0]} " + "  ".join(cell.ljust(widths[at]) for at, cell in enumerate(row) if at) for row in rows]
    return "\n".join(line.rstrip() for line in lines)
