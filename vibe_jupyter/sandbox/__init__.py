"""Sandboxed copies of this process that can only read, compute and report. Linux on x86-64 and aarch64.

`ForkedCopy` forks the process, and `confine` restricts the copy. It first makes inherited descriptors and shared
mappings private; then Landlock limits the paths it can read, and seccomp the system calls it can make. What remains
visible nevertheless is listed in docs/trust.md.
"""
