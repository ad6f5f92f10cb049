"""The sub-commands of `%vibe`, and what Tab offers."""
