"""Custom descriptions of your variables: register a function that describes a class to the agent.

from vibe_jupyter import describe

describe.register(Experiment, lambda one: f"{one.name}: {len(one.runs)} runs, best {one.best:.3f}")
"""

from vibe_jupyter.variables.own_words import register

__all__ = ["register"]
