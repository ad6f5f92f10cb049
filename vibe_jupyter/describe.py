"""How the agent describes your variables: have it use your own words for a class of yours.

from vibe_jupyter import describe

describe.register(Experiment, lambda one: f"{one.name}: {len(one.runs)} runs, best {one.best:.3f}")
"""

from vibe_jupyter.variables.own_words import register

__all__ = ["register"]
