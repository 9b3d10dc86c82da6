"""Random runs: every rank does all ops of whole steps in some order, at times that mostly respect what depends on what,
with gaps, overlaps, gates, collectives and messages of all sorts. Written by FORMAT.md's rules."""
import os
import struct

import msgpack

F, B, W, BW, FB, RECOMPUTE, OPTIMIZER, OTHER = 1, 2, 3, 4, 5, 6, 7, 8


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def sealed(head, payload):
    """An object: its array head and elements before the crc, the crc, the payload's bin."""
    bin_payload = msgpack.packb(payload, use_bin_type=True)
    return head + b"\xce" + struct.pack(">I", crc32c(head + b"\xce" + bin_payload)) + bin_payload


class Stream:
    def __init__(self, rank, world, layout):
        self.marker = struct.pack(">Q", 0x1234567800000000 + rank)
        info = {"rank": rank, "world_size": world, "layout": layout, "host": "node", "boot_id": "boot", "time_ns": 1,
                "run_id": "random", "life": 0, "segment": 0, "mono": 0, "real": 0}
        head = b"\x95" + msgpack.packb("bubbletop") + msgpack.packb(1) + msgpack.packb(self.marker, use_bin_type=True)
        self.data = sealed(head, msgpack.packb(info))
        self.numbers = [0, 0]

    def add(self, ring, code, start, *elements):
        """One record in a block of its own, so that no default depends on another."""
        duration = elements[0] if code < 64 or code == 83 else 0  # 83: dropped
        payload = msgpack.packb([code, start] + list(elements))
        head = b"\x98" + msgpack.packb(self.marker, use_bin_type=True)
        for value in (ring, self.numbers[ring], 1, start, start + duration):
            head += msgpack.packb(value)
        self.numbers[ring] += 1
        self.data += sealed(head, payload)


def orders(rng, chunks, microbatches):
    """The ops of one rank and step: (kind, chunk, microbatch), each after what it needs on its own rank."""
    split = rng.random() < 0.5
    waiting = [(F, c, m) for c in range(chunks) for m in range(microbatches)]
    rng.shuffle(waiting)
    ready, order = [], []
    while waiting or ready:
        if waiting and (not ready or rng.random() < 0.6):
            op = waiting.pop()
            ready.append((B if split else BW,) + op[1:])
        else:
            op = ready.pop(rng.randrange(len(ready)))
            if op[0] == B:
                ready.append((W,) + op[1:])
        order.append(op)
    return order


def some(rng, most):
    return rng.choice([0, 0, 1, 2, rng.randrange(most)])


