"""A dead rank ends the run with a message and a status, and no rank hangs; signals and --seconds end it in good order,
all ranks after the same step."""
import signal
import sys

sys.dont_write_bytecode = True
from trainer import LIMIT, SMALL, counts, run, start_ranks

ENDLESS = ["--steps", 1000000, "--stages", 4, "--stats", *SMALL]


def wait_for_steps(rank_with_loss):
    """Training goes on when losses come."""
    for _ in range(3):
        assert rank_with_loss.stdout.readline().startswith("step "), "the run did not begin"


def finish(ranks):
    outputs = []
    for rank in ranks:
        out, err = rank.communicate(timeout=LIMIT)
        outputs.append((rank.returncode, out, err))
    return outputs


def kill_one(victim, world, *more):
    ranks = start_ranks(world, *ENDLESS, "--print-loss", *more)
    wait_for_steps(ranks[-1] if world == 4 else ranks[-2])
    ranks[victim].kill()
    for number, (status, _, err) in enumerate(finish(ranks)):
        if number == victim:
            assert status == -signal.SIGKILL, status
        else:
            assert status == 1 and "lost" in err, (number, status, err)


def stop_by_signal(number, target, *more):
    ranks = start_ranks(4, *ENDLESS, "--print-loss", *more)
    wait_for_steps(ranks[0] if "zb-v" in more else ranks[3])
    ranks[target].send_signal(number)
    steps = set()
    for rank, (status, out, err) in enumerate(finish(ranks)):
        assert status == 0, (rank, status, err)
        steps.add(counts(out, "ran")[rank]["steps"])
    assert len(steps) == 1, steps


kill_one(2, 4)
kill_one(0, 4, "--schedule", "zb-h1", "--barrier")
kill_one(5, 8, "--dp", 2)
stop_by_signal(signal.SIGTERM, 3)
stop_by_signal(signal.SIGINT, 1, "--schedule", "zb-v")
stop_by_signal(signal.SIGTERM, 0, "--schedule", "interleaved", "--barrier")

done = run("--seconds", 0.3, "--dp", 2, "--stages", 2, "--stats", *SMALL)
assert len({c["steps"] for c in counts(done.stdout, "ran").values()}) == 1, done.stdout

for wrong in (["--schedule", "zb-h9"], ["--hidden", "6"], ["--forward", "10"], ["--slow", "9:2", "--compute", "timed"],
              ["--compute", "timed", "--print-loss"], ["--steps", "0"], ["--nonsense"], ["extra"]):
    done = run(*wrong, check=False)
    assert done.returncode == 2 and done.stderr.count("\n") == 1, (wrong, done.returncode, done.stderr)
print("failures are noticed and signals obeyed")
