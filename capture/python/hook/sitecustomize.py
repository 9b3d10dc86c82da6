"""Python imports this at its start when `bubbletop record` has put its folder on PYTHONPATH. It runs the sitecustomize that
would have been imported otherwise, and has the adapters attach when a framework is imported. Nothing is opened here:
launchers and helpers go through this file too."""
import importlib.machinery
import importlib.util
import os
import sys


def _chain(here):
    """The next sitecustomize on the path, which this one hides."""
    others = [entry for entry in sys.path if os.path.realpath(entry or ".") != here]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", others)
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


def _attach(here):
    if not os.environ.get("BUBBLETOP_DIR"):
        return
    # At the end: a bubbletop that the user has installed comes first.
    sys.path.append(os.path.dirname(here))
    from bubbletop import _attach as attach
    attach.install()


_here = os.path.dirname(os.path.realpath(__file__))
try:
    _attach(_here)
except Exception as error:
    sys.stderr.write("bubbletop: Python frameworks are not captured: %s\n" % error)
_chain(_here)
