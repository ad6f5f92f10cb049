"""Which system calls the filters let through, on each processor: their programs, worked out row by row."""

import errno
import os
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from vibe_jupyter.sandbox import command_calls
from vibe_jupyter.sandbox.call_numbers import PROCESSORS
from vibe_jupyter.sandbox.command_calls import command_rules
from vibe_jupyter.sandbox.seccomp import (
    ASK,
    WRITING,
    CallRules,
    conditional_calls,
    copy_rules,
    filter_rows,
    writing_copy_rules,
)

ALLOWED, REFUSED, KILLED = 0x7FFF0000, 0x00050000, 0x80000000
OWN_PID = 4242
AUDIT = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7, "i386": 0x40000003, "arm": 0x40000028, "riscv64": 0xC00000F3}
"""How Linux names the processor a call is made for, to filters."""
X32 = 0x40000000
ROWS = [line.split("\t") for line in Path(__file__).with_name("linux_calls.tsv").read_text().splitlines()[1:]]
NUMBERS = {
    "x86_64": {name: int(number) for name, number, _ in ROWS if number != "-"},
    "aarch64": {name: int(number) for name, _, number in ROWS if number != "-"},
}
"""Those of Linux itself, not ours."""
REACHES_OUT = {
    *("socket", "connect", "bind", "listen", "accept", "accept4", "sendmmsg", "ptrace", "process_vm_readv"),
    *("process_vm_writev", "process_madvise", "pidfd_open", "pidfd_getfd", "pidfd_send_signal", "rt_sigqueueinfo"),
    *("rt_tgsigqueueinfo", "execve", "execveat", "fork", "vfork", "clone3", "setns", "unshare", "mount", "umount2"),
    *("pivot_root", "chroot", "open_tree", "move_mount", "fsopen", "open_by_handle_at", "creat", "openat2", "mknod"),
    *("mknodat", "mkdir", "mkdirat", "unlink", "unlinkat", "rmdir", "rename", "renameat", "renameat2", "link"),
    *("linkat", "symlink", "symlinkat", "truncate", "chmod", "fchmod", "fchmodat", "fchmodat2", "chown", "lchown"),
    *("fchown", "fchownat", "utime", "utimes", "utimensat", "futimesat", "setxattr", "lsetxattr", "fsetxattr"),
    *("removexattr", "setxattrat", "removexattrat", "shmget", "shmat", "semget", "semop", "msgget", "msgsnd"),
    *("mq_open", "io_uring_setup", "io_uring_enter", "io_setup", "io_submit", "bpf", "perf_event_open", "keyctl"),
    *("add_key", "userfaultfd", "memfd_create", "personality", "reboot", "kexec_load", "init_module", "swapon"),
    *("setuid", "setgid", "setresuid", "capset", "fanotify_init", "inotify_init1", "quotactl", "syslog", "acct"),
}
"""Calls that change files, reach processes, the network or the system: no filter of ours lets one through."""


def verdict(
    rows: list[tuple[int, int, int, int]], machine: str, number: int, words: dict[int, int] | None = None
) -> int:
    """What a filter says of a call, with these 32-bit words of its arguments."""
    arguments = [(words or {}).get(place, 0) for place in range(12)]
    data = struct.pack("IIQ12I", number, AUDIT[machine], 0, *arguments)
    place, value = 0, 0
    while True:
        operation, if_true, if_false, operand = rows[place]
        place += 1
        match operation:
            case 0x20:
                value = struct.unpack_from("I", data, operand)[0]
            case 0x15:
                place += if_true if value == operand else if_false
            case 0x35:
                place += if_true if value >= operand else if_false
            case 0x54:
                value &= operand
            case 0x06:
                return operand
            case _:
                raise AssertionError(operation)


@pytest.mark.parametrize("machine", PROCESSORS)
def test_calls_have_the_numbers_that_linux_gives_them_and_those_it_does_not_have_are_left_out(machine: str) -> None:
    ours = PROCESSORS[machine]
    assert ours.audit_number == AUDIT[machine]
    assert ours.numbers == {name: number for name, number in NUMBERS[machine].items() if name in ours.numbers}
    rules = (
        *(rule for rules in (copy_rules(1), writing_copy_rules(1), command_rules()) for rule in rules[:3]),
        command_calls.PATH_CALLS,
    )
    named = {name for names in (*rules, command_calls.HABITS, command_calls.CALL_WORDS) for name in names}
    assert named <= PROCESSORS["x86_64"].numbers.keys()
    assert {name for name in named if name in NUMBERS[machine]} <= ours.numbers.keys()
    assert {"open", "fork", "stat", "pipe", "rename"}.isdisjoint(PROCESSORS["aarch64"].numbers)


@pytest.mark.parametrize("machine", PROCESSORS)
@pytest.mark.parametrize(
    ("rules", "others"),
    [
        (copy_rules(OWN_PID), REFUSED | errno.EPERM),
        (writing_copy_rules(OWN_PID), REFUSED | errno.EPERM),
        (command_rules(), ASK),
    ],
)
def test_every_call_that_no_rule_names_is_refused_or_decided_on_one_by_one(
    machine: str, rules: CallRules, others: int
) -> None:
    rows = filter_rows(rules, PROCESSORS[machine])
    names = {number: name for name, number in NUMBERS[machine].items()}
    for number in range(1_000):
        name = names.get(number, "")
        said = verdict(rows, machine, number)
        if name in rules.allowed:
            assert said == ALLOWED, name
            assert name not in REACHES_OUT - (WRITING if rules == writing_copy_rules(OWN_PID) else set())
        elif name in rules.absent:
            assert said == REFUSED | errno.ENOSYS, name
        elif name == "flock" and rules.pretended:
            assert said == REFUSED | 0
        elif name not in rules.conditional:
            assert said == others, name
    decided = {*command_calls.PATH_CALLS, *command_calls.HABITS, *command_calls.CALL_WORDS, "open", "openat"}
    assert decided.isdisjoint(rules.allowed - WRITING)


