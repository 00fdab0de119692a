"""Studies: many fits, kept trial by trial, and what they show.

A *trial* is one small piece of work described by a plain dictionary (its *spec*) and
answered by another. A study plans specs, the runner works them off in processes, the
store keeps every answer, and the report reads the store.
"""
