"""Model files: exact round trips, and a reason for every file that is refused."""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.numpy import save_file
from sklearn.exceptions import NotFittedError

import sparsid
from sparsid.bayes.posterior import Posterior
from sparsid.data.record import Record
from sparsid.data.scaling import Scaling
from sparsid.errors import FileFormatError, InputError
from sparsid.estimators import NARX
from sparsid.models.narx import Lags
from sparsid.models.network import Network
from sparsid.results import storage
from sparsid.results.channels import Channels
from sparsid.results.forecast import BandFactors
from sparsid.results.narx import Fitted
from sparsid.results.outcome import Outcome
from sparsid.results.storage.parts import SCALES


def made(
    inputs: int = 1,
    outputs: int = 1,
    hidden: tuple[int, ...] = (3,),
    linear_path: bool = False,
    covariance: bool = True,
    evidence: float = 12.25,
    seed: int = 0,
) -> NARX:
    """A fitted model with random numbers in it: no fit is needed to store one."""
    rng = np.random.default_rng(seed)
    lags = Lags(inputs, outputs, 1, 2)
    regressors = lags.table[::2]
    network = Network((len(regressors), *hidden, outputs), "tanh", linear_path)
    count = sum(n * m for n, m in network.shapes)
    root = rng.normal(size=(count, count)) / 100
    start = (len(lags.table), *(7 for _ in hidden), outputs)
    model = NARX(lags=2, hidden=(7,) * len(hidden), noise_std=[0.1] * outputs)
    model.fitted_ = Fitted(
        channels=Channels(
            tuple(f"u {k}" for k in range(inputs)),
            tuple(f"y {k} µ" for k in range(outputs)),
            ("V",) * inputs,
            ("°C",) * outputs,
            0.1,
        ),
        scaling=Scaling(
            rng.normal(size=inputs),
            rng.uniform(1, 2, inputs),
            rng.normal(size=outputs),
            rng.uniform(1, 2, outputs),
        ),
        lags=lags,
        regressors=regressors,
        network=network,
        params=tuple(rng.normal(size=shape) for shape in network.shapes),
        noise=rng.uniform(0.1, 0.2, outputs),
        posterior=Posterior(
            np.abs(root[0]),
            root @ root.T if covariance else None,
            rng.uniform(1, 2, count),
        ),
        start_outputs=rng.normal(size=outputs),
        start_widths=start,
        band_factors=BandFactors((1.25,) * outputs, (0.5,) * outputs),
        weights_kept=5,
        weights_total=Network(start, "tanh", linear_path).weights,
        log_evidence=evidence,
        outcome=Outcome.CYCLES,
        history={"cost": rng.normal(size=4), "kept": np.ones(4)},
        details={
            "notes": ["a gap"],
            "starts": [{"log_evidence": float("nan"), "cost": float("inf")}],
            "chosen_start": np.int64(0),
        },
    )
    return model


def record(model: NARX, samples: int = 12) -> Record:
    rng = np.random.default_rng(1)
    lags = model.fitted_.lags
    u = rng.normal(size=(samples, lags.n_inputs)) if lags.n_inputs else None
    return Record(u, rng.normal(size=(samples, lags.n_outputs)), 0.1)


@settings(max_examples=25, deadline=None)
@given(
    inputs=st.integers(0, 3),
    outputs=st.integers(1, 3),
    hidden=st.lists(st.integers(1, 4), max_size=3),
    linear_path=st.booleans(),
    covariance=st.booleans(),
    seed=st.integers(0, 99),
)
def test_everything_comes_back_exactly(
    tmp_path_factory: pytest.TempPathFactory, hidden: list[int], **kind: Any
) -> None:
    model = made(hidden=tuple(hidden), **kind)
    path = tmp_path_factory.mktemp("model") / "m.sparsid"
    storage.save(model, path)
    loaded = storage.load(path)
    old, new = model.fitted_, loaded.fitted_
    for name in ("channels", "lags", "regressors", "network", "start_widths"):
        assert getattr(new, name) == getattr(old, name)
    for name in ("weights_kept", "weights_total", "log_evidence", "outcome"):
        assert getattr(new, name) == getattr(old, name)
    for a, b in zip(old.params, new.params, strict=True):
        assert np.array_equal(a, b)
    assert np.array_equal(old.noise, new.noise)
    assert np.array_equal(old.start_outputs, new.start_outputs)
    assert np.array_equal(old.posterior.std, new.posterior.std)
    if old.posterior.covariance is None:
        assert new.posterior.covariance is None
    else:
        assert np.array_equal(old.posterior.covariance, new.posterior.covariance)
    for key in SCALES:
        assert np.array_equal(getattr(old.scaling, key), getattr(new.scaling, key))
    assert list(old.history) == list(new.history)
    assert all(np.array_equal(old.history[k], new.history[k]) for k in old.history)
    settings_, given_ = loaded.get_params(), model.get_params()
    assert settings_.pop("noise_std") == tuple(given_.pop("noise_std"))
    assert settings_ == given_


