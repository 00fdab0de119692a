"""sparsid: compact neural models of dynamic systems by sparse Bayesian learning.

The names below are loaded when they are first used, so that ``import sparsid`` and
``sparsid --help`` do not wait for the numerical libraries.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sparsid import datasets as datasets
    from sparsid import plots as plots
    from sparsid import signals as signals
    from sparsid.analysis.comparison import Comparison as Comparison
    from sparsid.analysis.comparison import compare as compare
    from sparsid.analysis.linearisation import Linearisation as Linearisation
    from sparsid.analysis.static_curve import StaticCurve as StaticCurve
    from sparsid.analysis.steady_state import SteadyState as SteadyState
    from sparsid.automatic import identify as identify
    from sparsid.data.block_split import BlockSplit as BlockSplit
    from sparsid.data.files import read as read
    from sparsid.data.files import read_csv as read_csv
    from sparsid.data.files import read_mat as read_mat
    from sparsid.data.files import read_npz as read_npz
    from sparsid.data.record import Record as Record
    from sparsid.errors import FileFormatError as FileFormatError
    from sparsid.errors import InputError as InputError
    from sparsid.estimators import NARX as NARX
    from sparsid.estimators import Simulator as Simulator
    from sparsid.estimators import StateSpace as StateSpace
    from sparsid.estimators.recalibration import recalibrate as recalibrate
    from sparsid.progress import Progress as Progress
    from sparsid.results.forecast import Forecast as Forecast
    from sparsid.results.narx import Fitted as Fitted
    from sparsid.results.outcome import Outcome as Outcome
    from sparsid.results.storage import load as load
    from sparsid.validation.diagnosis import diagnose as diagnose
    from sparsid.validation.scores import fit_percent as fit_percent
    from sparsid.validation.scores import r2 as r2
    from sparsid.validation.scores import rmse as rmse

    __version__: str

# Where each public name lives; a module stands for itself. A test compares this with
# the imports above.
_HOMES = {
    "datasets": "sparsid.datasets",
    "plots": "sparsid.plots",
    "signals": "sparsid.signals",
    "identify": "sparsid.automatic",
    "Comparison": "sparsid.analysis.comparison",
    "compare": "sparsid.analysis.comparison",
    "Linearisation": "sparsid.analysis.linearisation",
    "StaticCurve": "sparsid.analysis.static_curve",
    "SteadyState": "sparsid.analysis.steady_state",
    "recalibrate": "sparsid.estimators.recalibration",
    "diagnose": "sparsid.validation.diagnosis",
    "FileFormatError": "sparsid.errors",
    "InputError": "sparsid.errors",
    "NARX": "sparsid.estimators",
    "Simulator": "sparsid.estimators",
    "StateSpace": "sparsid.estimators",
    "Fitted": "sparsid.results.narx",
    "Forecast": "sparsid.results.forecast",
    "Progress": "sparsid.progress",
    "Outcome": "sparsid.results.outcome",
    "read": "sparsid.data.files",
    "read_csv": "sparsid.data.files",
    "read_mat": "sparsid.data.files",
    "read_npz": "sparsid.data.files",
    "Record": "sparsid.data.record",
    "fit_percent": "sparsid.validation.scores",
    "r2": "sparsid.validation.scores",
    "rmse": "sparsid.validation.scores",
    "BlockSplit": "sparsid.data.block_split",
    "load": "sparsid.results.storage",
}


def __getattr__(name: str) -> Any:
    """Return a public name, loading its module the first time."""
    if name == "__version__":
        # Its one home is pyproject.toml.
        value: Any = import_module("importlib.metadata").version("sparsid")
    elif name in _HOMES:
        module = import_module(_HOMES[name])
        value = module if _HOMES[name] == f"sparsid.{name}" else getattr(module, name)
    else:
        raise AttributeError(f"module 'sparsid' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return all public names, loaded or not."""
    return sorted({*globals(), *_HOMES, "__version__"})
