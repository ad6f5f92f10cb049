"""Skills: folders with a SKILL.md, in the form of Agent Skills (agentskills.io).

`frontmatter` reads one file, `discovery` finds them in their order, `section` lists them for the model, `skill` tells
which one a prompt calls. All of that is values; what a kernel does with them is in `vibe_jupyter.app.skills`.
"""
