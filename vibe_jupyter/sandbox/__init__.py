"""A copy of this process that can read, compute and answer, and nothing else: Linux on x86-64 and aarch64.

`ForkedCopy` forks it; `confine` takes from it what the operating system lets a process do: Landlock says which paths it
reads, seccomp which system calls it makes, after each inherited descriptor and shared mapping was made private. What
none of these hides is in docs/trust.md.
"""
