#!/usr/bin/env python3
"""Reads a stream by FORMAT.md alone, with Python's msgpack, and compares every field with what the writer says it wrote.

Also decodes the worked example of FORMAT.md. Exits 77 (skipped) where no Python here has the msgpack module.
"""
import io
import json
import os
import subprocess
import sys
import tempfile

try:
    import msgpack
except ImportError:
    other = "/usr/bin/python3"
    if os.path.exists(other) and os.path.realpath(sys.executable) != os.path.realpath(other):
        os.execv(other, [other] + sys.argv)
    print("no msgpack module")
    sys.exit(77)

F, B, W, BW, FB = 1, 2, 3, 4, 5
COMM = {16, 17, 18, 19, 20, 21, 24, 25, 26, 27, 28}
GATE = 32
SPANS = {1, 2, 3, 4, 5, 6, 7, 8, 40, GATE} | COMM

DEFAULTS = dict(flags=0, lane=-1, chunk=-1, chunk_b=-1, microbatch=-1, microbatch_b=-1, duration=0, tokens=-1, peer=-1,
                group=0, bytes=-1, sequence=-1, kind=0, count=0, step=0, real=0, value=0, n=0, of_ring=0, domain=0,
                own_rank=-1, runs=[], text="")

# Elements of a record from the third on: (field, default); "=" in front of a field: the default is what the previous
# record of the same code in the block said, and what is given here is for the first one.
COMPUTE = [("duration", 0), ("microbatch", -1), ("=chunk", 0), ("=flags", 0), ("=lane", -1), ("=tokens", -1)]
TABLE = {
    FB: [("duration", 0), ("microbatch", -1), ("microbatch_b", -1), ("=chunk", 0), ("=chunk_b", 0), ("=flags", 0),
         ("=lane", -1), ("=tokens", -1)],
    GATE: [("duration", 0), ("microbatch", -1), ("kind", 0), ("+sequence", 0), ("=chunk", 0), ("=peer", -1), ("=count", 1),
           ("=group", 0), ("=flags", 0), ("=lane", -1)],
    64: [("step", 0)],
    65: [("step", 0)],
    66: [("text", ""), ("microbatch", -1), ("chunk", -1)],
    67: [("text", ""), ("value", 0)],
    68: [("group", 0), ("domain", 0), ("own_rank", -1), ("count", 0), ("runs", []), ("n", 0)],
    69: [("map", {})],
    80: [("real", 0)],
    81: [("real", 0), ("n", 0)],
    82: [("duration", 0), ("kind", 0), ("of_ring", 0), ("microbatch", -1), ("chunk", -1), ("peer", -1), ("sequence", -1),
         ("group", 0), ("lane", -1), ("flags", 0), ("bytes", -1)],
    83: [("duration", 0), ("n", 0), ("of_ring", 0)],
    84: [("n", 0)],
    85: [("text", "")],
}
for code in COMM:
    TABLE[code] = [("duration", 0), ("microbatch", -1), ("+sequence", 0), ("=chunk", 0), ("=peer", -1), ("=bytes", -1),
                   ("=group", 0), ("=flags", 0), ("=lane", -1)]
for code in SPANS - COMM - {FB, GATE}:
    TABLE[code] = COMPUTE


def wrap(number):
    """Arithmetic of 64 bits, two's complement."""
    return (number + 2**63) % 2**64 - 2**63


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = CRC_TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


def crc_entry(byte):
    for _ in range(8):
        byte = (byte >> 1) ^ (0x82F63B78 if byte & 1 else 0)
    return byte


CRC_TABLE = [crc_entry(byte) for byte in range(256)]


def check_crc(raw, payload, stored):
    """The crc stands in the four bytes before the payload's bin, and covers all other bytes."""
    head = 2 if len(payload) < 256 else 3 if len(payload) < 65536 else 5
    at = len(raw) - len(payload) - head - 4
    assert raw[at - 1] == 0xCE and int.from_bytes(raw[at:at + 4], "big") == stored
    assert crc32c(raw[:at] + raw[at + 4:]) == stored


def objects(data):
    unpacker = msgpack.Unpacker(io.BytesIO(data), raw=False, strict_map_key=False, max_bin_len=65536)
    begin = 0
    for item in unpacker:
        yield item, data[begin:unpacker.tell()]
        begin = unpacker.tell()


