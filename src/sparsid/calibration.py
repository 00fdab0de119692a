"""Are the bands honest? The public names of calibration."""

from sparsid.estimators.recalibration import recalibrate
from sparsid.validation.calibration import Calibration, calibration

__all__ = ["Calibration", "calibration", "recalibrate"]
