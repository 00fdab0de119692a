"""The estimators that users meet: fit, predict, simulate, summary, save."""

from sparsid.estimators.base import DIVERGED_SCORE as DIVERGED_SCORE
from sparsid.estimators.base import Estimator as Estimator
from sparsid.estimators.narx import NARX as NARX
from sparsid.estimators.simulator import Simulator as Simulator
from sparsid.estimators.state_space import StateSpace as StateSpace

Model = NARX | StateSpace | Simulator
