"""libbubbletop.so through ctypes: where it is, its structs, its functions. See capture/bubbletop.h."""
import ctypes
import os

_NAME = "libbubbletop.so.0"
_int16, _int32, _int64, _pointer = ctypes.c_int16, ctypes.c_int32, ctypes.c_int64, ctypes.c_void_p


class Config(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("directory", ctypes.c_char_p), ("rank", _int32), ("world_size", _int32),
                ("run_id", ctypes.c_char_p), ("flush_ms", ctypes.c_uint32), ("ring_bytes", ctypes.c_uint32),
                ("ring_directory", ctypes.c_char_p), ("segment_bytes", ctypes.c_uint64),
                ("cap_bytes", ctypes.c_uint64), ("steps", ctypes.c_char_p), ("every", ctypes.c_uint32),
                ("close_ms", ctypes.c_uint32), ("write_bytes", ctypes.c_uint32)]


class Where(ctypes.Structure):
    _fields_ = [("microbatch", _int32), ("chunk", _int16), ("lane", _int16), ("microbatch_b", _int32),
                ("chunk_b", _int16), ("reserved", _int16)]


class Comm(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("peer", _int32), ("group", ctypes.c_uint32), ("bytes", _int64),
                ("sequence", _int64)]


class GateOn(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("kind", ctypes.c_int), ("peer", _int32), ("group", ctypes.c_uint32),
                ("sequence", _int64), ("count", _int32)]


class Span(ctypes.Structure):
    _fields_ = [("opaque", ctypes.c_uint64 * 12)]


class CudaSpan(ctypes.Structure):
    _fields_ = [("opaque", ctypes.c_uint64 * 16)]


# bubbletop_source, bubbletop_sight
PLUGIN, ADAPTER = 2, 3
OPS, P2P, COLLECTIVES = range(3)


LAYOUT_SIZES = ("pp_rank", "pp_size", "tp_rank", "tp_size", "dp_rank", "dp_size", "cp_rank", "cp_size", "ep_rank",
                "ep_size", "chunks", "microbatches", "virtual_stages")


class Layout(ctypes.Structure):
    _fields_ = ([("size", ctypes.c_size_t)] + [(name, _int32) for name in LAYOUT_SIZES] +
                [("vstages", ctypes.POINTER(_int32)), ("zero_stage", _int32), ("w_separable", _int32),
                 ("schedule", ctypes.c_char_p)])


class Stats(ctypes.Structure):
    _fields_ = ([("size", ctypes.c_size_t)] +
                [(name, ctypes.c_uint64) for name in ("recorded", "written", "dropped", "double_ends", "unbegun_ends",
                                                      "misuse", "bytes_written", "write_errors")] +
                [("last_errno", _int32), ("recoverable", _int32), ("path", ctypes.c_char * 512)] +
                [(name, ctypes.c_uint64) for name in ("graph_captured", "gpu_unknown")])


def _places():
    """`record` says where; else beside the package, where this tree's installation puts it, and the loader's places."""
    here = os.path.dirname(os.path.abspath(__file__))
    said = os.environ.get("BUBBLETOP_LIBRARY")
    if said:
        return [said]
    return [os.path.join(here, _NAME), os.path.join(here, "..", "..", "..", "..", "lib", _NAME), _NAME]


class Library:
    """The functions. Those of the hot path keep the interpreter's lock: they never wait, and giving it up costs more."""

    def __init__(self):
        problems = []
        for place in _places():
            try:
                quick, slow = ctypes.PyDLL(place), ctypes.CDLL(place)
                break
            except OSError as error:
                problems.append(str(error))
        else:
            raise OSError("%s; BUBBLETOP_LIBRARY can name it" % ", ".join(problems))
        # Without argtypes, arguments are passed as the ctypes objects that they are: half the time of a call.
        for name in ("begin", "comm_begin", "gate_begin", "end", "cuda_begin", "cuda_comm_begin", "cuda_gate_begin",
                     "cuda_launch_begin", "cuda_add", "cuda_end", "cuda_end_after"):
            self._take(quick, name, None)
        session, where = _pointer, Where
        self._take(quick, "complete", None, session, ctypes.c_int, where, _int64, _int64)
        self._take(quick, "comm_complete", None, session, ctypes.c_int, where, ctypes.POINTER(Comm), _int64, _int64)
        self._take(quick, "gate_complete", None, session, where, ctypes.POINTER(GateOn), _int64, _int64)
        self._take(quick, "step_begin", None, session, _int64)
        self._take(quick, "step_end", None, session, _int64)
        self._take(quick, "instant", None, session, ctypes.c_char_p)
        self._take(quick, "counter", None, session, ctypes.c_char_p, ctypes.c_double)
        self._take(quick, "layout_set", ctypes.c_int, session, ctypes.POINTER(Layout))
        self._take(quick, "meta", ctypes.c_int, session, ctypes.c_char_p, ctypes.c_char_p)
        self._take(quick, "group", ctypes.c_uint32, session, ctypes.c_int, ctypes.POINTER(_int32), ctypes.c_size_t)
        self._take(quick, "get_stats", ctypes.c_int, session, ctypes.POINTER(Stats))
        self._take(quick, "see", ctypes.c_int, session, ctypes.c_int, ctypes.c_int)
        self._take(quick, "seen_by", ctypes.c_int, session, ctypes.c_int)
        self._take(quick, "last_error", ctypes.c_char_p)
        self._take(slow, "open", ctypes.c_int, ctypes.POINTER(Config), ctypes.POINTER(_pointer))
        self._take(slow, "flush", ctypes.c_int, session, ctypes.c_uint32)
        self._take(slow, "close", ctypes.c_int, session, ctypes.c_uint32)

    def _take(self, library, name, result, *arguments):
        function = library["bubbletop_" + name]
        function.restype = result
        if arguments:
            function.argtypes = arguments
        setattr(self, name, function)
