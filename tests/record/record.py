"""bubbletop record: what the command gets, what its end and signals come to, which run directories are refused."""
import os
import pty
import signal
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import bubbletop, environment, record, run_tests, streams, trainer  # noqa: E402


def variables(text):
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)


def test_environment(scratch):
    done = record("run", "env", options=("--steps", "3..5,9", "--every=2", "--ring-dir", "/dev/shm"), cwd=scratch.path)
    env = variables(done.stdout)
    assert done.returncode == 0, done
    assert env["BUBBLETOP_DIR"] == os.path.realpath(scratch("run")), "absolute, whatever the command's folder"
    assert env["BUBBLETOP_STEPS"] == "3..5,9" and env["BUBBLETOP_EVERY"] == "2"
    assert env["BUBBLETOP_RING_DIR"] == "/dev/shm"
    assert env["BUBBLETOP_RUN_ID"]
    assert os.path.exists(env["BUBBLETOP_LIBRARY"])
    assert "nothing was captured" in done.stderr, done.stderr
    assert not os.path.exists(scratch("run")), "a directory that was made for nothing is gone"


def test_injections(scratch):
    """A tool that is injected already gets its calls through ours; a plugin that is loaded already is not thrown out."""
    env = variables(record(scratch("run"), "env", env=environment(NVTX_INJECTION64_PATH="/opt/tool.so")).stdout)
    assert os.path.basename(env["NVTX_INJECTION64_PATH"]) == "libbubbletop-nvtx.so", env
    assert env["BUBBLETOP_NVTX_CHAIN"] == "/opt/tool.so"
    assert os.path.basename(env["NCCL_PROFILER_PLUGIN"]) == "libnccl-profiler-bubbletop.so", env

    taken = environment(NCCL_PROFILER_PLUGIN="/opt/plugin.so", NVTX_INJECTION64_PATH="/opt/tool.so")
    done = record(scratch("run"), "env", env=taken)
    assert done.returncode == 125 and done.stdout == "", done
    assert "/opt/plugin.so" in done.stderr and "--no-nccl" in done.stderr and len(done.stderr.splitlines()) == 1, done
    assert not os.path.exists(scratch("run"))
    env = variables(record(scratch("run"), "env", options=("--no-nccl", "--no-nvtx"), env=taken).stdout)
    assert env["NCCL_PROFILER_PLUGIN"] == "/opt/plugin.so" and env["NVTX_INJECTION64_PATH"] == "/opt/tool.so"
    assert "BUBBLETOP_NVTX_CHAIN" not in env

    done = record(scratch("run"), "env", env=environment(NCCL_PROFILER_PLUGIN="none"))
    assert variables(done.stdout)["NCCL_PROFILER_PLUGIN"] == "none" and "NCCL_PROFILER_PLUGIN=none" in done.stderr


def test_statuses(scratch):
    for command, status in ((["true"], 0), (["sh", "-c", "exit 7"], 7), (["sh", "-c", "kill -9 $$"], 137),
                            (["sh", "-c", "kill -TERM $$"], 143), ([scratch("nothing")], 127), (["/"], 126)):
        done = record(scratch("run"), *command)
        assert done.returncode == status, (command, done)
        if status in (126, 127):
            assert "cannot run" in done.stderr and len(done.stderr.splitlines()) == 1, done


