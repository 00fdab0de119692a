"""sparsid: compact neural models of dynamic systems by sparse Bayesian learning.

The names below are loaded when they are first used, so that ``import sparsid`` and
``sparsid --help`` do not wait for the numerical libraries.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sparsid import datasets as datasets
    from sparsid import plots as plots
    from sparsid.automatic import identify as identify
    from sparsid.calibration import recalibrate as recalibrate
    from sparsid.diagnostics import diagnose as diagnose
    from sparsid.errors import FileFormatError as FileFormatError
    from sparsid.errors import InputError as InputError
    from sparsid.estimators import NARX as NARX
    from sparsid.estimators import StateSpace as StateSpace
    from sparsid.fitted import Fitted as Fitted
    from sparsid.forecasts import Forecast as Forecast
    from sparsid.history import Progress as Progress
    from sparsid.outcomes import Outcome as Outcome
    from sparsid.reading import read as read
    from sparsid.reading import read_csv as read_csv
    from sparsid.reading import read_mat as read_mat
    from sparsid.reading import read_npz as read_npz
    from sparsid.records import Record as Record
    from sparsid.scores import fit_percent as fit_percent
    from sparsid.scores import r2 as r2
    from sparsid.scores import rmse as rmse
    from sparsid.splitting import BlockSplit as BlockSplit
    from sparsid.storage import load as load

    __version__: str

# Where each public name lives; a module stands for itself. A test compares this with
# the imports above.
_HOMES = {
    "datasets": "sparsid.datasets",
    "plots": "sparsid.plots",
    "identify": "sparsid.automatic",
    "recalibrate": "sparsid.calibration",
    "diagnose": "sparsid.diagnostics",
    "FileFormatError": "sparsid.errors",
    "InputError": "sparsid.errors",
    "NARX": "sparsid.estimators",
    "StateSpace": "sparsid.estimators",
    "Fitted": "sparsid.fitted",
    "Forecast": "sparsid.forecasts",
    "Progress": "sparsid.history",
    "Outcome": "sparsid.outcomes",
    "read": "sparsid.reading",
    "read_csv": "sparsid.reading",
    "read_mat": "sparsid.reading",
    "read_npz": "sparsid.reading",
    "Record": "sparsid.records",
    "fit_percent": "sparsid.scores",
    "r2": "sparsid.scores",
    "rmse": "sparsid.scores",
    "BlockSplit": "sparsid.splitting",
    "load": "sparsid.storage",
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
