"""CPU per piece of a streamed answer: ours beside httpx with `json` and a fold, and beside the clients people use.

The rows `+redacted` have the text redacted too, as each answer is on its way to the view.

    PYTHONPATH=. python benchmarks/decode.py          # 20,000 deltas, and 100,000 for the growth
    PYTHONPATH=. python benchmarks/decode.py --quick  # a tenth of it, and no peers

The server runs in a process of its own, and so does each measurement, since only CPU time of the client is compared:
the ratio of two figures of one run means something on a busy machine, the figures themselves do not. The peers (the
SDKs of OpenAI and Mistral, Ollama's client) are installed into `.matrix/llm-peers` at the first full run.
"""

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
from pathlib import Path

from benchmarks import decode_clients, decode_streams
from benchmarks.report import SMOKE, Row, report, size

ROUNDS = size(5, 1)
"""Measurements of each figure; the median counts."""
PEER_ROUNDS = 3
PEERS = Path(__file__).resolve().parents[1] / ".matrix" / "llm-peers"
PEER_PACKAGES = ("openai", "mistralai", "ollama")
INSTALL_TIME = 600
"""Seconds."""
MODES = {
    # mode: (times the floor, peers)
    "text": (1.25, ("openai", "mistralai")),
    "tools": (1.3, ("openai",)),
    "bulk": (1.5, ("openai",)),
    "lines": (1.5, ("ollama",)),
    "linetools": (1.6, ("ollama",)),
}
"""What is streamed (``tools``: 200 calls in 50 pieces each, in the full run), the aim (performance 5, S1, S2, S4), and
who reads it too. Mistral's SDK reads no calls: it refuses pieces without the name of the tool, as OpenAI sends them."""
REDACTED = {"prose": 1.5, "tools": 1.6}
"""What is streamed, and the times the floor that our client and the redaction of its text may cost together."""
OF_OPENAI = 0.2
"""Of the cost of OpenAI's SDK (S1, S2)."""
MAX_GROWTH = 1.15
"""Cost of a delta in an answer five times as long."""


