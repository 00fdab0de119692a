"""Fitted models for other places: NumPy, C, FMU, CasADi, ONNX, Structured Text.

`table` describes any fitted model as scaled step maps, `program` reduces that to a few
operations, each writer turns those into its own language, and `package` puts the files
into a folder with test vectors and a check.
"""
