"""What a fit leaves: forecasts, fitted models, their summary and their files."""
