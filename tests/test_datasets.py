import hashlib
import io
import logging
import os
import socket
import zipfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.io import savemat

from sparsid import datasets
from sparsid.data.record import Record
from sparsid.datasets import DatasetUnavailable, cascaded_tanks, simulated_tanks
from sparsid.datasets.benchmark import Benchmark, FinishedModel
from sparsid.datasets.simulated_tanks import Physics, simulate
from sparsid.errors import FileFormatError, InputError
from sparsid.parallel.cache import cache_folder

DATA = os.environ.get("SPARSID_DATA")
needs_data = pytest.mark.skipif(not DATA, reason="SPARSID_DATA is not set")


class Persistence:
    """Repeats the last output it knows; peeks at nothing."""

    max_lag_ = 3

    def simulate(self, u):
        if not isinstance(u, Record):
            return SimpleNamespace(mean=np.zeros((len(u), 1)), start=0)
        mean = np.full(u.y.shape, u.y[self.max_lag_ - 1])
        mean[: self.max_lag_] = np.nan
        return SimpleNamespace(mean=mean, start=self.max_lag_)

    def predict(self, record):
        mean = np.roll(record.y, 1, axis=0)
        mean[: self.max_lag_] = np.nan
        return SimpleNamespace(mean=mean, start=self.max_lag_)


@pytest.fixture
def benchmark() -> Benchmark:
    y = np.random.default_rng(0).normal(size=(2, 200))
    estimation, test = (Record(np.arange(200.0), values) for values in y)
    return Benchmark("b", "B", estimation, "simulated", test)


def rms(error) -> float:
    return np.sqrt(np.mean(np.square(error)))


def test_protocol_a_uses_no_output(benchmark: Benchmark) -> None:
    y = benchmark.reveal_test().y
    score = benchmark.score(Persistence())
    np.testing.assert_allclose(score.rmse, rms(y))
    assert (score.protocol, score.first, score.samples) == ("A", 0, 200)
    assert score.rmse_paper is None


def test_protocol_b_starts_from_the_first_outputs(benchmark: Benchmark) -> None:
    y = benchmark.reveal_test().y
    score = benchmark.score(Persistence(), "B")
    np.testing.assert_allclose(score.rmse, rms(y[3:] - y[2]))
    squares = np.sum((y[3:] - y[2]) ** 2)
    np.testing.assert_allclose(score.rmse_paper, np.sqrt(squares / 200))
    assert (score.first, score.samples) == (3, 197)


def test_protocol_c_starts_before_sample_50(benchmark: Benchmark) -> None:
    y = benchmark.reveal_test().y
    score = benchmark.score(Persistence(), "C")
    np.testing.assert_allclose(score.rmse, rms(y[50:] - y[49]))
    assert (score.first, score.samples) == (50, 150)


def test_one_step(benchmark: Benchmark) -> None:
    y = benchmark.reveal_test().y
    score = benchmark.score(Persistence(), "one-step")
    np.testing.assert_allclose(score.rmse, rms(np.diff(y[2:], axis=0)))
    assert (score.first, score.samples) == (3, 197)


@pytest.mark.parametrize("protocol", ["B", "C"])
def test_a_model_without_lags_runs_from_inputs(benchmark, protocol) -> None:
    model = Persistence()
    model.max_lag_ = 0
    first = {"B": 0, "C": 50}[protocol]
    score = benchmark.score(model, protocol)
    np.testing.assert_allclose(score.rmse, rms(benchmark.reveal_test().y[first:]))


@pytest.mark.parametrize("protocol", ["B", "C"])
def test_a_free_run_cannot_see_later_outputs(benchmark, protocol) -> None:
    class Cheat(Persistence):
        def simulate(self, u):
            return SimpleNamespace(mean=u.y, start=self.max_lag_)

    honest = benchmark.score(Persistence(), protocol)
    np.testing.assert_array_equal(benchmark.score(Cheat(), protocol).rmse, honest.rmse)


def test_a_diverged_run_scores_infinity(benchmark: Benchmark) -> None:
    class Diverged(Persistence):
        def simulate(self, u):
            forecast = super().simulate(u)
            forecast.mean[-1] = np.nan
            return forecast

    for protocol in ("A", "B", "C"):
        assert np.isinf(benchmark.score(Diverged(), protocol).rmse).all()
    assert np.isinf(benchmark.score(Diverged(), "B").rmse_paper).all()


