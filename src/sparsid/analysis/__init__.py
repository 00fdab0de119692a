"""Linear tools: steady states, linearisation, comparison of models."""