def test_predictions_of_a_loaded_model_are_the_same_bits(tmp_path: Path) -> None:
    model = made(2, 2, (4, 3), linear_path=True)
    model.save(tmp_path / "m.sparsid")
    loaded = sparsid.load(tmp_path / "m.sparsid")
    data = record(model)
    for a, b in (
        (model.predict(data), loaded.predict(data)),
        (model.simulate(data), loaded.simulate(data)),
    ):
        assert a.mean.tobytes() == b.mean.tobytes()
        assert a.std.tobytes() == b.std.tobytes()


def test_values_that_are_not_finite_survive(tmp_path: Path) -> None:
    storage.save(made(evidence=float("nan")), tmp_path / "m.sparsid")
    fitted = storage.load(tmp_path / "m.sparsid").fitted_
    assert np.isnan(fitted.log_evidence)
    start = fitted.details["starts"][0]
    assert np.isnan(start["log_evidence"])
    assert start["cost"] == float("inf")
    assert fitted.details["chosen_start"] == 0


def test_metadata_is_strict_json_and_names_the_version(tmp_path: Path) -> None:
    storage.save(made(evidence=float("nan")), tmp_path / "m.sparsid")
    with safe_open(tmp_path / "m.sparsid", framework="numpy") as file:
        metadata = file.metadata()
    assert metadata["format"] == "sparsid-model"
    assert metadata["sparsid"] == sparsid.__version__
    json.loads(metadata["model"], parse_constant=pytest.fail)


def test_overwriting_is_a_choice_and_nothing_else_is_left(tmp_path: Path) -> None:
    path = tmp_path / "m.sparsid"
    model = made()
    model.save(path)
    model.save(path)
    with pytest.raises(InputError, match="exists"):
        model.save(path, overwrite=False)
    assert [p.name for p in tmp_path.iterdir()] == ["m.sparsid"]


