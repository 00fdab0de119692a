"""sparsid: compact neural models of dynamic systems by sparse Bayesian learning."""

from sparsid import datasets as datasets
from sparsid.errors import FileFormatError as FileFormatError
from sparsid.errors import InputError as InputError
from sparsid.estimators import NARX as NARX
from sparsid.fitted import Fitted as Fitted
from sparsid.fitted import Forecast as Forecast
from sparsid.identification import Progress as Progress
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

__version__ = "0.1.0"
