"""When to believe a model: scores, baselines, calibration, diagnosis."""
