"""The accounting a second time, by brute force, from the definitions in DESIGN's section 6.

Nothing is shared with the program: captures are read with Python's msgpack by FORMAT.md's rules, producers and messages
are found by looking at everything, and every stretch between two neighbouring boundaries is classified on its own.
Slow on purpose. Whole steps on one clock only.
"""
import glob
import importlib.util
import os
from collections import defaultdict

F, B, W, BW, FB, RECOMPUTE, OPTIMIZER, OTHER = 1, 2, 3, 4, 5, 6, 7, 8
SEND_F, RECV_F, SEND_B, RECV_B, GATE = 16, 17, 18, 19, 32
PIPELINE = {F, B, W, BW, FB, RECOMPUTE}
COMPUTE = PIPELINE | {OPTIMIZER, OTHER}
COLLECTIVES = {24, 25, 26, 27, 28}
TP, CP, EP, PP, WORLD = 2, 3, 4, 5, 6
KEY = {F: "f_ns", B: "b_ns", W: "w_ns", BW: "bw_ns", FB: "fb_ns", RECOMPUTE: "recompute_ns", OTHER: "other_ns",
       OPTIMIZER: "optimizer_ns"}


def load_reader():
    path = os.path.join(os.environ["top_srcdir"], "tests/wire/test_format.py")
    spec = importlib.util.spec_from_file_location("test_format", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.read_stream


class Rank:
    def __init__(self, header, records):
        layout = header["layout"]
        self.rank = header["rank"]
        self.layout = layout
        self.stage = layout.get("pp_rank", self.rank)
        self.replica = layout.get("dp_rank", 0)
        self.member = (layout.get("tp_rank", 0), layout.get("cp_rank", 0))
        self.groups = {r["group"]: (r["domain"], tuple(members(r["runs"]))) for r in records if r["code"] == 68}
        spans = sorted((r for r in records if r["code"] < 64), key=lambda r: (r["start"], -r["duration"]))
        for r in spans:
            r["end"] = r["start"] + r["duration"]
            r["on"] = self
        self.ops = [r for r in spans if r["code"] in COMPUTE]
        self.p2p = [r for r in spans if SEND_F <= r["code"] <= RECV_B]
        self.collectives = [r for r in spans if r["code"] in COLLECTIVES]
        self.gates = [r for r in spans if r["code"] == GATE]
        self.begins = [(r["start"], r["step"]) for r in records if r["code"] == 64]
        self.ends = {r["step"]: r["start"] for r in records if r["code"] == 65}
        for c in self.collectives:
            c["group_key"] = self.groups.get(c["group"])
            c["domain"] = c["group_key"][0] if c["group_key"] else 0

    def vstage(self, chunk):
        if chunk < 0:
            chunk = 0
        given = self.layout.get("vstage") or []
        if chunk < len(given) and given[chunk] >= 0:
            return given[chunk]
        return chunk * self.layout.get("pp_size", 1) + self.stage


def members(runs):
    flat = []
    for at in range(0, len(runs), 3) if runs and isinstance(runs[0], int) else []:
        flat += [runs[at] + runs[at + 1] * k for k in range(runs[at + 2])]
    for run in runs if runs and not isinstance(runs[0], int) else []:
        flat += [run[0] + run[1] * k for k in range(run[2])]
    return flat


def halves(op):
    """(forward?, chunk, microbatch) of an op."""
    result = []
    if op["code"] in (F, FB):
        result.append((True, op["chunk"], op["microbatch"]))
    if op["code"] in (B, BW):
        result.append((False, op["chunk"], op["microbatch"]))
    if op["code"] == FB:
        result.append((False, op["chunk_b"], op["microbatch_b"]))
    return result


class Run:
    def __init__(self, directory):
        read_stream = load_reader()
        self.ranks = []
        for path in sorted(glob.glob(os.path.join(directory, "rank-*.msgpack"))):
            with open(path, "rb") as file:
                header, *records = read_stream(file.read())
            self.ranks.append(Rank(header, records))
        self.ranks.sort(key=lambda r: r.rank)
        self.by_rank = {r.rank: r for r in self.ranks}
        self.virtual = max(r.vstage(chunk) + 1 for r in self.ranks for op in r.ops if op["code"] in PIPELINE
                           for _, chunk, _ in halves(op) or [(0, op["chunk"], 0)])
        self.virtual = max([self.virtual] + [r.layout.get("virtual_stages", -1) for r in self.ranks])
        self.assign_steps()
        self.match_messages()
        self.find_arrivals()
        self.find_waits()

    # --- steps

    def assign_steps(self):
        marked = all(r.begins for r in self.ranks if r.ops)
        for r in self.ranks:
            seen, step = set(), -1
            for op in r.ops:
                if marked:
                    before = [s for t, s in r.begins if t <= op["start"]]
                    op["step_of"] = before[-1] if before else None
                    continue
                keys = halves(op) + ([("w", op["chunk"], op["microbatch"])] if op["code"] == W else [])
                if op["code"] in PIPELINE and (step < 0 or any(k in seen for k in keys)):
                    seen, step = set(), step + 1
                seen.update(keys)
                op["step_of"] = step if step >= 0 else None
        self.steps = sorted({op["step_of"] for r in self.ranks for op in r.ops if op["step_of"] is not None})
        self.windows = {}
        for r in self.ranks:
            for op in r.ops:
                if op["code"] not in PIPELINE or op["step_of"] is None:
                    continue
                key = (r.replica, op["step_of"])
                low, high = self.windows.get(key, (op["start"], op["end"]))
                self.windows[key] = (min(low, op["start"]), max(high, op["end"]))
        self.start = min(low for low, _ in self.windows.values())
        last = self.steps[-1]
        if marked:
            end = max(r.ends[last] for r in self.ranks)
        else:
            end = 0
            for r in self.ranks:
                first = min(op["start"] for op in r.ops if op["step_of"] == last)
                end = max([end] + [op["end"] for op in r.ops if op["step_of"] == last] +
                          [c["end"] for c in r.collectives if c["start"] >= first])
        self.end = max([end] + [high for _, high in self.windows.values()])

    def parts(self, replica):
        """The union of the windows: sorted, disjoint."""
        joined = []
        for low, high in sorted(w for (owner, _), w in self.windows.items() if owner == replica):
            if joined and low <= joined[-1][1]:
                joined[-1][1] = max(joined[-1][1], high)
            else:
                joined.append([low, high])
        return joined

    # --- messages

    def match_messages(self):
        sends, receives = defaultdict(list), defaultdict(list)
        for r in self.ranks:
            for m in r.p2p:
                m["match"], m["t"] = None, None
                out = m["code"] in (SEND_F, SEND_B)
                pair = (r.rank, m["peer"]) if out else (m["peer"], r.rank)
                forward = m["code"] in (SEND_F, RECV_F)
                if m["sequence"] >= 0:
                    key = pair + (r.groups.get(m["group"]), m["sequence"])
                else:
                    target = r.vstage(m["chunk"]) + ((1 if forward else -1) if out else 0)
                    key = pair + (forward, target, m["microbatch"])
                (sends if out else receives)[key].append(m)
        for key, found in receives.items():
            for out, into in zip(sends[key], found) if len(sends[key]) == len(found) else []:
                out["match"], into["match"] = into, out
        fastest = {}
        for (a, b, *_), found in receives.items():
            for into in found:
                if into["match"] is None:
                    continue
                out = into["match"]
                size = into["bytes"] if into["bytes"] >= 0 else out["bytes"]
                begin = max(into["start"], out["start"])
                both = min(into["end"], out["end"]) - begin
                sample = (0, both) if both >= 0 else (1, max(0, into["end"] - begin))
                into["link"] = (a, b, size)
                fastest[a, b, size] = min(fastest.get((a, b, size), sample), sample)
        for found in receives.values():
            for into in found:
                if into["match"] is not None:
                    into["t"] = into["match"]["t"] = fastest[into["link"]][1]

    def find_arrivals(self):
        calls = defaultdict(list)
        for r in self.ranks:
            for c in r.collectives:
                c["arrived"] = None
                if c["group_key"]:
                    calls[c["group_key"], c["sequence"]].append(c)
        for (group, _), parts in calls.items():
            if len(parts) == len(group[1]):
                for c in parts:
                    c["arrived"] = max(p["start"] for p in parts)

    # --- waits

    def producer(self, r, op, forward, chunk, microbatch, receive):
        """None: none needed. "missing", or the op."""
        at = r.vstage(chunk)
        if at == (0 if forward else self.virtual - 1):
            return None
        wanted = at + (-1 if forward else 1)
        best = None
        for other in self.ranks:
            if other.replica != r.replica:
                continue
            for x in other.ops:
                if x["step_of"] != op["step_of"]:
                    continue
                for f, c, mb in halves(x):
                    if f != forward or mb != microbatch or other.vstage(c) != wanted:
                        continue
                    sender = receive is not None and receive["match"] is not None and receive["peer"] == other.rank
                    fit = (sender, other.member == r.member, c == chunk, other is r, x["end"])
                    if best is None or fit > best[0]:
                        best = (fit, x)
        return "missing" if best is None else best[1]

    def receive_of(self, r, op, forward, chunk, microbatch):
        same = [x["start"] for x in r.ops if x is not op and x["start"] < op["start"] and
                any(f == forward and r.vstage(c) == r.vstage(chunk) and mb == microbatch for f, c, mb in halves(x))]
        code = RECV_F if forward else RECV_B
        fitting = [m for m in r.p2p if m["code"] == code and m["microbatch"] == microbatch and
                   r.vstage(m["chunk"]) == r.vstage(chunk) and m["start"] <= op["start"] and
                   (not same or m["start"] > max(same))]
        return fitting[-1] if fitting else None

    def find_waits(self):
        for r in self.ranks:
            for op in r.ops:
                op.update(e=None, r=None, known=True, sends=None, gathers=None)
                for forward, chunk, microbatch in halves(op):
                    receive = self.receive_of(r, op, forward, chunk, microbatch)
                    x = self.producer(r, op, forward, chunk, microbatch, receive)
                    if x is None or (x != "missing" and x["on"] is r):
                        continue
                    assert x != "missing"
                    op["e"] = max(op["e"] if op["e"] is not None else x["end"], x["end"])
                    if receive is None:
                        op["known"] = False
                    else:
                        ready = receive["end"]
                        if receive["t"] is not None:
                            begin = max(receive["start"], receive["match"]["start"], x["end"])
                            ready = min(ready, begin + receive["t"])
                        op["r"] = max(op["r"] if op["r"] is not None else ready, ready)
            held = {}
            for g in r.gates:
                if any(op["start"] < g["start"] < op["end"] for op in r.ops):
                    continue
                following = [op for op in r.ops if op["code"] in PIPELINE and op["start"] >= g["start"]]
                if not following:
                    continue
                op = following[0]
                if g["kind"] in (RECV_F, RECV_B):
                    held[id(op)] = max(held.get(id(op), g["end"]), g["end"])
                    op["r"], op["known"] = held[id(op)], True
                elif g["kind"] in (SEND_F, SEND_B):
                    op["sends"] = max(op["sends"] or g["end"], g["end"])
                elif g["kind"] in COLLECTIVES:
                    op["gathers"] = max(op["gathers"] or g["end"], g["end"])

    # --- classes

    @staticmethod
    def latest(spans, x):
        """Of the spans active at x, the one that began last (of equal starts the shorter, then the later)."""
        active = [s for s in spans if s["start"] <= x < s["end"]]
        return max(enumerate(active), key=lambda i: (i[1]["start"], -i[1]["duration"], i[0]))[1] if active else None

    @staticmethod
    def of_collective(c, x):
        if c["arrived"] is None:
            return "unattributed_ns"
        return "collective_wait_ns" if x < c["arrived"] else "exposed_collective_ns"

    def class_at(self, r, x, parts):
        op = self.latest(r.ops, x)
        collective = self.latest(r.collectives, x)
        if op is not None:
            lanes = op["lane"], collective["lane"] if collective else -1
            own = collective is not None and op["code"] != FB
            own = own and (lanes[0] == lanes[1] if min(lanes) >= 0 else collective["domain"] in (TP, CP, EP))
            return self.of_collective(collective, x) if own else KEY[op["code"]]
        part = next((p for p in parts if p[0] <= x < p[1]), None)
        if part is None:
            return self.of_collective(collective, x) if collective else "between_steps_ns"
        following = [o for o in r.ops if o["code"] in PIPELINE and x < o["start"] < part[1]]
        if not following:
            return "tail_sync_ns" if collective and collective["domain"] in (PP, WORLD) else "drain_ns"
        return self.gap_class(r, x, part, following[0], collective)

    def gap_class(self, r, x, part, n, collective):
        begin = max([part[0]] + [o["end"] for o in r.ops if o["end"] <= x])
        gap_end = min(o["start"] for o in r.ops if o["start"] > x)
        if n["e"] is not None and x < n["e"]:
            step = [o for o in r.ops if o["step_of"] == n["step_of"] and o["code"] in PIPELINE]
            backward = [o["start"] for o in step if o["code"] in (B, BW, FB)]
            forward = [o["end"] for o in step if o["code"] in (F, FB)]
            if n["start"] <= (min(backward) if backward else min(o["start"] for o in step)):
                return "fill_ns"
            return "drain_ns" if forward and begin >= max(forward) else "steady_wait_ns"
        if not n["known"]:
            return "unattributed_ns"
        if n["r"] is not None and x < n["r"]:
            return "exposed_p2p_ns"
        if r.gates:
            if collective and n["gathers"] is not None and x < n["gathers"]:
                return self.of_collective(collective, x)
            return "late_receiver_ns" if n["sends"] is not None and x < n["sends"] else "host_gap_ns"
        if collective and collective["end"] <= gap_end:
            return self.of_collective(collective, x)
        send = self.latest([m for m in r.p2p if m["code"] in (SEND_F, SEND_B)], x)
        return "late_receiver_ns" if send and send["end"] <= gap_end else "host_gap_ns"

    def boundaries(self, r, parts):
        points = {self.start, self.end}
        for s in r.ops + r.p2p + r.collectives + r.gates:
            points |= {s["start"], s["end"]}
        for c in r.collectives:
            points.add(c["arrived"])
        for op in r.ops:
            points |= {op["e"], op["r"], op["sends"], op["gathers"]}
        for low, high in parts:
            points |= {low, high}
        return sorted(p for p in points if p is not None and self.start <= p <= self.end)

    def account(self):
        """{stage: {key: ns}}, with window_ns, busy_ns and hidden_in_bubble_ns; and the rates."""
        stages = defaultdict(lambda: defaultdict(int))
        for r in self.ranks:
            parts = self.parts(r.replica)
            sums = stages[r.stage]
            points = self.boundaries(r, parts)
            for x, y in zip(points, points[1:]):
                name = self.class_at(r, x, parts)
                sums[name] += y - x
                collective = self.latest(r.collectives, x)
                hides = collective is not None and collective["domain"] not in (PP, WORLD)
                if hides and name in ("fill_ns", "drain_ns", "steady_wait_ns", "tail_sync_ns"):
                    sums["hidden_in_bubble_ns"] += y - x
                if any(p[0] <= x < p[1] for p in parts):
                    sums["window_ns"] += y - x
                    sums["busy_ns"] += y - x if name in KEY.values() else 0
            sums["interval_ns"] += self.end - self.start
        return stages

    def rates(self, stages):
        busy = sum(s["busy_ns"] for s in stages.values())
        window = sum(s["window_ns"] for s in stages.values())
        most, longest = 0, 0
        for step in self.steps:
            spans, busies = [], []
            for r in self.ranks:
                own = [o for o in r.ops if o["step_of"] == step and o["code"] in PIPELINE]
                low, high = min(o["start"] for o in own), max(o["end"] for o in own)
                parts = [[low, high]]
                points = [p for p in self.boundaries(r, parts) if low <= p <= high]
                spans.append(high - low)
                busies.append(sum(y - x for x, y in zip(points, points[1:])
                                  if self.class_at(r, x, parts) in KEY.values()))
            most += max(busies)
            longest += max(spans)
        return 1 - busy / window, 1 - most / longest

    def links(self):
        """{(from stage, to stage): [messages, bytes, wait, transfer]}; None: not known."""
        found = defaultdict(lambda: [0, 0, 0, 0])
        for r in self.ranks:
            for m in r.p2p:
                inside = m["end"] > self.start and m["start"] < self.end
                if m["code"] not in (RECV_F, RECV_B) or m["peer"] not in self.by_rank or not inside:
                    continue
                link = found[self.by_rank[m["peer"]].stage, r.stage]
                moving = None if m["t"] is None else min(m["t"], m["duration"])
                values = [1, m["bytes"] if m["bytes"] >= 0 else None,
                          None if moving is None else m["duration"] - moving, moving]
                for i, value in enumerate(values):
                    link[i] = None if link[i] is None or value is None else link[i] + value
        return found
