"""Are the bands honest? The public names of :mod:`sparsid.validation.calibration`."""

from sparsid.validation.calibration import Calibration, calibration, recalibrate

__all__ = ["Calibration", "calibration", "recalibrate"]