def main() -> int:
    """Run the table, or one of the processes it needs."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--quick", action="store_true")
    options.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options.add_argument("--measure", nargs=3, help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.serve:
        decode_streams.serve()
    elif chosen.measure:
        client, name, url = chosen.measure
        print(*asyncio.run(decode_clients.CLIENTS[client](name, url)))
    else:
        quick = chosen.quick or SMOKE
        return table(size(2_000 if quick else 20_000, 20), peers=not quick and has_peers())
    return 0


def table(deltas: int, *, peers: bool) -> int:
    """Measure everything and print it; 1 if an aim is missed."""
    server = subprocess.Popen([*command(), "--serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment())
    assert server.stdout
    url = server.stdout.readline().decode().strip()
    rows: list[Row] = []
    try:
        print(f"CPU, µs a delta\n{'':16}{'floor':>8}{'ours':>8}{'ratio':>8}{'aim':>6}   others")
        for mode, (goal, others) in list(MODES.items())[: size(None, 1)]:
            count = deltas // 2 if mode == "tools" else deltas
            rows += row(mode, count, url, goal, others if peers else ())
        for mode, goal in list(REDACTED.items())[: size(None, 1)]:
            rows += row(mode, deltas, url, goal, (), client="redacted")
        floor, ours = growth(deltas, url)
        print(f"{'growth × 5':16}{floor:8.2f}{ours:8.2f}{'':8}{MAX_GROWTH:6.2f}")
        rows.append(Row("growth of a delta's cost, five times as many", ours / max(floor, 1.0), MAX_GROWTH, "x"))
        rows += separators(url, peers=peers)
    finally:
        server.communicate(timeout=30)
    return report(rows)


PAIR = ("floor", "ours")


def row(mode: str, deltas: int, url: str, goal: float, others: tuple[str, ...], *, client: str = "ours") -> list[Row]:
    """Print one line of the table, and return what has an aim."""
    floor, ours, ratio, whole = pair(mode, deltas, url, client)
    told: list[str] = []
    rows = [
        Row(f"{mode} ({client}) beside the floor", ratio, goal, "x"),
        Row(f"{mode} ({client}): answers that are not whole", int(not whole), 0.5),
    ]
    for name in others:
        try:
            cost, right = figure(name, mode, deltas, url, PEER_ROUNDS)
        except subprocess.CalledProcessError as failure:
            told.append(f"{name}: {failure.stderr.strip().splitlines()[-1][:60] if failure.stderr else 'failed'}")
            continue
        told.append(f"{name} {cost:.1f}{'' if right else ' (wrong)'}, ours {ours / cost:.2f} of it")
        if name == "openai":
            rows.append(Row(f"{mode} beside {name}", ours / cost, OF_OPENAI, "x"))
    label = mode if client == "ours" else f"{mode} +{client}"
    print(f"{label:16}{floor:8.2f}{ours:8.2f}{ratio:8.2f}{goal:6.2f}   {'; '.join(told)}")
    return rows


def growth(deltas: int, url: str) -> list[float]:
    """How much more a delta costs in an answer five times as long: at the floor, and for us."""
    found: dict[str, list[float]] = {name: [] for name in PAIR}
    for _ in range(ROUNDS):
        for name, ratios in found.items():
            long, short = (measured(name, f"text-{count}", url)[0] / count for count in (deltas * 5, deltas))
            ratios.append(long / short)
    return [statistics.median(ratios) for ratios in found.values()]


def separators(url: str, *, peers: bool) -> list[Row]:
    """Who brings U+2028 and its like through whole."""
    rows: list[Row] = []
    for mode, others in (("textu", ("openai", "mistralai")), ("linesu", ("ollama",)))[: size(None, 1)]:
        told: list[str] = []
        for name in ("ours", *(others if peers else ())):
            try:
                right = measured(name, f"{mode}-1000", url)[1]
            except subprocess.CalledProcessError:
                right = False
            told.append(f"{name} {'right' if right else 'broken'}")
            if name == "ours":
                rows.append(Row(f"U+2028 ({mode}): answers that are broken", int(not right), 0.5))
        print(f"U+2028 ({mode}): {', '.join(told)}")
    return rows


def pair(mode: str, deltas: int, url: str, client: str) -> tuple[float, float, float, bool]:
    """The floor and a client of ours in turns: µs a delta of each, the ratio, and whether all answers were whole.

    The ratio is the median of those of neighbours, since the speed of a machine drifts within seconds.
    """
    found = [[measured(name, f"{mode}-{deltas}", url) for name in ("floor", client)] for _ in range(ROUNDS)]
    floor, ours = (statistics.median(both[at][0] for both in found) / deltas * 1e6 for at in (0, 1))
    ratio = statistics.median(us[0] / them[0] for them, us in found)
    return floor, ours, ratio, all(whole for _, (_, whole) in found)


def figure(name: str, mode: str, deltas: int, url: str, rounds: int = ROUNDS) -> tuple[float, bool]:
    """Microseconds a delta, and whether the answer came through whole."""
    found = [measured(name, f"{mode}-{deltas}", url) for _ in range(rounds)]
    return statistics.median(cost for cost, _ in found) / deltas * 1e6, all(right for _, right in found)


def measured(name: str, mode: str, url: str) -> tuple[float, bool]:
    """Seconds of CPU of one client in a process of its own."""
    done = subprocess.run(
        [*command(), "--measure", name, mode, url],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
        env=environment(peer=name not in (*PAIR, "redacted")),
    )
    cost, right = done.stdout.split()
    return float(cost), right == "True"


def command() -> list[str]:
    """This program in another process."""
    return [sys.executable, "-m", "benchmarks.decode"]


def environment(*, peer: bool = False) -> dict[str, str]:
    """Peers bring packages of their own; nobody else sees them."""
    path = [str(Path(__file__).resolve().parents[1]), *([str(PEERS)] if peer else [])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path[::-1])}


def has_peers() -> bool:
    """Install them at the first time; without a network the table goes without."""
    if not PEERS.exists():
        install = [sys.executable, "-m", "pip", "install", "-q", "--target", str(PEERS), *PEER_PACKAGES]
        if subprocess.run(install, capture_output=True, check=False, timeout=INSTALL_TIME).returncode:
            print("The other clients could not be installed; the table goes without them.")
            return False
    return True


if __name__ == "__main__":
    sys.exit(main())