def records(block):
    _, ring, first, count, low, high, _, payload = block
    previous, previous_end, number = {}, 0, first
    for item, _ in objects(payload):
        record = dict(DEFAULTS, ring=ring, number=number, code=item[0])
        number += 1
        if record["code"] == GATE:
            record["count"] = 1
        start = wrap(previous_end + (item[1] if len(item) > 1 and item[1] is not None else 0))
        record["start"] = start
        elements = TABLE.get(item[0])
        if elements is None:
            duration = item[2] if 0 < item[0] < 64 and len(item) > 2 else 0
            previous_end = wrap(start + duration)
            continue
        read(record, item[2:], elements, previous)
        assert low <= start and start + record["duration"] <= high
        previous_end = start + record["duration"] if item[0] < 64 else start
        yield record
    assert number - first == count


def read(record, values, elements, previous):
    given = {}
    for place, (field, default) in enumerate(elements):
        value = values[place] if place < len(values) else None
        given[field] = default if value is None else value
        if field == "kind":
            record["kind"] = given[field]
    key = (record["code"], record["kind"] if record["code"] == GATE else 0)
    last = previous.setdefault(key, {"+sequence": -1})
    for place, (field, default) in enumerate(elements):
        missing = place >= len(values) or values[place] is None
        if field[0] == "=":
            record[field[1:]] = last[field] = last.get(field, default) if missing else given[field]
        elif field == "+sequence":
            record["sequence"] = last[field] = wrap(last[field] + 1 + given[field])
        else:
            record[field] = given[field]


def read_stream(data):
    """The header's map, then every record."""
    marker = None
    for item, raw in objects(data):
        if item[0] == "bubbletop":
            name, version, marker, crc, payload = item
            assert version == 1 and len(marker) == 8
            check_crc(raw, payload, crc)
            yield msgpack.unpackb(payload, raw=False)
        else:
            assert item[0] == marker and len(item) == 8
            check_crc(raw, item[7], item[6])
            yield from records(item)


def compare_header(got, wanted):
    layout = got.pop("layout")
    for key in ("pp_rank", "pp_size", "dp_rank", "schedule", "vstage"):
        assert layout.get(key, -1) == wanted.pop(key), key
    for key, value in wanted.items():
        assert got.get(key, 0) == value, (key, got.get(key), value)


def compare(got, wanted):
    if "map" in wanted:
        wanted["map"] = msgpack.unpackb(bytes.fromhex(wanted["map"]), raw=False)
        wanted["text"] = ""
    if got != wanted:
        different = [key for key in wanted if got.get(key) != wanted[key]]
        raise SystemExit("record %s differs in %s:\n got    %s\n wanted %s" % (wanted["number"], different, got, wanted))


def test_sample(build):
    with tempfile.TemporaryDirectory() as directory:
        stream, fields = os.path.join(directory, "stream"), os.path.join(directory, "fields")
        subprocess.run([os.path.join(build, "tests/wire/write_sample"), stream, fields], check=True)
        with open(stream, "rb") as file:
            read_back = read_stream(file.read())
        with open(fields, encoding="ascii") as file:
            lines = [json.loads(line) for line in file]
        compare_header(next(read_back), lines[0])
        got = {(record["ring"], record["number"]): record for record in read_back}
        assert len(got) == len(lines) - 1, (len(got), len(lines) - 1)
        for line in lines[1:]:
            compare(got[line["ring"], line["number"]], line)
        codes = {record["code"] for record in got.values()}
        assert codes == set(TABLE), codes ^ set(TABLE)
        print("%d records of %d kinds read back, field by field" % (len(got), len(codes)))


def test_example(source):
    """The hex lines of FORMAT.md's example, and the list of records under them."""
    with open(os.path.join(source, "formats/FORMAT.md"), encoding="utf-8") as file:
        text = file.read()
    blocks = text.split("<!-- example -->")[1].split("```")
    data = bytes.fromhex("".join(line.split("  ")[0].strip() for line in blocks[1].strip().splitlines()))
    header, *found = read_stream(data)
    assert header["rank"] == 3 and header["layout"] == {"pp_rank": 3, "pp_size": 4}, header
    wanted = [tuple(int(word) for word in line.split()) for line in blocks[3].strip().splitlines()[1:]]
    assert len(wanted) >= 4
    assert wanted == [tuple(r[k] for k in ("number", "code", "start", "duration", "microbatch", "flags", "peer", "sequence"))
                      for r in found], found
    print("FORMAT.md's example: %d records" % len(found))


if __name__ == "__main__":
    test_sample(os.environ.get("top_builddir", "."))
    test_example(os.environ.get("top_srcdir", "."))