@pytest.mark.parametrize("machine", PROCESSORS)
@pytest.mark.parametrize("rules", [copy_rules(OWN_PID), writing_copy_rules(OWN_PID), command_rules()])
def test_calls_of_another_kind_of_processor_end_the_process_whatever_their_number(
    machine: str, rules: CallRules
) -> None:
    rows = filter_rows(rules, PROCESSORS[machine])
    for number in range(600):
        assert all(verdict(rows, other, number) == KILLED for other in AUDIT if other != machine)
        assert verdict(rows, machine, X32 | number) == KILLED
    assert verdict(rows, machine, 0xFFFFFFFF) == KILLED


FITS = [
    ("open", {2: os.O_RDONLY | os.O_CLOEXEC}, {2: os.O_WRONLY}),
    ("openat", {4: os.O_RDONLY | os.O_DIRECTORY}, {4: os.O_RDWR}),
    ("openat", {4: os.O_PATH}, {4: os.O_RDONLY | os.O_TRUNC}),
    ("openat", {4: os.O_NOFOLLOW}, {4: os.O_CREAT}),
    ("clone", {0: 0x3D0F00}, {0: 17}),
    ("clone", {0: 0x10000}, {0: 0x10000 | 0x10000000}),
    ("ioctl", {2: 0x5401}, {2: 0x5412}),
    ("fcntl", {2: 3}, {2: 8}),
    ("socketpair", {0: 1, 2: 1}, {0: 1, 2: 2}),
    ("sendto", {}, {8: 4096}),
    ("sendto", {}, {9: 1}),
    ("prctl", {0: 15}, {0: 4}),
    ("prlimit64", {0: OWN_PID}, {0: OWN_PID, 4: 4096}),
    ("prlimit64", {0: 0}, {0: 1}),
    ("tgkill", {0: OWN_PID}, {0: OWN_PID + 1}),
    ("kill", {0: OWN_PID}, {0: 0xFFFFFFFF}),
]
"""Words of the arguments with which a copy may make a call, and with which it may not."""


@pytest.mark.parametrize("machine", PROCESSORS)
@pytest.mark.parametrize(("name", "fit", "unfit"), FITS)
def test_a_call_that_depends_on_its_arguments_is_judged_by_them(
    machine: str, name: str, fit: dict[int, int], unfit: dict[int, int]
) -> None:
    rows = filter_rows(copy_rules(OWN_PID), PROCESSORS[machine])
    number = NUMBERS[machine].get(name)
    if number is None:
        assert (machine, name) == ("aarch64", "open")
        return
    assert verdict(rows, machine, number, fit) == ALLOWED
    assert verdict(rows, machine, number, unfit) == REFUSED | errno.EACCES
    if name == "clone":
        assert verdict(filter_rows(command_rules(), PROCESSORS[machine]), machine, number, unfit) == ASK
    assert {name for name, _, _ in FITS} == conditional_calls(OWN_PID).keys()


@pytest.mark.requirement("tools.code.copy.locks")
@pytest.mark.parametrize("machine", PROCESSORS)
@pytest.mark.parametrize("rules", [copy_rules, writing_copy_rules])
def test_a_lock_succeeds_in_a_copy_and_is_none(machine: str, rules: Callable[[int], CallRules]) -> None:
    rows, numbers = filter_rows(rules(OWN_PID), PROCESSORS[machine]), NUMBERS[machine]
    for command in (6, 7, 37, 38):  # F_SETLK, F_SETLKW, F_OFD_SETLK, F_OFD_SETLKW
        assert verdict(rows, machine, numbers["fcntl"], {2: command}) == REFUSED | 0
    for command in (5, 36):  # F_GETLK, F_OFD_GETLK
        assert verdict(rows, machine, numbers["fcntl"], {2: command}) == ALLOWED
    for operation in (1, 2, 4 | 2, 8):
        assert verdict(rows, machine, numbers["flock"], {2: operation}) == REFUSED | 0


@pytest.mark.parametrize("machine", PROCESSORS)
def test_a_copy_that_has_files_changes_no_rights_owners_times_and_attributes_which_landlock_does_not_judge(
    machine: str,
) -> None:
    rows = filter_rows(writing_copy_rules(OWN_PID), PROCESSORS[machine])
    told = ("chmod", "fchmod", "fchmodat", "fchmodat2", "chown", "fchown", "fchownat", "lchown", "utime", "utimes")
    told += ("utimensat", "futimesat", "setxattr", "lsetxattr", "fsetxattr", "removexattr", "mknod", "mknodat")
    for name in told:
        if name in NUMBERS[machine]:
            assert verdict(rows, machine, NUMBERS[machine][name]) == REFUSED | errno.EPERM, name
    for name, fit, unfit in (
        ("renameat2", {8: 1}, {8: 4}),
        ("linkat", {8: 0x400}, {8: 0x1000}),
    ):
        assert verdict(rows, machine, NUMBERS[machine][name], fit) == ALLOWED
        assert verdict(rows, machine, NUMBERS[machine][name], unfit) == REFUSED | errno.EACCES
