"""What `bubbletop export` writes, read back with Python's own parsers and compared between the formats."""
import csv
import io
import json
import os
import subprocess
import sys
import tempfile
import xml.dom.minidom

bubbletop = os.path.join(os.environ["top_builddir"], "bubbletop")
work = tempfile.TemporaryDirectory()


def run(*arguments, status=0):
    done = subprocess.run([bubbletop, *arguments], stdin=subprocess.DEVNULL, capture_output=True)
    assert done.returncode == status, (arguments, done.returncode, done.stderr)
    return done.stdout.decode("utf-8"), done.stderr.decode("utf-8")


def export(path, form, *more, status=0):
    return run("export", path, "--format", form, "-o", "-", *more, status=status)[0]


path = os.path.join(work.name, "a<b>&run")
run("simulate", "--schedule", "interleaved", "--stages", "3", "--chunks", "2", "--microbatches", "6", "--steps", "4",
    "--dp", "2", "--tp", "2", "--comm", "0.5ms", "--optimizer", "3ms", "--sync", "--ranks-per-host", "12", "-o", path)

# csv and jsonl say the same of every span
rows = list(csv.DictReader(io.StringIO(export(path, "csv"))))
lines = [json.loads(line) for line in export(path, "jsonl").splitlines()]
spans = [line for line in lines if line["type"] == "span"]
assert len(rows) == len(spans) > 1000, (len(rows), len(spans))
for row, span in zip(rows, spans):
    for key in ("rank", "stage", "start_ns", "duration_ns", "microbatch", "chunk", "peer", "bytes", "sequence"):
        assert row[key] == str(span.get(key, "")), (key, row, span)
    assert row["kind"] == span["kind"] and row["lane"] == span["lane"]
assert len([line for line in lines if line["type"] == "rank"]) == 12
assert len([line for line in lines if line["type"] == "step"]) == 12 * 4

# chrome: the same spans, in microseconds, and on every thread they nest
trace = json.loads(export(path, "chrome"))
events = [event for event in trace["traceEvents"] if event["ph"] == "X" and event["cat"] != "step"]
assert len(events) == len(spans)
zero = min(span["start_ns"] for span in spans)
wanted = sorted((s["rank"], s["start_ns"] - zero, s["duration_ns"], s["kind"]) for s in spans)
got = sorted((e["pid"], round(e["ts"] * 1000), round(e["dur"] * 1000), e["name"].split()[0]) for e in events)
assert wanted == got
assert all(e["args"]["peer"] >= 0 and e["args"]["bytes"] > 0 for e in events if e["cat"] == "p2p")
names = {(e["pid"], e["tid"]) for e in trace["traceEvents"] if e.get("name") == "thread_name"}
threads = {}
for event in events:
    threads.setdefault((event["pid"], event["tid"]), []).append(event)
for thread, own in threads.items():
    assert thread in names, thread
    open_until = []
    for event in sorted(own, key=lambda e: (e["ts"], -e["dur"])):
        end = round((event["ts"] + event["dur"]) * 1000)
        while open_until and open_until[-1] <= round(event["ts"] * 1000):
            open_until.pop()
        assert not open_until or end <= open_until[-1], event
        open_until.append(end)

# steps: only what belongs to them
some = [json.loads(line) for line in export(path, "jsonl", "--steps", "1..2").splitlines()]
steps = {line["step"] for line in some if line["type"] == "step"}
assert steps == {1, 2}, steps
marks = [s for s in lines if s["type"] == "step" and s["step"] in (1, 2)]
ops = {"F", "B", "W", "BW"}
begin, end = min(m["begin_ns"] for m in marks), max(m["end_ns"] for m in marks)
inside = [s for s in spans if s["kind"] in ops and s["start_ns"] >= begin and s["start_ns"] + s["duration_ns"] <= end]
assert len([s for s in some if s["type"] == "span" and s["kind"] in ops]) == len(inside) == 2 * 12 * 6 * 2 * 2

