"""Stands for a kernel of the fork server (fork_server.py): `fork_client.py ADDRESS MODULE ARGUMENT…`."""

import contextlib
import json
import os
import signal
import socket
import sys

FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


def main(address: str, argv: list[str]) -> int:
    """Have it started, pass signals on, end as it ends."""
    kernel = 0
    waiting: list[int] = []

    def forward(number: int, _frame: object) -> None:
        if not kernel:
            waiting.append(number)
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(kernel, number)

    for number in FORWARDED:
        signal.signal(number, forward)
    server = socket.socket(socket.AF_UNIX)
    server.connect(address)
    asked = {"argv": argv, "environment": dict(os.environ), "folder": os.getcwd()}
    socket.send_fds(server, [json.dumps(asked).encode() + b"\n"], [0, 1, 2])
    answers = server.makefile("r")
    kernel = int(answers.readline())
    for number in waiting:
        forward(number, None)
    code = int(answers.readline() or 1)
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
