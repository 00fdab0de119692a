"""Members of a latent-state model, fitted to the free run, as one model.

The centre is the median over members: one that strays does not move it. The spread is
what members say of their noise and weights, and how far they are apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from sparsid.arrays import Array
from sparsid.bayes.curvature.pieces import unflatten
from sparsid.bayes.noise import Noise, predicted
from sparsid.bayes.posterior import Posterior, square_root
from sparsid.checks import LARGEST_LAG, whole
from sparsid.data.record import Record
from sparsid.data.scaling import Scaling
from sparsid.errors import InputError
from sparsid.models.network import Params
from sparsid.models.state_space import StateNetwork
from sparsid.results.base import (
    Drawing,
    FittedModel,
    Group,
    Places,
    Weights,
    block_places,
    block_weights,
    neuron_layers,
)
from sparsid.results.channels import Channels
from sparsid.results.ensemble_runs import (
    drawn_noise,
    fitted_starts,
    member_runs,
    moved_runs,
)
from sparsid.results.forecast import BandFactors, Draws, Forecast, over_stretches, width
from sparsid.results.noise_texts import free_run_rows, noise_facts
from sparsid.results.outcome import Outcome
from sparsid.results.texts import Row

if TYPE_CHECKING:
    from sparsid.analysis.steps import Waiting

Values = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Ensemble(FittedModel):
    """The result of a fit, in scaled units inside and the data's units outside.

    Attributes
    ----------
    params, noise, covariance, prior_std, log_evidence
        Weights, noise, covariance of the weights, their prior standard deviations, and
        log evidence; the first axis of every array is the member.
    known
        Measured outputs that a start state is fitted to.
    dropped
        Starts that are no members: without a finite cost, or far from the record that
        they learnt from when others are not.
    band_factors
        What standard deviations of forecasts are multiplied with.
    history
        Cost and kept share of the best member, cycle by cycle.
    """

    title: ClassVar[str] = "State-space"

    channels: Channels
    scaling: Scaling
    model: StateNetwork
    params: Params
    noise: Noise
    covariance: NDArray[np.float64]
    prior_std: NDArray[np.float64]
    log_evidence: NDArray[np.float64]
    known: int
    dropped: int
    band_factors: BandFactors
    weights_kept: float
    weights_total: int
    outcome: Outcome
    history: dict[str, NDArray[np.float64]]
    details: dict[str, Any]

    def __len__(self) -> int:
        return len(self.log_evidence)

    @property
    def noise_std(self) -> NDArray[np.float64]:
        """Standard deviation of what a free run leaves over, median over members."""
        with jax.enable_x64(True):
            variance = np.asarray(self.noise.white + self.noise.coloured)
        return np.asarray(self.scaling.unscale_y_std(np.sqrt(np.median(variance, 0))))

    @property
    def noise_parts(self) -> tuple[NDArray[np.float64], ...]:
        """Deviations of the white and the coloured part, and the correlation of that.

        Per output, median over members, in the data's units.
        """
        with jax.enable_x64(True):
            parts = [self.noise.white, self.noise.coloured, self.noise.phi]
        white, coloured, phi = (np.median(np.asarray(p), axis=0) for p in parts)
        scale = self.scaling.unscale_y_std
        return scale(np.sqrt(white)), scale(np.sqrt(coloured)), phi

    def member(self, k: int) -> Ensemble:
        """Return one member, as an ensemble of one."""
        k = range(len(self))[k]
        return replace(
            self,
            params=tuple(w[k : k + 1] for w in self.params),
            noise=Noise(*(c[k : k + 1] for c in self.noise)),
            covariance=self.covariance[k : k + 1],
            prior_std=self.prior_std[k : k + 1],
            log_evidence=self.log_evidence[k : k + 1],
            dropped=0,
        )

    @staticmethod
    def joined(parts: Sequence[Ensemble]) -> Ensemble:
        """Return the members of several ensembles with the same model as one."""

        def stacked(name: str) -> NDArray[np.float64]:
            return np.concatenate([getattr(part, name) for part in parts])

        kept = [part.weights_kept for part in parts]
        params = zip(*(part.params for part in parts), strict=True)
        noise = zip(*(part.noise for part in parts), strict=True)
        return replace(
            parts[0],
            params=tuple(np.concatenate(block) for block in params),
            noise=Noise(*(np.concatenate(values) for values in noise)),
            covariance=stacked("covariance"),
            prior_std=stacked("prior_std"),
            log_evidence=stacked("log_evidence"),
            dropped=sum(part.dropped for part in parts),
            weights_kept=float(np.average(kept, weights=[len(p) for p in parts])),
        )

    def posterior(self, k: int) -> Posterior:
        """Return the uncertainty of one member's weights."""
        C = self.covariance[k]
        std = np.sqrt(np.maximum(np.diagonal(C), 0.0))
        return Posterior(std, C, self.prior_std[k])

    # -- what it says of itself ----------------------------------------------------

    @property
    def start_samples(self) -> int:
        """Number of measured outputs that start a run."""
        return self.known

    @property
    def evidences(self) -> NDArray[np.float64]:
        """Log evidence of all members."""
        return np.asarray(self.log_evidence, dtype=float)

    @property
    def best_log_evidence(self) -> float:
        """Log evidence of the best member."""
        return float(np.max(self.log_evidence))

    def described(self) -> str:
        """Return in a few words what it is."""
        return (
            f"a state-space model with {self.model.states} states (an ensemble of "
            f"{len(self)} networks, fitted to the free run)"
        )

    def structure_rows(self) -> list[Row]:
        """Return the lines of a summary about states and neurons."""
        model = self.model
        outputs = ", ".join(self.channels.output_names)
        hidden = model.states - model.outputs
        latent = f" and {hidden} that {'is' if hidden == 1 else 'are'} not measured"
        neurons = ", ".join(f"layer {k}: {n}" for k, n in enumerate(model.hidden, 1))
        return [
            ("states", f"{model.states}: {outputs}{latent if hidden else ''}"),
            ("neurons", f"{neurons or 'none: a linear model'} ({model.activation})"),
            ("kept", f"{self.kept_text()}; mean over members, biases not counted"),
        ]

    def quality_rows(self) -> list[Row]:
        """Return the lines of a summary about noise, members and outcome."""
        ends = f"{self.log_evidence.min():.1f} to {self.log_evidence.max():.1f}"
        dropped = f", {self.dropped} dropped" if self.dropped else ""
        members = ("members", f"{len(self)}{dropped}; log evidence {ends}")
        return [*free_run_rows(self, self.noise_parts), members, self.outcome_row()]

    def table_rows(self) -> list[Row]:
        """Return the line about members."""
        return [("members", f"{len(self)}, of {self.model.states} states each")]

    def facts(self) -> dict[str, Any]:
        """Return structure, members and noise, as plain values."""
        return {
            "states": self.model.states,
            "hidden": list(self.model.hidden),
            "activation": self.model.activation,
            "rate": self.model.rate,
            "members": len(self),
            "dropped": self.dropped,
            "members_log_evidence": self.log_evidence.tolist(),
            **noise_facts(self.noise_parts),
        }

    def _state_names(self) -> list[str]:
        model = self.model
        hidden = [f"state {k + 1}" for k in range(model.outputs, model.states)]
        return [*self.channels.output_names, *hidden]

    def _params(self, member: int) -> Params:
        k = range(len(self))[member]
        return tuple(np.asarray(w[k]) for w in self.params)

    def steps(self, draws: int, seed: int) -> Waiting:
        """Return the members as steps, with draws of each."""
        from sparsid.analysis.steps import ensemble_steps

        return ensemble_steps(self, draws, seed)

    def drawing(self, member: int = 0) -> Drawing:
        """Return the network that moves the states."""
        states = self._state_names()
        sources = [*states, *self.channels.input_names]
        targets = [f"{s} rate" for s in states]
        return Drawing(self.model.network, self._params(member), sources, targets)

    def drawing_before(self, seed: int) -> Drawing | None:
        """Return the network of the first start."""
        network = self.model.network
        with jax.enable_x64(True):
            first = jax.random.fold_in(jax.random.key(seed), 0)
            own = jax.random.split(first, 4)[0]
            return Drawing(network, network.init(key=own), [], [])

    def weights(self, member: int = 0) -> Weights:
        """Return the weights of a member."""
        params, k = self._params(member), range(len(self))[member]
        return Weights(*block_weights(self.model.blocks, params), self.posterior(k))

    def layers(self, member: int = 0) -> Iterator[tuple[Places, list[Group]]]:
        """Yield what enters the states, by inputs and states; then the neurons."""
        blocks = block_places(self.model.blocks, self._params(member))
        first = {name: blocks[name] for name in ("layer1", "drive", "coupling")}
        states, groups = self.model.states, []
        for i, name in enumerate(self.channels.input_names):
            rows = [first["layer1"][states + i], first["drive"][i]]
            groups.append(Group("input", name, np.concatenate(rows)))
        for i, name in enumerate(self._state_names()):
            # What a state does to others: its own leak stays.
            acts = [first["layer1"][i], first["coupling"][i][:i]]
            groups.append(Group("state", name, np.concatenate(acts)))
        yield np.concatenate([block.ravel() for block in first.values()]), groups
        yield from neuron_layers(blocks)

    # -- use -----------------------------------------------------------------------

    def _simulated(
        self, inputs: Values, first: Values | None, draws: Draws
    ) -> Forecast:
        if np.isnan(inputs).any():
            raise InputError(
                "a free run cannot cross a gap: there is a NaN in the inputs; simulate "
                "each of record.segments()"
            )
        start = 0 if first is None else self.known
        if len(inputs) <= start:
            raise InputError(
                f"{len(inputs)} samples were given but the first {start} only settle "
                "the start state: give a longer record"
            )
        with jax.enable_x64(True):
            v = jnp.asarray(self.scaling.scale_u(inputs))
            params, covariance = self._started(v, first)
            mean = np.median(member_runs(self.model, params, v[None])[:, 0], axis=0)
            std = model_std = np.full(mean.shape, np.nan)
            if draws.samples:
                moved, noisy = self._draws(params, covariance, v, draws)
                std, model_std = width(noisy), width(moved)
        values = (mean[start:], std[start:], model_std[start:])
        return self._forecast(values, start, len(inputs), None)

    def predict(self, record: Record, horizon: int = 1) -> Forecast:
        """Return predictions ``horizon`` samples ahead of the measured outputs.

        A prediction is the free run from the fitted start state, plus what the noise
        filter expects of the coloured residual from those before.
        """
        self.channels.check(record)
        horizon = whole("horizon", horizon, 1, LARGEST_LAG)
        start = self.known + horizon - 1
        if len(record) <= start:
            raise InputError(
                f"the record has {len(record)} samples but {start} are needed before "
                f"the first prediction ({self.known} settle the start state, horizon "
                f"{horizon}): give a longer record"
            )
        if np.isnan(record.u).any():
            return over_stretches(
                record, start, lambda part: self.predict(part, horizon)
            )
        with jax.enable_x64(True):
            u = jnp.asarray(self.scaling.scale_u(record.u))
            params, _ = self._started(u, record.y[: self.known])
            runs = np.asarray(member_runs(self.model, params, u[None])[:, 0])
            y = self.scaling.scale_y(record.y)
            measured = jnp.asarray(~np.isnan(y), float)
            residual = jnp.nan_to_num(jnp.asarray(y) - runs)
            expected, spread = jax.vmap(
                lambda noise, r: predicted(noise, measured, r, horizon)
            )(self.noise, residual)
        runs = np.clip(
            runs + np.asarray(expected), self.model.floor, self.model.ceiling
        )
        # What the weights get wrong is in the residual that the filter has followed.
        own = np.median(np.broadcast_to(spread, runs.shape), axis=0)
        mean, apart = np.median(runs, axis=0), width(runs)
        values = (mean, np.sqrt(own + apart**2), apart)
        late = tuple(v[start:] for v in values)
        return self._forecast(late, start, len(record), horizon)

    # -- pieces --------------------------------------------------------------------

    def _started(self, u: Array, first: Any) -> tuple[Params, Any]:
        """Return weights with start states, and the covariance of both.

        Without outputs a run starts as the first estimation record did. With them the
        start states are fitted, and are uncertain by what those outputs leave open.
        """
        start = self.params[-1][:, :1]
        size = sum(w[0].size for w in self.params[:-1]) + self.model.states
        covariance = self.covariance[:, :size, :size].copy()
        if first is not None:
            y = jnp.asarray(self.scaling.scale_y(first))
            fitted, spread = fitted_starts(
                self.model, self.params, self.noise, u[: len(y)], y, start[:, 0]
            )
            start, weights = fitted[:, None], size - self.model.states
            covariance[:, weights:] = covariance[:, :, weights:] = 0.0
            covariance[:, weights:, weights:] = spread
        return (*self.params[:-1], start), covariance

    def _draws(
        self, params: Params, covariance: Any, u: Array, draws: Draws
    ) -> tuple[Any, Any]:
        """Return free runs with drawn weights and start states, and with noise too.

        Weights and start states go through the linearised model, unless asked
        otherwise: the posterior is Gaussian for that alone, and draws along directions
        the data leave open would leave its range.
        """
        key_w, key_e = jax.random.split(jax.random.key(draws.seed))
        count = draws.samples
        member = np.arange(count) % len(self)
        like = tuple(w[0] for w in params)
        normal = np.array(jax.random.normal(key_w, (count, covariance.shape[1])))
        for k, root in enumerate(square_root(covariance)):
            normal[member == k] = normal[member == k] @ root.T
        drawn = jnp.asarray(normal)
        moved = jax.vmap(lambda w: unflatten(w, like))(drawn)
        centre = tuple(jnp.asarray(w)[member] for w in params)
        noise = Noise(*(jnp.asarray(c)[member] for c in self.noise))
        keys = jax.random.split(key_e, count)
        runs = moved_runs(self.model, centre, moved, u, draws.sampled)
        noisy = runs + drawn_noise(noise, u, keys)
        bounds = self.model.floor, self.model.ceiling
        return np.clip(runs, *bounds), np.clip(noisy, *bounds)