# svg: well formed, a block a compute span, the shares of the bubbles
picture = xml.dom.minidom.parseString(export(path, "svg", "--steps", "3", "--replica", "1"))
texts = [node.firstChild.data for node in picture.getElementsByTagName("text")]
assert texts[0] == "a<b>&run", texts[0]
assert [t for t in texts if t.startswith("stage ")] == ["stage 0", "stage 1", "stage 2"]
assert "step 3" in texts and "forward" in texts and "backward" in texts
blocks = [r for r in picture.getElementsByTagName("rect") if r.getAttribute("height") == "26" and r.getAttribute("width") != "1000"]
assert len(blocks) >= 3 * 6 * 2 * 2, len(blocks)

# what cannot be done is said
for arguments, status, said in (
    (["--format", "png", "-o", "-"], 2, "png"),
    (["--format", "svg"], 2, "-o FILE"),
    (["-o", "-"], 2, "--format"),
    (["--format", "csv", "-o", "-", "--steps", "9..10"], 3, "no ops in those steps"),
    (["--format", "csv", "-o", "-", "--steps", "3..1"], 2, "3..1"),
    (["--format", "svg", "-o", "-", "--replica", "7"], 3, "nothing to draw"),
    (["--format", "csv", "-o", work.name + "/no/such/file"], 3, "no/such/file"),
):
    error = run("export", path, *arguments, status=status)[1]
    assert said in error and error.count("\n") == 1, (arguments, error)
if os.path.exists("/dev/full"):
    error = run("export", path, "--format", "csv", "-o", "/dev/full", status=3)[1]
    assert "/dev/full" in error, error
sys.exit(0)

# json: the spans of a range, and a stage's classes that add up to it, of one replica or of all
first = min(span["start_ns"] for span in spans)
for replica in (None, 0, 1):
    more = () if replica is None else ("--replica", str(replica))
    begin, end = 20_000_000, 90_500_000
    part = json.loads(export(path, "json", "--from", "20ms", "--to", "0.0905s", *more))
    assert part["run"] == "a<b>&run" and part["replica"] == replica
    assert (part["from_ns"] - first, part["to_ns"] - first) == (begin, end)
    ranks = {line["rank"] for line in lines if line["type"] == "rank" and replica in (None, line["replica"])}
    wanted = sorted((s["rank"], s["start_ns"], s["duration_ns"], s["kind"], s["lane"], s.get("microbatch"), s.get("chunk"))
                    for s in spans if s["rank"] in ranks and
                    s["start_ns"] - first < end and s["start_ns"] + s["duration_ns"] - first > begin)
    got = sorted((s["rank"], s["start_ns"], s["dur_ns"], s["kind"], s["lane"], s["microbatch"], s["chunk"])
                 for s in part["spans"])
    assert [str(x) for x in wanted] == [str(x) for x in got]
    assert [stage["stage"] for stage in part["stages"]] == [0, 1, 2]
    for stage in part["stages"]:
        classes = {key: ns for key, ns in stage.items() if key.endswith("_ns") and key != "interval_ns"}
        assert sum(classes.values()) == stage["interval_ns"] == stage["ranks"] * (end - begin)
        assert all(ns >= 0 for ns in classes.values()) and classes["f_ns"] > 0 and classes["fill_ns"] > 0
whole = json.loads(export(path, "json"))
assert len(whole["spans"]) == len(spans)

# the same range of the other formats
part = list(csv.DictReader(io.StringIO(export(path, "csv", "--from", "20ms", "--to", "0.0905s"))))
within = [s for s in spans if s["start_ns"] - first < 90_500_000 and
          s["start_ns"] + s["duration_ns"] - first > 20_000_000]
assert [(int(row["rank"]), int(row["start_ns"])) for row in part] == [(s["rank"], s["start_ns"]) for s in within]
assert export(path, "svg", "--from", "20ms", "--to", "30ms").endswith("</svg>\n")
for wrong in (("--from", "3"), ("--from", "5s", "--to", "2s"), ("--from", "1ms", "--steps", "2"), ("--to", "-1s")):
    run("export", path, "--format", "csv", "-o", "-", *wrong, status=2)
run("export", path, "--format", "json", "-o", "-", "--from", "500s", status=3)