def test_scores_that_cannot_be_had(benchmark: Benchmark) -> None:
    model = Persistence()
    with pytest.raises(InputError, match="must be one of A, B, C, window, one-step"):
        benchmark.score(model, "D")
    model.max_lag_ = 51
    with pytest.raises(InputError, match="C starts a run of lag 51 at sample 50"):
        benchmark.score(model, "C")
    model.max_lag_ = 200
    with pytest.raises(InputError, match="B starts a run of lag 200 at sample 200"):
        benchmark.score(model, "B")

    class Late(Persistence):
        def simulate(self, u):
            return SimpleNamespace(mean=np.zeros((len(u), 1)), start=2)

    with pytest.raises(InputError, match="the forecast starts 2 samples later"):
        benchmark.score(Late())

    class Short(Persistence):
        def simulate(self, u):
            return SimpleNamespace(mean=np.zeros((5, 1)), start=0)

    with pytest.raises(InputError, match=r"shape \(5, 1\) for outputs of shape"):
        benchmark.score(Short())


def test_the_test_record_is_not_handed_out_by_accident(benchmark: Benchmark) -> None:
    assert isinstance(Persistence(), FinishedModel)
    assert not hasattr(benchmark, "test")
    assert "_test" not in repr(benchmark)
    np.testing.assert_array_equal(benchmark.test_inputs, benchmark.reveal_test().u)


@needs_data
def test_recorded_tanks() -> None:
    benchmark = datasets.load("cascaded-tanks", offline=True)
    record = benchmark.estimation
    assert (benchmark.source, benchmark.name) == ("local copy", "cascaded-tanks")
    assert (len(record), record.dt) == (1024, 4.0)
    assert record.input_names + record.output_names == ("voltage", "level")
    assert record.input_units == record.output_units == ("V",)
    assert record.y[0, 0] == pytest.approx(5.20500496, abs=1e-8)
    assert int((record.y >= 10).sum()) == 47
    test = benchmark.reveal_test()
    assert test.y[0, 0] == pytest.approx(4.973, abs=1e-3)
    # Persistence is known to miss by 0.102 V.
    assert benchmark.score(Persistence(), "one-step").rmse == pytest.approx(0.102, 0.01)


@needs_data
def test_recorded_tanks_as_text(tmp_path: Path, monkeypatch) -> None:
    full = cascaded_tanks.load(offline=True).estimation
    found = next(p for p in Path(DATA or "").rglob("dataBenchmark.csv"))
    (tmp_path / found.name).write_bytes(found.read_bytes())
    monkeypatch.setenv("SPARSID_DATA", str(tmp_path))
    rounded = cascaded_tanks.load(offline=True).estimation
    np.testing.assert_allclose(rounded.y, full.y, rtol=1e-4)


@pytest.fixture
def archive(tmp_path: Path, monkeypatch) -> Path:
    """Return an archive like the real one, and make it the one expected."""
    rng = np.random.default_rng(0)
    file = io.BytesIO()
    savemat(file, {k: rng.random((9, 1)) for k in ("uEst", "uVal", "yEst", "yVal")})
    path = tmp_path / "served.zip"
    with zipfile.ZipFile(path, "w") as content:
        content.writestr("folder/dataBenchmark.mat", file.getvalue())
        content.writestr("folder/readme.txt", "fake")
    hashes = {
        cascaded_tanks.ARCHIVE: path.read_bytes(),
        "dataBenchmark.mat": file.getvalue(),
        "dataBenchmark.csv": b"",
    }
    for name, content in hashes.items():
        digest = hashlib.sha256(content).hexdigest()
        monkeypatch.setitem(cascaded_tanks.SHA256, name, digest)
    monkeypatch.delenv("SPARSID_DATA", raising=False)
    monkeypatch.setattr(cascaded_tanks, "URL", path.as_uri())
    monkeypatch.setenv("SPARSID_CACHE", str(tmp_path / "cache"))
    return path


