"""Every schedule computes the gradients of a single process: bit for bit where the sums have one order, and within
rounding where an all-reduce of three replicas adds in another. The loss is the same and falls."""
import array
import os
import sys
import tempfile

sys.dont_write_bytecode = True
from trainer import SMALL, losses, run

LAYERS = 8


def read(folder, layer, replica):
    values = array.array("f")
    with open(os.path.join(folder, f"layer-{layer:03}.replica-{replica}.f32"), "rb") as file:
        values.frombytes(file.read())
    return values


def difference(reference, other):
    largest = max(map(abs, reference))
    assert largest > 0, "the reference has no gradient"
    return max(abs(a - b) for a, b in zip(reference, other)) / largest


def check(folder, schedule, stages, replicas, *more):
    name = "-".join([schedule, str(stages), str(replicas), *more])
    out, reference = os.path.join(folder, name), os.path.join(folder, f"reference-{replicas}")
    done = run("--schedule", schedule, "--stages", stages, "--dp", replicas, "--steps", 3, "--print-loss", *SMALL,
               "--dump-gradients", out, *more)
    worst = max(difference(read(reference, layer, 0), read(out, layer, replica))
                for layer in range(LAYERS) for replica in range(replicas))
    assert worst == 0 if replicas <= 2 else worst < 1e-5, f"{name}: gradients differ by {worst}"
    return losses(done.stdout)


with tempfile.TemporaryDirectory() as folder:
    expected = {}
    for replicas in 1, 2, 3:
        done = run("--reference", "--dp", replicas, "--steps", 3, "--print-loss", *SMALL, "--dump-gradients",
                   os.path.join(folder, f"reference-{replicas}"))
        expected[replicas] = losses(done.stdout)
    for schedule in "gpipe", "1f1b", "interleaved", "zb-h1", "zb-h2", "zb-v":
        for stages in 2, 4:
            assert check(folder, schedule, stages, 1) == expected[1], f"{schedule}: another loss"
        check(folder, schedule, 2, 2)
    check(folder, "1f1b", 3, 1)
    check(folder, "1f1b", 1, 2)
    check(folder, "1f1b", 4, 1, "--split-backward")
    check(folder, "zb-h1", 2, 3)
    # with --barrier the loss is summed over all ranks: that of both replicas
    both = check(folder, "zb-h1", 2, 2, "--barrier")
    assert all(abs(a - b) < 1e-6 for a, b in zip(both, expected[2])), "the global loss"

falling = losses(run("--stages", 4, "--steps", 100, "--print-loss", *SMALL).stdout)
assert len(falling) == 100 and falling[-1] < falling[0] / 4, f"loss {falling[0]} -> {falling[-1]}"
print(f"gradients are those of one process; loss {falling[0]:.3} -> {falling[-1]:.3}")
