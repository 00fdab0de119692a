"""When to believe a model: residuals, range, stability, what the evidence keeps."""

from sparsid.validation.diagnosis import Diagnosis, diagnose
from sparsid.validation.relevance import alternatives, relevance, weights_table
from sparsid.validation.residuals import Correlation, residual_tests
from sparsid.validation.stability import Stability, stability
from sparsid.validation.valid_range import OperatingRange, operating_range

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
