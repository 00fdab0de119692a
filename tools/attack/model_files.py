"""Hostile model files: ``sparsid.load`` refuses them, or gives a model that predicts.

Half of them are changed byte by byte; the others have a right checksum over wrong
content: JSON and arrays of the wrong type, length, sign or size.
"""

from __future__ import annotations

import hashlib
import json
import random
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from attack.forks import Found, forked, judged

REFUSED, PREDICTS = 2, 0
PATIENCE = 240.0
# Values that stand where others should.
NASTY: list[Any] = [
    None, True, False, -1, 0, 1, 2, 7, 2**31, 2**63, 30_000_000, 200_000_000, 10**400,
    -0.5, 0.1, 1e-300, 1e200, 1e308, "", "x", "NARX", "tanh", "auto", "\x00", "9" * 999,
    [], [0], [[]], [1, 2], [None], ["a", "b"], {}, {"float": "nan"}, {"float": "inf"},
    {"float": "x"}, {"float": None}, {"a": 1}, [{}], "é", "$\\foo$", [1e308, 1e308],
]  # fmt: skip
ARRAYS = ("nan", "inf", "huge", "tiny", "zero", "negative", "one", "shuffled")
SHAPES = ("empty", "longer", "shorter", "flat", "column", "scalar", "turned")
TYPES = ("<f4", "<i8", "|u1", "|b1", "<f2")


def bases(folder: Path, kinds: list[str]) -> list[Path]:
    """Write a model of every kind, or of some; return the files."""
    from sparsid import NARX, Record, Simulator, StateSpace

    rng = np.random.default_rng(3)
    u, y = rng.normal(size=(160, 2)), np.zeros((160, 1))
    for t in range(1, 160):
        y[t] = 0.7 * y[t - 1] + np.tanh(u[t - 1, 0]) + 0.3 * u[t - 1, 1]
    record = Record(u, y + 0.01 * rng.normal(size=y.shape), 0.5)
    models = {
        "linear": Simulator("linear", states=2),
        "neurons": Simulator("linear first", states=2, neurons=3, budget=3.0),
        "narx": NARX(lags=2, hidden=(3,), max_cycles=4),
        "run": NARX(lags=1, hidden=(3,), max_cycles=4, objective="simulation"),
        "windows": NARX(lags=1, hidden=(3,), max_cycles=4, objective="windows"),
        "states": StateSpace(hidden=(2,), starts=2, max_cycles=3),
    }
    for name in kinds or models:
        models[name].fit(record).save(folder / f"{name}.sparsid")
    return sorted(folder.glob("*.sparsid"))


def mutated(data: bytes, rng: random.Random) -> bytes:
    """Return a model file with something wrong in it."""
    if rng.random() < 0.35:
        return changed_bytes(data, rng)
    from safetensors.numpy import load

    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    metadata, arrays = header["__metadata__"], dict(load(data))
    facts = json.loads(metadata["model"])
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        if rng.random() < 0.55:
            facts = _wrong_json(facts, rng)
        else:
            _wrong_array(arrays, rng)
    if rng.random() < 0.05:
        key = rng.choice(list(metadata))
        metadata[key] = rng.choice(("", "2", "-1", "x", "9" * 400, "sparsid-model"))
        if key == "model":
            return _packed(metadata, metadata["model"], arrays)
    try:
        text = json.dumps(facts)
    except (ValueError, RecursionError):
        text = "[" * 100_000
    if rng.random() < 0.02:
        text = rng.choice(("null", "[]", "[" * 100_000, '{"kind": 1}', text[:-1]))
    return _packed(metadata, text, arrays)


def changed_bytes(data: bytes, rng: random.Random) -> bytes:
    """Return bytes with some of them flipped, cut, doubled or replaced."""
    body = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 8))):
        at = rng.randrange(len(body) + 1) if rng.random() < 0.5 else 0
        at = min(at or rng.randrange(min(len(body), 3000) + 1), len(body))
        size = rng.choice((1, 1, 2, 8, 64, 4096))
        way = rng.randrange(5)
        if way == 0 and at < len(body):
            body[at] ^= 1 << rng.randrange(8)
        elif way == 1:
            del body[at : at + size]
        elif way == 2:
            body[at:at] = rng.randbytes(size)
        elif way == 3:
            body[at:at] = body[at : at + size]
        else:
            del body[at:]
    return bytes(body)


def _packed(metadata: dict[str, str], text: str, arrays: dict[str, Any]) -> bytes:
    """Return a file whose checksum is right."""
    from safetensors.numpy import save

    digest = hashlib.sha256(text.encode())
    for key in sorted(arrays):
        digest.update(f"{key} {arrays[key].shape}".encode())
        digest.update(arrays[key].tobytes())
    own = {**metadata, "model": text, "checksum": digest.hexdigest()}
    return save({k: np.array(v, order="C") for k, v in arrays.items()}, own)


