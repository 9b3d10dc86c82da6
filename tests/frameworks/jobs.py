"""Many small runs from one process that has imported a framework once: it forks the ranks of one run after the other."""
import json
import os
import signal
import sys
import time


def main(train):
    """What the arguments ask for: one rank of a run, or "jobs" and a path, see run()."""
    if sys.argv[1] == "jobs":
        run(sys.argv[2], train)
    else:
        train(*sys.argv[1:])


def run(path, train):
    """`path`: a JSON list of [run directory, ranks, port, limit in seconds, argument...]; train(argument...) is called in each
    rank. Ranks are killed when one of them has failed or the limit has passed. Exits with 1 if a run failed."""
    with open(path) as file:
        jobs = json.load(file)
    failed = 0
    for directory, ranks, port, limit, *arguments in jobs:
        begun = time.monotonic()
        children = [_start(rank, ranks, port, directory, train, arguments) for rank in range(ranks)]
        if not _wait(children, limit):
            print("FAILED after %.0f s (limit %d s): %s" % (time.monotonic() - begun, limit, " ".join(map(str, arguments))),
                  flush=True)
            failed += 1
    sys.exit(1 if failed else 0)


def _start(rank, ranks, port, directory, train, arguments):
    child = os.fork()
    if child == 0:
        os.environ.update(RANK=str(rank), WORLD_SIZE=str(ranks), LOCAL_RANK=str(rank), MASTER_ADDR="127.0.0.1",
                          MASTER_PORT=str(port), BUBBLETOP_DIR=directory)
        train(*arguments)
        sys.exit(0)
    return child


def _wait(children, limit):
    """True if all ended well and in time."""
    left = set(children)

    def kill(*_):
        for child in left:
            os.kill(child, signal.SIGKILL)
    signal.signal(signal.SIGALRM, kill)
    signal.alarm(limit)
    well = True
    while left:
        child, status = os.wait()
        left.discard(child)
        if status != 0 and well:
            well = False
            kill()
    signal.alarm(0)
    return well