class Maker:
    def __init__(self, directory, rng):
        self.rng = rng
        self.stages, self.chunks = rng.randint(1, 4), rng.randint(1, 2)
        self.replicas, self.microbatches = rng.choice([1, 1, 2]), rng.randint(1, 4)
        self.steps, self.marked, self.gated = rng.randint(1, 3), rng.random() < 0.5, rng.random() < 0.5
        self.numbered = rng.random() < 0.6
        self.lossy = self.numbered and rng.random() < 0.5  # without numbers, what is left cannot be told apart
        self.causal = rng.random() < 0.8
        self.overlap = rng.random() < 0.3
        world = self.stages * self.replicas
        self.streams = []
        for rank in range(world):
            layout = {"pp_rank": self.stage(rank), "pp_size": self.stages, "dp_rank": rank % self.replicas,
                      "dp_size": self.replicas, "chunks": self.chunks, "virtual_stages": self.stages * self.chunks}
            self.streams.append(Stream(rank, world, layout))
        self.sequences = {}
        self.clock = [rng.randrange(1000, 1100) for _ in range(world)]
        self.busy_from = [None] * world
        self.spans = [[] for _ in range(world)]

    def stage(self, rank):
        return rank // self.replicas

    def sequence(self, key):
        self.sequences[key] = self.sequences.get(key, -1) + 1
        return self.sequences[key] if self.numbered else -1

    def span(self, rank, code, start, duration, *rest):
        self.spans[rank].append((start + duration, code, start, duration) + rest)

    def neighbour(self, rank, chunk, forward):
        """Rank of the producer's virtual stage, None: none is needed."""
        v = chunk * self.stages + self.stage(rank) + (-1 if forward else 1)
        if v < 0 or v >= self.stages * self.chunks:
            return None
        return v % self.stages * self.replicas + rank % self.replicas, v // self.stages

    def message(self, rank, op, sender, end):
        """The message for an op, sent when its producer ended; returns when it was there."""
        forward = op[0] == F
        source, chunk = sender
        send = end + some(self.rng, 8)
        took = self.rng.choice([2, 2, 3, 9])
        size = self.rng.choice([100, 100, 200, -1])
        post = self.rng.choice([send, send - self.rng.randrange(20), send + some(self.rng, 9)])
        # a receive lies between the end of the last op of its key and this op: keep it within the step
        post = max(post, self.step_floor[rank])
        arrival = max(send, post) + took
        sent = self.rng.choice([arrival, arrival, send + 1])
        number = self.sequence(("p2p", source, rank))
        if not (self.lossy and self.rng.random() < 0.2):
            self.span(source, 16 if forward else 18, send, sent - send, op[2], number, chunk, rank, size)
        self.span(rank, 17 if forward else 19, post, arrival - post, op[2], number, op[1], source, size)
        return arrival, post

    def run_op(self, rank, op, ends):
        rng = self.rng
        sender = self.neighbour(rank, op[1], op[0] == F) if op[0] in (F, B, BW) else None
        start = self.clock[rank] + some(rng, 25)
        if sender is not None and sender[0] != rank:
            end = ends[op[0] == F, sender, op[2]]
            arrival, post = self.message(rank, op, sender, end)
            free = self.clock[rank]
            if self.causal:
                start = max(start, arrival + some(rng, 6))
            start = max(start, post)
            if self.gated and arrival > free and start >= arrival:
                kind = 17 if op[0] == F else 19
                self.span(rank, 32, free, arrival - free, op[2], kind, -1, op[1], sender[0])
        if self.gated and rng.random() < 0.1 and start - self.clock[rank] > 4:
            kind = rng.choice([16, 24])
            self.span(rank, 32, start - 4, rng.randint(0, 4), op[2], kind, -1, op[1], -1)
        duration = rng.randint(1, 30)
        self.span(rank, op[0], start, duration, op[2], op[1])
        if duration > 4 and rng.random() < 0.2:
            inner = rng.choice([OTHER, RECOMPUTE])
            length = rng.randint(1, duration) + (5 if self.overlap else 0)
            self.span(rank, inner, start + rng.randrange(duration), length if inner == OTHER else 1, -1, op[1])
        self.clock[rank] = start + duration
        if rng.random() < 0.1:
            self.span(rank, OTHER, self.clock[rank] + rng.randrange(4), 3, -1, 0)
            self.clock[rank] += 7
        return start + duration

    def collectives(self, low, high):
        rng = self.rng
        for _ in range(rng.randrange(5)):
            group = rng.randint(1, 4)
            ranks = self.group_members(group)
            arrive = [rng.randrange(low, high) for _ in ranks]
            end = max(arrive) + rng.randint(0, 9)
            number = self.sequence_of_group(group)
            for rank, at in zip(ranks, arrive):
                if self.lossy and rng.random() < 0.1:
                    continue
                self.span(rank, rng.choice([24, 26]), at, end - at, -1, number, -1, -1, 10, group)

    def sequence_of_group(self, group):
        self.sequences[group] = self.sequences.get(group, -1) + 1
        return self.sequences[group]

    def group_members(self, group):
        return [0] if group == 2 else list(range(len(self.streams)))

    def step(self, number):
        world = len(self.streams)
        queues = [orders(self.rng, self.chunks, self.microbatches) for _ in range(world)]
        begin = [self.clock[r] for r in range(world)]
        self.step_floor = list(begin)
        ends = {}
        done = True
        while done and any(queues):  # a rank's next op runs when its producer has; stuck orders are mended by rotation
            done = False
            for rank in range(world):
                while queues[rank]:
                    op = queues[rank][0]
                    sender = self.neighbour(rank, op[1], op[0] == F) if op[0] in (F, B, BW) else None
                    own = op[0] == F or (op[0] != W, (rank, op[1]), op[2]) in ends
                    if sender is not None and (op[0] == F, sender, op[2]) not in ends or not own:
                        break
                    end = self.run_op(rank, queues[rank].pop(0), ends)
                    if op[0] in (F, B, BW):
                        ends[op[0] == F, (rank, op[1]), op[2]] = end
                    done = True
            if not done and any(queues):
                for queue in queues:
                    if queue:
                        queue.append(queue.pop(0))
                done = True
        if self.rng.random() < 0.5:
            for rank in range(world):
                self.span(rank, OPTIMIZER, self.clock[rank] + 1, 5, -1, 0)
                self.clock[rank] += 6
        self.collectives(min(begin), max(self.clock))
        if self.marked:
            for rank in range(world):
                after = max([self.clock[rank]] + [s[0] for s in self.spans[rank] if s[1] in (OTHER, RECOMPUTE)])
                self.clock[rank] = after + some(self.rng, 5)
                self.streams[rank].add(1, 64, begin[rank], number)
                self.streams[rank].add(1, 65, self.clock[rank], number)
        if self.rng.random() < 0.5:
            self.clock = [max(self.clock) + self.rng.randrange(9)] * world
        else:
            self.clock = [c + self.rng.randrange(9) for c in self.clock]

    def make(self):
        world = len(self.streams)
        for rank, stream in enumerate(self.streams):
            for group, domain in ((1, 1), (2, 2), (3, 5), (4, 6)):
                ranks = self.group_members(group)
                if rank in ranks:
                    stream.add(1, 68, 0, group, domain, ranks.index(rank), len(ranks), [ranks[0], 1, len(ranks)])
        for number in range(self.steps):
            self.step(number)
        for rank in range(world):
            for span in sorted(self.spans[rank], key=lambda s: s[0]):
                self.write_span(rank, span)

    def write_span(self, rank, span):
        _, code, start, duration, microbatch, *rest = span
        stream = self.streams[rank]
        if 16 <= code <= 28:
            stream.add(1, code, start, duration, microbatch, rest[0], *rest[1:])
        elif code == 32:
            stream.add(1, code, start, duration, microbatch, rest[0], rest[1], *rest[2:])
        else:
            stream.add(1, code, start, duration, microbatch, *rest)


def write(directory, rng):
    os.mkdir(directory)
    maker = Maker(directory, rng)
    maker.make()
    for rank, stream in enumerate(maker.streams):
        with open(os.path.join(directory, "rank-%05d.0.0.msgpack" % rank), "wb") as file:
            file.write(stream.data)
