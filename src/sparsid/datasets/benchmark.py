"""A benchmark hands out its estimation record and scores finished models."""

from dataclasses import InitVar, dataclass, field
from typing import Any, Literal, Protocol, get_args, runtime_checkable

import numpy as np
from jaxtyping import Float

from sparsid.data.record import Record, check_compatible
from sparsid.errors import InputError
from sparsid.validation.scores import rmse

ProtocolName = Literal["A", "B", "C", "window", "one-step"]
# Protocol C: the benchmark's own loader gives away this many outputs.
STARTING_SAMPLES = 50


@runtime_checkable
class FinishedModel(Protocol):
    """What a model must offer to be scored.

    `simulate` and `predict` return an object with `mean`, (time, output), and
    `start`, the first row of it that is a forecast.
    """

    @property
    def max_lag_(self) -> int:
        """Number of measured outputs that start a run."""

    def simulate(self, u: Any) -> Any:
        """Return the free run over inputs, or over a record from its first outputs."""

    def predict(self, record: Any) -> Any:
        """Return the one-step prediction over a record."""


class MeanOnly:
    """A model to be scored: free runs without the draws behind a band."""

    def __init__(self, model: Any) -> None:
        self.model, self.max_lag_ = model, int(model.max_lag_)

    def predict(self, record: Any) -> Any:
        """Return the one-step prediction over a record."""
        return self.model.predict(record)

    def simulate(self, u: Any, y_init: Any = None) -> Any:
        """Return the free run over a record or over inputs."""
        return self.model.simulate(u, y_init, samples=0)


@dataclass(frozen=True, eq=False)
class Score:
    """The error of a finished model on a test record, and how it was counted.

    Attributes
    ----------
    rmse
        Root mean squared error of each output over the samples scored; inf if the
        run diverged.
    protocol
        "A", "B", "C", "window" or "one-step".
    first
        First sample of the test record that counts.
    samples
        Number of samples that count.
    rmse_paper
        Protocol B only: the same with the samples before `first` counted as free of
        error, as in the paper.
    """

    rmse: Float[np.ndarray, " outputs"]
    protocol: ProtocolName
    first: int
    samples: int
    rmse_paper: Float[np.ndarray, " outputs"] | None = None


@dataclass(frozen=True, eq=False)
class Benchmark:
    """An estimation record to learn from and a hidden test record to be judged by.

    Parameters
    ----------
    name, title
        Short name for commands, and a full one for reports.
    estimation
        The record from which everything is to be learnt and chosen.
    source
        Where the data come from: "local copy", "cache", "download", "simulated".
    test
        The record that only `score` looks at.
    window
        First outputs of the test record that may start a run; None: none are needed.
    """

    name: str
    title: str
    estimation: Record
    source: str
    test: InitVar[Record]
    window: int | None = None
    _test: Record = field(init=False, repr=False)

    def __post_init__(self, test: Record) -> None:
        check_compatible([self.estimation, test])
        object.__setattr__(self, "_test", test)

    @property
    def test_inputs(self) -> Float[np.ndarray, "time inputs"]:
        """Inputs of the test record."""
        return self._test.u

    def reveal_test(self) -> Record:
        """Return the test record, for final reports and pictures.

        Whatever is learnt, tuned, stopped or selected with it can no longer be
        scored honestly: it must never feed a choice.
        """
        return self._test

    def score(self, model: FinishedModel, protocol: ProtocolName = "A") -> Score:
        """Return the error of a finished model on the test record.

        Parameters
        ----------
        model
            Has `simulate`, `predict` and `max_lag_` (L below).
        protocol
            "A": free run without any test output, all samples scored.
            "B": free run from the first L outputs, scored from L on.
            "C": free run from the L outputs before sample 50, scored from 50 on.
            "window": free run from the benchmark's start window, scored from its end.
            "one-step": prediction from measured outputs, scored from L on.

        Notes
        -----
        In a free run the outputs after the first L are replaced by a constant before
        the model gets the record, so that no model can use them by accident.
        """
        if protocol not in get_args(ProtocolName):
            raise InputError(
                f"The protocol is {protocol!r} but must be one of "
                f"{', '.join(get_args(ProtocolName))}."
            )
        test, lag = self._test, int(model.max_lag_)
        if protocol == "window":
            return self._window_score(model)
        first = {"A": 0, "C": STARTING_SAMPLES}.get(protocol, lag)
        if first >= len(test) or (protocol == "C" and lag > first):
            raise InputError(
                f"Protocol {protocol} starts a run of lag {lag} at sample {first} of "
                f"{len(test)}: choose a smaller lag or another protocol."
            )
        if protocol == "one-step":
            part, forecast = test, model.predict(test)
        elif protocol == "A" or lag == 0:
            part, forecast = test, model.simulate(test.u)
        else:
            part = test[first - lag :]
            forecast = model.simulate(_hide_outputs(part, lag))
        skipped = first - (part.start - test.start)
        return _score(part, forecast, protocol, first, skipped)

    def _window_score(self, model: FinishedModel) -> Score:
        if self.window is None:
            raise InputError(f"{self.title} has no start window: use protocol A.")
        test, first = self._test, self.window
        from_window: Any = model.simulate
        forecast = from_window(test.u, test.y[:first])
        return _score(test, forecast, "window", first, first)


def protocol_scores(benchmark: Benchmark, model: FinishedModel) -> dict[str, Any]:
    """Return the errors on the test record by every protocol, as plain values.

    A protocol that the model or the record cannot follow has a reason instead.
    """
    found: dict[str, Any] = {}
    own: tuple[ProtocolName, ...] = ("A", "B", "C")
    if benchmark.window is not None:
        own = ("window",)
    for protocol in ("one-step", *own):
        try:
            score = benchmark.score(model, protocol)
        except InputError as error:
            found[protocol] = {"rmse": None, "reason": str(error)}
            continue
        found[protocol] = {
            "rmse": score.rmse.tolist(),
            "first": score.first,
            "samples": score.samples,
        }
    return found


def _hide_outputs(record: Record, known: int) -> Record:
    """Return the record with all outputs after the known ones held constant."""
    y = record.y.copy()
    y[known:] = y[known - 1]
    return Record(
        record.u,
        y,
        record.dt,
        input_names=record.input_names,
        output_names=record.output_names,
        input_units=record.input_units,
        output_units=record.output_units,
        name=record.name,
        start=record.start,
    )


def _score(
    part: Record, forecast: Any, protocol: ProtocolName, first: int, skipped: int
) -> Score:
    mean = np.asarray(forecast.mean, dtype=np.float64).reshape(len(forecast.mean), -1)
    if mean.shape != part.y.shape:
        raise InputError(
            f"The model returned a forecast of shape {mean.shape} for outputs of shape "
            f"{part.y.shape}: `mean` needs a row for every sample of the record."
        )
    if forecast.start > skipped:
        raise InputError(
            f"Protocol {protocol} scores from sample {first} on, but the forecast "
            f"starts {forecast.start - skipped} samples later: every sample that "
            "counts needs a forecast."
        )
    error = rmse(part.y[skipped:], mean[skipped:])
    samples = len(part) - skipped
    paper = None
    if protocol == "B":
        paper = error * np.sqrt(samples / (samples + first))
    return Score(error, protocol, first, samples, paper)
