"""Model structures: what maps regressors to outputs, without data."""
