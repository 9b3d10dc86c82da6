"""What an adapter does for a model on a GPU, on a machine without: it takes the times of a stream, of the double of the CUDA
driver (tests/capture/cuda_double.c). The model stays on the CPU."""
import ctypes
import os


def install():
    from bubbletop import _distributed
    double = ctypes.CDLL(os.path.join(os.environ["top_builddir"], "tests", "capture", "double", "libcuda.so.1"))
    new_stream = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int).in_dll(double, "cuda_double_control")
    stream = new_stream(1)
    _distributed.compute_on = lambda device: None
    _distributed.stream = lambda: stream