def test_usage(scratch):
    for arguments in (["--", "true"], ["-o", scratch("run")], ["-o"], ["-o", scratch("run"), "--every", "0", "true"],
                      ["-o", scratch("run"), "--steps", "5..", "true"], ["-o", scratch("run"), "--nonsense", "true"],
                      ["-o", scratch("run"), "--steps", "1,,2", "true"]):
        done = subprocess.run([bubbletop, "record", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert done.returncode == 2, (arguments, done)
        assert not os.path.exists(scratch("run"))


def test_the_command_keeps_its_own_options(scratch):
    done = record(scratch("run"), "echo", "--steps", "-o", "--")
    assert done.stdout == "--steps -o --\n", done


def test_directories(scratch):
    open(scratch("file"), "w").close()
    os.mkdir(scratch("taken"))
    open(scratch("taken", "rank-00000.0.0.msgpack"), "w").close()
    cases = [(scratch("no", "parent"), "does not exist"), (scratch("file"), "no directory"),
             (scratch("file", "run"), "cannot make"), (scratch("taken"), "holds a capture already")]
    if os.getuid() != 0:
        os.mkdir(scratch("locked"), 0o500)
        cases += [(scratch("locked"), "cannot write"), (scratch("locked", "run"), "cannot make")]
    for run, text in cases:
        done = record(run, "touch", scratch("started"))
        assert done.returncode == 125 and text in done.stderr, (run, done)
        assert len(done.stderr.splitlines()) == 1, done
        assert not os.path.exists(scratch("started")), "the command must not begin"


def test_a_capture(scratch):
    done = record(scratch("run"), trainer, "--stages", "2", "--steps", "3", "--compute", "timed", "--forward", "1ms",
                  "--backward", "1ms", "--weight", "1ms", options=("--steps", "1..2"))
    assert done.returncode == 0, done
    assert len(streams(scratch("run"))) == 2
    assert "2 ranks, 2 streams, steps 1..2" in done.stderr, done.stderr
    assert "F 32, BW 32" in done.stderr, done.stderr
    again = record(scratch("run"), "true")
    assert again.returncode == 125 and "holds a capture already, run id" in again.stderr, again


def test_two_records_of_one_directory(scratch):
    script = "echo up; read line"
    with subprocess.Popen([bubbletop, "record", "-o", scratch("run"), "--", "sh", "-c", script], env=environment(),
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as first:
        assert first.stdout.readline() == b"up\n"
        second = record(scratch("run"), "true")
        assert second.returncode == 125 and "is being written by another record (pid %d)" % first.pid in second.stderr
        first.communicate(b"\n")
    assert record(scratch("run"), "true").returncode == 0, "free again: the first one captured nothing"


def test_records_of_one_run_share_it(scratch):
    env = environment(SLURM_JOB_ID="17", SLURM_STEP_ID="3")
    script = "echo up; read line"
    with subprocess.Popen([bubbletop, "record", "-o", scratch("run"), "--", "sh", "-c", script], env=env,
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as first:
        assert first.stdout.readline() == b"up\n"
        second = record(scratch("run"), "env", env=env)
        assert second.returncode == 0 and variables(second.stdout)["BUBBLETOP_RUN_ID"] == "slurm-17.3", second
        third = record(scratch("run"), "env", options=("--run-id", "slurm-17.3"))
        assert third.returncode == 0, third
        first.communicate(b"\n")


def test_a_mark_left_by_a_killed_record(scratch):
    os.mkdir(scratch("run"))
    gone = subprocess.Popen(["true"])
    gone.wait()
    with open(scratch("run", ".bubbletop-record"), "w") as mark:
        mark.write("old\n%s\n%d\n" % (os.uname().nodename, gone.pid))
    assert record(scratch("run"), "true").returncode == 0


WAITER = """
import os, signal, sys
number = getattr(signal, sys.argv[1])
child = os.fork()
signal.signal(number, lambda *_: (os.write(1, b"child\\n" if child == 0 else b"parent\\n"), child and os.wait(), os._exit(3)))
os.write(1, b"up\\n")
while True:
    signal.pause()
"""


def test_signals(scratch):
    """They reach the whole process group of the command, once each, and its exit status comes back."""
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1"):
        with subprocess.Popen([bubbletop, "record", "-o", scratch("run"), "--", sys.executable, "-c", WAITER, name],
                              env=environment(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                              start_new_session=True) as process:
            assert process.stdout.readline() + process.stdout.readline() == b"up\nup\n"
            process.send_signal(getattr(signal, name))
            assert sorted(process.stdout.read().split()) == [b"child", b"parent"], name
            assert process.wait(timeout=60) == 3, (name, process.returncode)


def test_ctrl_c(scratch):
    """At a terminal the command stays in record's process group: the key reaches each process once, from the terminal."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(bubbletop, [bubbletop, "record", "-o", scratch("run"), "--", sys.executable, "-c", WAITER, "SIGINT"],
                  environment())
    out = b""
    while out.count(b"up") < 2:
        out += os.read(terminal, 1000)
    os.write(terminal, b"\x03")
    try:
        while True:
            more = os.read(terminal, 1000)
            if not more:
                break
            out += more
    except OSError:  # how a terminal says that nobody has it open any more
        pass
    status = os.waitpid(pid, 0)[1]
    os.close(terminal)
    assert os.WIFEXITED(status) and os.WEXITSTATUS(status) == 3, (status, out)
    assert out.count(b"child") == 1 and out.count(b"parent") == 1, out


def test_a_killed_rank_loses_nothing(scratch):
    """Spans that had ended when a rank was killed are counted, whether the writer had written them or not."""
    env = environment(BUBBLETOP_FLUSH_MS="60000")  # nothing reaches the file by itself
    script = r'''
"$0" --stages 2 --steps 100000 --compute timed --forward 1ms --backward 1ms --weight 1ms &
trainer=$!
sleep 1
children=$(ps -o pid= --ppid $trainer)
kill -STOP $children  # or one ends by itself when the other is gone
kill -9 $children
wait $trainer
exit 5'''
    done = record(scratch("run"), "bash", "-c", script, trainer, env=env)
    assert done.returncode == 5, done
    if not os.path.ismount("/dev/shm"):
        print("rings are not on tmpfs here: nothing to recover")
        return
    assert "saved" in done.stderr and "of 2 killed processes" in done.stderr, done.stderr
    assert len([name for name in streams(scratch("run")) if "recovered" in name]) == 2
    spans = int(done.stderr.split(" spans")[0].split()[-1])
    assert spans > 100, done.stderr


run_tests(globals())