def test_failed_save_keeps_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "m.sparsid"
    made().save(path)
    before = path.read_bytes()

    def fail(*_: Any) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        made(seed=1).save(path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["m.sparsid"]  # noqa: PTH208


def test_places_that_cannot_hold_or_be_a_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is a folder"):
        made().save(tmp_path)
    with pytest.raises(InputError, match="does not exist"):
        made().save(tmp_path / "no" / "m.sparsid")
    with pytest.raises(InputError, match="is a folder"):
        storage.load(tmp_path)
    with pytest.raises(InputError, match="does not exist"):
        storage.load(tmp_path / "no.sparsid")
    with pytest.raises(NotFittedError):
        NARX().save(tmp_path / "m.sparsid")


@pytest.mark.parametrize("content", [b"", b"hello", b"time,u,y\n0,1,2\n" * 50])
def test_other_files_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "m.sparsid"
    path.write_bytes(content)
    with pytest.raises(FileFormatError, match="no sparsid model file"):
        storage.load(path)


def test_foreign_safetensors_file_is_refused(tmp_path: Path) -> None:
    save_file({"a": np.zeros(3)}, tmp_path / "m", metadata={"format": "pt"})
    with pytest.raises(FileFormatError, match="another program"):
        storage.load(tmp_path / "m")
    save_file({"a": np.zeros(3)}, tmp_path / "n")
    with pytest.raises(FileFormatError, match="another program"):
        storage.load(tmp_path / "n")


@settings(max_examples=30, deadline=None)
@given(share=st.floats(0, 0.999))
def test_truncated_file_is_refused(
    tmp_path_factory: pytest.TempPathFactory, share: float
) -> None:
    path = tmp_path_factory.mktemp("model") / "m.sparsid"
    storage.save(made(), path)
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(FileFormatError):
        storage.load(path)


@settings(max_examples=30, deadline=None)
@given(place=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
def test_flipped_bit_is_refused(
    tmp_path_factory: pytest.TempPathFactory, place: float, bit: int
) -> None:
    path = tmp_path_factory.mktemp("model") / "m.sparsid"
    storage.save(made(), path)
    content = bytearray(path.read_bytes())
    # The name of the version that wrote the file is not worth protecting.
    start = content.index(b'"sparsid":')
    at = int(place * len(content))
    if start <= at < start + 30 or content[at] == ord(" "):
        return
    content[at] ^= 1 << bit
    path.write_bytes(content)
    with pytest.raises(FileFormatError):
        storage.load(path)


def rewritten(path: Path, change: Any) -> None:
    """Change metadata or arrays of a file and give it a new, right checksum."""
    with safe_open(path, framework="numpy") as file:
        metadata = file.metadata()
        arrays = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    facts = json.loads(metadata["model"])
    change(metadata, facts, arrays)
    metadata["model"] = json.dumps(facts)
    metadata["checksum"] = storage._checksum(metadata["model"], arrays)
    save_file(arrays, path, metadata=metadata)


CHANGES = {
    "upgrade": lambda meta, facts, arrays: meta.update(schema="2"),
    "schema number": lambda meta, facts, arrays: meta.update(schema="one"),
    "'noise' is missing": lambda meta, facts, arrays: arrays.pop("noise"),
    "'params.layer1' has shape": lambda meta, facts, arrays: arrays.update(
        {"params.layer1": np.zeros((2, 2))}
    ),
    "float32": lambda meta, facts, arrays: arrays.update(
        noise=np.ones(1, dtype=np.float32)
    ),
    "history of 'cost'": lambda meta, facts, arrays: arrays.pop("history.cost"),
    "the model lacks 'lags'": lambda meta, facts, arrays: facts.pop("lags"),
    "activation": lambda meta, facts, arrays: facts["network"].update(
        activation="os.system"
    ),
    "no regressor": lambda meta, facts, arrays: facts["regressors"].__setitem__(
        0, ["u", 0, 99]
    ),
    "channels number": lambda meta, facts, arrays: facts["channels"].update(
        input_names=[], input_units=[]
    ),
    "widths": lambda meta, facts, arrays: facts["network"].update(widths=[9, 3, 1]),
    "unexpected keyword": lambda meta, facts, arrays: facts["settings"].update(evil=1),
    "outcome is 'ENDED', expected one of": lambda meta, facts, arrays: facts.update(
        outcome="ENDED"
    ),
    "must be positive": lambda meta, facts, arrays: arrays.update(
        {"scaling.y_std": np.zeros(1)}
    ),
    # Files with a right checksum that broke later, or took all memory.
    "lags.input_lags is 30000000, expected between 0 and 10000": (
        lambda meta, facts, arrays: facts["lags"].update(input_lags=30_000_000)
    ),
    r"start_widths\[1\] is 200000000": lambda meta, facts, arrays: facts.update(
        start_widths=[4, 200_000_000, 1]
    ),
    "have no .* weights": lambda meta, facts, arrays: facts.update(weights_total=7),
    "dt is 'x', expected a number": lambda meta, facts, arrays: facts[
        "channels"
    ].update(dt="x"),
    "two channels have one name": lambda meta, facts, arrays: facts["channels"].update(
        input_names=["y 0 µ"]
    ),
    "dead end": lambda meta, facts, arrays: arrays.update({"dead end": np.ones(1)}),
    "'params.layer1' holds values beyond": (
        lambda meta, facts, arrays: arrays["params.layer1"].__setitem__(0, np.nan)
    ),
    "not symmetric": lambda meta, facts, arrays: arrays[
        "posterior.covariance"
    ].__setitem__((0, 1), 1e3),
    "differ in length": lambda meta, facts, arrays: arrays.update(
        {"history.kept": np.ones(1)}
    ),
    "details.records is 'many'": lambda meta, facts, arrays: facts["details"].update(
        records="many"
    ),
    r"channels.dt is 1000+\.\.\.": lambda meta, facts, arrays: facts["channels"].update(
        dt=10**4200
    ),
}


@pytest.mark.parametrize("reason", CHANGES)
def test_invalid_content_is_refused_with_the_reason(
    tmp_path: Path, reason: str
) -> None:
    path = tmp_path / "m.sparsid"
    storage.save(made(), path)
    rewritten(path, CHANGES[reason])
    with pytest.raises(FileFormatError, match=reason):
        storage.load(path)


def test_settings_given_as_numpy_numbers_are_stored(tmp_path: Path) -> None:
    model = made()
    model.set_params(hidden=np.array([7]), seed=np.int64(3), strength=np.float64(2))
    storage.save(model, tmp_path / "m.sparsid")
    loaded = storage.load(tmp_path / "m.sparsid")
    assert (loaded.hidden, loaded.seed, loaded.strength) == ((7,), 3, 2.0)


def test_linear_model_without_hidden_layers(tmp_path: Path) -> None:
    model = made(hidden=())
    model.fitted_ = replace(model.fitted_, history={})
    storage.save(model, tmp_path / "m.sparsid")
    data = record(model)
    loaded = storage.load(tmp_path / "m.sparsid")
    assert np.array_equal(
        loaded.predict(data).mean, model.predict(data).mean, equal_nan=True
    )