def test_download_then_cache(archive: Path, capfd, caplog) -> None:
    first = cascaded_tanks.load()
    assert first.source == "download"
    archive.unlink()
    second = cascaded_tanks.load(offline=True)
    assert second.source == "cache"
    np.testing.assert_array_equal(first.estimation.y, second.estimation.y)
    assert capfd.readouterr() == ("", "")
    assert "pooch" not in {record.name for record in caplog.records}


def test_the_benchmark_ignored_the_cache_folder_of_the_user(
    archive: Path, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setenv("SPARSID_CACHE", str(tmp_path / "mine"))
    cascaded_tanks.load()
    assert (tmp_path / "mine" / cascaded_tanks.ARCHIVE).is_file()
    monkeypatch.delenv("SPARSID_CACHE")
    monkeypatch.setattr("pooch.os_cache", lambda name: tmp_path / "usual" / name)
    assert cache_folder() == tmp_path / "usual" / "sparsid"


def test_a_damaged_cache_is_fetched_again(archive: Path, tmp_path: Path) -> None:
    cascaded_tanks.load()
    cached = tmp_path / "cache" / cascaded_tanks.ARCHIVE
    cached.write_bytes(b"half a file")
    with pytest.raises(DatasetUnavailable, match="is damaged; download: not tried"):
        cascaded_tanks.load(offline=True)
    assert cascaded_tanks.load().source == "download"
    assert cascaded_tanks.load().source == "cache"


def test_a_download_with_wrong_hash_is_refused(archive: Path, tmp_path: Path) -> None:
    archive.write_bytes(b"something else")
    with pytest.raises(DatasetUnavailable, match=r"download: .*SHA256 hash"):
        cascaded_tanks.load()
    assert not list((tmp_path / "cache").iterdir())


def test_an_archive_without_data_is_refused(archive: Path, monkeypatch) -> None:
    monkeypatch.setitem(cascaded_tanks.SHA256, "dataBenchmark.mat", "0" * 64)
    with pytest.raises(FileFormatError, match=r"holds no dataBenchmark.mat or"):
        cascaded_tanks.load()


def test_every_place_tried_is_named(archive: Path, tmp_path, monkeypatch) -> None:
    archive.unlink()
    with pytest.raises(DatasetUnavailable) as caught:
        cascaded_tanks.load()
    for place in ("SPARSID_DATA is not set", "cache: no ", "download: "):
        assert place in str(caught.value)
    monkeypatch.setenv("SPARSID_DATA", str(tmp_path))
    with pytest.raises(DatasetUnavailable, match=f"no dataBenchmark.* in {tmp_path}"):
        cascaded_tanks.load(offline=True)


@pytest.mark.parametrize("talks", [False, True])
def test_a_slow_server_does_not_hang(archive: Path, monkeypatch, talks) -> None:
    if talks:
        # Every packet is in time, the whole is not.
        monkeypatch.setattr(cascaded_tanks, "DOWNLOAD_LIMIT", -1.0)
        with pytest.raises(DatasetUnavailable, match="no answer within"):
            cascaded_tanks.load()
        return
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        monkeypatch.setattr(cascaded_tanks, "URL", f"http://127.0.0.1:{port}/f.zip")
        monkeypatch.setattr(cascaded_tanks, "SOCKET_LIMIT", 0.05)
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        with pytest.raises(DatasetUnavailable, match=r"download: .*timed out"):
            cascaded_tanks.load()


def test_a_foreign_local_file_is_refused(archive: Path, tmp_path, monkeypatch) -> None:
    folder = tmp_path / "data" / "cascaded_tanks"
    folder.mkdir(parents=True)
    path = folder / "dataBenchmark.mat"
    path.write_bytes(b"other")
    monkeypatch.setenv("SPARSID_DATA", str(tmp_path / "data"))
    found = hashlib.sha256(b"other").hexdigest()
    expected = cascaded_tanks.SHA256["dataBenchmark.mat"]
    message = f"{path} is not .* its sha256 is {found}, expected {expected}"
    with pytest.raises(InputError, match=message):
        cascaded_tanks.load()


def test_default_falls_back_and_says_why(archive: Path, caplog) -> None:
    assert datasets.default().source == "download"
    (archive.parent / "cache" / cascaded_tanks.ARCHIVE).unlink()
    with caplog.at_level(logging.WARNING, "sparsid"):
        fallback = datasets.default(offline=True)
    assert (fallback.source, fallback.name) == ("simulated", "simulated-tanks")
    assert "Simulated" in fallback.title
    assert "SPARSID_DATA is not set" in caplog.text


def test_load_by_name() -> None:
    one, two = datasets.load("simulated_tanks", seed=1), simulate(1).benchmark
    np.testing.assert_array_equal(one.estimation.y, two.estimation.y)
    with pytest.raises(InputError, match=r"'simulated-tank', only .*'simulated-tanks'"):
        datasets.load("simulated-tank")
    with pytest.raises(InputError, match=r"only cascaded-tanks, simu.*robot-arm\.$"):
        datasets.load("zzz")


def test_simulated_tanks_resemble_the_recorded_ones() -> None:
    saturated = 0
    for seed in range(5):
        tanks = simulate(seed)
        record = tanks.benchmark.estimation
        assert (len(record), record.dt) == (1024, 4.0)
        assert record.u.min() >= 0
        assert 5 < record.u.max() < 8
        assert 1 < record.y.min() < 4
        assert record.y.max() <= 10
        assert 1.4 < record.y.std() < 2.4
        assert 0.08 < tanks.truth_rmse < 0.3
        saturated += int((record.y == 10).sum())
    assert saturated > 50


def test_simulation_depends_on_its_seed_only() -> None:
    one, same, other = simulate(3), simulate(3), simulate(4)
    for part in ("estimation", "_test"):
        y = [getattr(s.benchmark, part).y for s in (one, same, other)]
        np.testing.assert_array_equal(y[0], y[1])
        assert not np.array_equal(y[0], y[2])
    assert not np.array_equal(one.benchmark.test_inputs, one.benchmark.estimation.u)


def test_without_noise_the_truth_is_exact() -> None:
    tanks = simulate(0, process_noise=0.0, measurement_noise=0.0)
    assert tanks.truth_rmse == 0
    record = tanks.benchmark.estimation
    np.testing.assert_array_equal(tanks.true_response(record.u), record.y)
    assert record.y[0] == tanks.benchmark.reveal_test().y[0]
    other = tanks.true_response(record.u[:, 0], state=(1.0, 1.0))
    assert other[0, 0] == 1.0


def test_tanks_stay_at_rest() -> None:
    tanks = simulate(0)
    x1, x2 = tanks.physics.rest(2.0)
    held = tanks.true_response(np.full(50, 2.0), state=(x1, x2))
    np.testing.assert_allclose(held, x2)


def test_water_over_the_rim_of_tank_1_reaches_tank_2() -> None:
    u = np.full(60, 6.0)
    wet, dry = (
        simulate(physics=Physics(overflow_share=share)).true_response(u)
        for share in (1.0, 0.0)
    )
    assert wet[10:].min() >= 0
    assert np.all(wet >= dry)
    assert wet.max() > dry.max()
    assert wet.max() <= 10


def test_random_physics_is_plausible() -> None:
    assert Physics.random(1) == Physics.random(1) != Physics.random(2)
    for seed in range(20):
        physics = Physics.random(seed)
        x1, x2 = physics.rest()
        assert 4 <= x1 < physics.rim1
        assert 4 < x2 < 7
        y = simulate(seed, samples=200, physics=physics).benchmark.estimation.y
        assert np.isfinite(y).all()


@pytest.mark.parametrize("samples", [2, 3, 10])
def test_short_simulations(samples: int) -> None:
    tanks = simulated_tanks.simulate(samples=samples, dt=1.0)
    assert len(tanks.benchmark.estimation) == samples


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"samples": 1}, "samples is 1 and dt is 4.0, but two samples"),
        ({"dt": 0.0}, "dt is 0.0"),
        ({"process_noise": -1.0}, "process_noise is -1.0 .* neither can be negative"),
        ({"measurement_noise": -1.0}, "neither can be negative"),
    ],
)
def test_bad_settings_are_refused(settings, message: str) -> None:
    with pytest.raises(InputError, match=message):
        simulate(**settings)


def test_bad_physics_is_refused() -> None:
    with pytest.raises(InputError, match=r"k1 is 0.0 but must be positive"):
        Physics(k1=0.0)
    with pytest.raises(InputError, match=r"overflow_share is 1.5 but must be at most"):
        Physics(overflow_share=1.5)