def _wrong_json(facts: Any, rng: random.Random) -> Any:
    """Return JSON with one value replaced, left out or added, at some depth."""
    if isinstance(facts, dict) and facts and rng.random() < 0.93:
        key = rng.choice(list(facts))
        way = rng.random()
        if way < 0.07:
            return {k: v for k, v in facts.items() if k != key}
        if way < 0.1:
            return {**facts, f"{key}x": rng.choice(NASTY)}
        return {**facts, key: _wrong_json(facts[key], rng)}
    if isinstance(facts, list) and facts and rng.random() < 0.8:
        at = rng.randrange(len(facts))
        way = rng.random()
        if way < 0.1:
            return facts[:at] + facts[at + 1 :]
        if way < 0.2:
            return [*facts, facts[at]]
        return [*facts[:at], _wrong_json(facts[at], rng), *facts[at + 1 :]]
    if isinstance(facts, int | float) and rng.random() < 0.3:
        return rng.choice((-facts, facts + 1, facts - 1, facts * 1e6, facts / 2))
    return rng.choice(NASTY)


def _wrong_array(arrays: dict[str, Any], rng: random.Random) -> None:
    """Change one array for the worse."""
    key = rng.choice(sorted(arrays))
    values, way = arrays[key].copy(), rng.random()
    if way < 0.08:
        del arrays[key]
    elif way < 0.11:
        arrays[f"{key}x"] = values
    elif way < 0.2:
        arrays[key] = values.astype(rng.choice(TYPES))
    elif way < 0.5:
        arrays[key] = _shaped(values, rng.choice(SHAPES))
    else:
        arrays[key] = _valued(values, rng.choice(ARRAYS), rng)


def _shaped(values: Any, how: str) -> Any:
    flat = values.ravel()
    if how in ("empty", "scalar"):
        return flat[:0] if how == "empty" or not flat.size else flat[0].reshape(())
    if how in ("longer", "shorter"):
        first = np.atleast_1d(values)
        return np.concatenate([first, first]) if how == "longer" else first[:-1]
    return {"flat": flat, "column": flat[:, None], "turned": values.T}[how]


def _valued(values: Any, how: str, rng: random.Random) -> Any:
    wrong = {"nan": np.nan, "inf": np.inf, "huge": 1e300, "tiny": 1e-300, "zero": 0.0}
    if how == "negative":
        return -values
    if how == "shuffled":
        return values.ravel()[::-1].reshape(values.shape)
    if not values.size:
        return values
    if how == "one" or rng.random() < 0.5:
        at = rng.randrange(values.size)
        values.ravel()[at] = rng.choice(list(wrong.values()))
        return values
    return np.full_like(values, wrong[how])


# -- a case --------------------------------------------------------------------------


def use(path: Path) -> int:
    """Load a file and use the model in every way; raise if it does not serve."""
    import warnings

    import sparsid
    from sparsid.errors import FileFormatError, InputError
    from sparsid.results.summary import result_dict

    try:
        model = sparsid.load(path)
    except FileFormatError as error:
        print(error)
        return REFUSED
    warnings.simplefilter("ignore")
    channels = model.fitted_.channels
    rng = np.random.default_rng(0)
    u = rng.normal(size=(80, channels.n_inputs)) if channels.n_inputs else None
    record = sparsid.Record(
        u,
        rng.normal(size=(80, channels.n_outputs)),
        channels.dt,
        input_names=channels.input_names,
        output_names=channels.output_names,
        input_units=channels.input_units,
        output_units=channels.output_units,
    )
    uses: list[Callable[[], Any]] = [
        lambda: model.predict(record),
        lambda: model.predict(record, horizon=3),
        lambda: model.simulate(record, samples=4),
        lambda: model.simulate(record.u, samples=0) if channels.n_inputs else None,
    ]
    for how in uses:
        try:
            forecast = how()
        except InputError as error:
            # Fair of a model with a long memory.
            if "longer record" not in str(error):
                raise
            continue
        if forecast is not None and forecast.diverged_at is None:
            mean = forecast.mean[forecast.start :]
            if np.isinf(mean).any() or not np.isfinite(mean).any():
                raise ValueError("a forecast without a number in it, and no word of it")
    json.dumps(result_dict(model.fitted_), allow_nan=False)
    model.summary()
    return PREDICTS


def case(files: list[bytes], seed: int, number: int) -> Found:
    """Try the file of a number."""
    rng = random.Random(f"model {seed} {number}")
    kind = number % len(files)
    found = Found(f"model file {seed}/{number}")
    room = Path(tempfile.mkdtemp(prefix="attack-"))
    try:
        path = room / "m.sparsid"
        path.write_bytes(mutated(files[kind], rng))
        ended = forked(lambda: use(path), room, patience=PATIENCE)
        judged(found, ended, (PREDICTS, REFUSED))
        names = {PREDICTS: "predicts", REFUSED: "refused"}
        found.ended = names.get(ended.code, "failed")
        left = sorted(p.name for p in room.iterdir())
        if left != ["m.sparsid", "stderr", "stdout"]:
            found.blame("leftover", ", ".join(left))
    finally:
        shutil.rmtree(room, ignore_errors=True)
    return found
