"""Sit in the model's chair: `python -m tests.chair [--seeds N] [--seed N] [--job NAME] [--model NAME@URL]`."""

import argparse
import os
import sys

from tests.chair.sitting import Sitting, job_names, worst_of

if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.chair", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="names and numbers of the first round")
    parser.add_argument("--seeds", type=int, default=5, help="rounds; the worst of each figure is printed")
    parser.add_argument("--job", action="append", help="only cases with this job, such as a2")
    parser.add_argument(
        "--model", default=os.environ.get("MODEL") or None, help="NAME@URL of a server, in place of the expert"
    )
    parser.add_argument("--show", action="store_true", help="print what was sent and what was answered")
    given = parser.parse_args()
    if unknown := sorted(set(given.job or ()) - set(job_names())):
        parser.error(f"no job is called {', '.join(unknown)}; there are {', '.join(job_names())}")
    seeds = range(given.seed, given.seed + (1 if given.model else given.seeds))
    sittings = [Sitting(seed, jobs=given.job, model=given.model, show=given.show) for seed in seeds]
    for sitting in sittings:
        sitting.do_all()
    missed = worst_of(sittings)
    sys.exit(1 if missed and not given.model else 0)
