"""What the tests of the sample trainer share: how it is run and what it prints."""
import os
import re
import socket
import subprocess

PROGRAM = os.path.join(os.environ.get("top_builddir", "."), "samples", "pipeline_train")
LIMIT = 120  # seconds: a hang, not slowness
SMALL = ["--hidden", "16", "--batch", "8"]


def environment(**more):
    kept = {k: v for k, v in os.environ.items() if not k.startswith("BUBBLETOP_") and k not in ("RANK", "WORLD_SIZE")}
    return {**kept, **more}


def run(*arguments, check=True):
    done = subprocess.run([PROGRAM, *map(str, arguments)], env=environment(), timeout=LIMIT, text=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if check and done.returncode != 0:
        raise SystemExit(f"{' '.join(done.args)}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    return done


def losses(output):
    return [float(x) for x in re.findall(r"^step \d+ loss (\S+)$", output, re.M)]


def counts(output, verb):
    """{rank: {key: value}} of the lines that --stats prints, "ran" or "captured"."""
    found = {}
    for rank, rest in re.findall(rf"^rank (\d+) {verb}: (.*)$", output, re.M):
        found[int(rank)] = dict(item.split("=", 1) for item in rest.split(" "))
    return found


def start_ranks(world, *arguments):
    """Each rank as a process of its own, as torchrun starts them."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    return [subprocess.Popen([PROGRAM, *map(str, arguments)], text=True, stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             env=environment(RANK=str(rank), WORLD_SIZE=str(world), MASTER_ADDR="127.0.0.1",
                                             MASTER_PORT=str(port)))
            for rank in range(world)]
