"""Figures from print, for the tables that set ours beside them."""

from __future__ import annotations

# What the figures below were measured on.
DATASET = "cascaded-tanks"

RATIOS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)

# The paper's table of weights kept, in per cent, by ratio of the estimation record.
KEPT_GROUP_LASSO = (
    46.36, 3.27, 2.23, 2.78, 1.94, 3.04, 3.91, 3.18, 10.98, 51.26, 9.78,
)  # fmt: skip
KEPT_SPARSE_BAYES = (
    61.52, 2.01, 2.95, 3.42, 2.14, 2.71, 2.79, 2.30, 2.50, 9.79, 2.23,
)  # fmt: skip

# Best one-step error on the test record, at 70 % of the estimation record, in volts.
BEST_ONE_STEP = 0.0472
# Best free run on the test record.
BEST_SIMULATION = 0.344

# Free-run errors on the test record of Cascaded Tanks, in volts.
SIMULATION = {
    "NOMAD (Brunot et al. 2017)": 0.376,
    "PWARX (Mattsson et al. 2018)": 0.350,
    "Volterra feedback (Schoukens 2016)": 0.397,
    "polynomial feedback (Schoukens 2016)": 0.487,
    "LTI (Schoukens 2016)": 0.588,
    "the paper's network without regularisation, best of 20": 0.777,
    "the paper's network without regularisation, mean of 20 (std 1.638)": 2.063,
    "the paper's sparse Bayesian network, best on the test record": BEST_SIMULATION,
}
