"""Stands for a process of a fork server (fork_server.py): `fork_client.py ADDRESS WHAT ARGUMENT…`.

It imports what is built into Python alone: `json`, `socket` and their like would double what it costs.
"""

import _signal as signal
import _socket as socket
import os
import sys

FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


def main(address: str, argv: list[str]) -> int:
    """Have it started, pass signals on, end as it ends."""
    process = 0
    waiting: list[int] = []

    def forward(number: int, _frame: object) -> None:
        if not process:
            waiting.append(number)
            return
        try:  # noqa: SIM105 - contextlib is one of those modules
            os.killpg(process, number)
        except ProcessLookupError:
            pass

    for number in FORWARDED:
        signal.signal(number, forward)
    server = socket.socket(socket.AF_UNIX)
    server.connect(address)
    asked = {"argv": argv, "environment": dict(os.environ), "folder": os.getcwd()}
    files = b"".join(number.to_bytes(4, sys.byteorder) for number in (0, 1, 2))
    request = repr(asked).encode() + b"\n"  # on one line, also where a value has several
    sent = server.sendmsg([request], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, files)])
    if sent < len(request):  # what was asked for may be over already: then the server listens no more
        server.sendall(request[sent:])
    process = int(_answer(server))
    for number in waiting:
        forward(number, None)
    code = int(_answer(server) or 1)
    if code < 0:
        if -code != signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    return code


def _answer(server: "socket.socket") -> bytes:
    """The next line; nothing where the server is gone."""
    line = b""
    while not line.endswith(b"\n"):
        if not (byte := server.recv(1)):
            return b""
        line += byte
    return line


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
