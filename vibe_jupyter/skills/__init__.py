"""Skills: directories with a SKILL.md in the Agent Skills format (agentskills.io).

`frontmatter` parses one file, `discovery` finds all of them in order of precedence, `section` lists them for the model,
and `skill` determines which one a prompt invokes. These modules only compute values; `vibe_jupyter.app.skills` applies
them to a kernel.
"""
