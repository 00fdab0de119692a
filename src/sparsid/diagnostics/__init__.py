"""When to believe a model: residuals, range, stability, what the evidence keeps."""

from sparsid.diagnostics.diagnosis import Diagnosis, diagnose
from sparsid.diagnostics.ranges import OperatingRange, operating_range
from sparsid.diagnostics.residuals import Correlation, residual_tests
from sparsid.diagnostics.runs import Stability, stability
from sparsid.diagnostics.weights import alternatives, relevance, weights_table

__all__ = [
    "Correlation",
    "Diagnosis",
    "OperatingRange",
    "Stability",
    "alternatives",
    "diagnose",
    "operating_range",
    "relevance",
    "residual_tests",
    "stability",
    "weights_table",
]
