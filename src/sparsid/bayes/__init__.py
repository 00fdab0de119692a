"""Sections 3 and 4 of the paper: priors, noise, curvature, cost, posterior."""
