"""Searching the project by a regular expression: one contract, two engines, each a child process.

Start with `query`, what is searched for and what is left out. `ripgrep` turns a query into arguments for that program;
`worker` is the same search in Python, for machines without it. Both write the same lines, which `engine` reads.
"""
