"""A network under way: its descent, the rows it works on, changes of its structure."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from sparsid.arrays import PLAINLY, Array
from sparsid.bayes.cost import State
from sparsid.bayes.curvature import APPROXIMATE, Curvature, choose
from sparsid.bayes.objective import Regression
from sparsid.bayes.prior import start_prior
from sparsid.fitting import pruning
from sparsid.fitting.descent import Descent
from sparsid.fitting.settings import Settings
from sparsid.models.network import REGRESSORS, Network, Params

# Variance of the noise at the start, of standardised outputs. A cold start at the true
# noise stalls, at the output's variance it is slow.
START_NOISE = 0.01
# Rebuild the arrays when no more than this share of the weights' space is left: each
# rebuild may cost a compilation.
WORTH_SHRINKING = 0.8
# Beyond so many samples the tolerance grows with them: a fixed share of the noise.
MANY_SAMPLES = 10_000


class WorkingNetwork:
    """A network that descends, on all rows or some, and loses weights on the way.

    Attributes
    ----------
    rows
        All data, with the columns of the network before pruning.
    columns
        Which of them are left.
    structures
        Structures so far, of network or rows: costs of one are comparable.
    asked, approximated
        The curvature that is asked for at present, and those that had to do for want
        of memory.
    """

    def __init__(
        self, network: Network, data: Regression, settings: Settings, *, key: Array
    ) -> None:
        self.settings = settings
        self.total = network.weights
        self.columns = np.arange(network.axes[REGRESSORS])
        self.structures = 0
        self.folded = False
        self.asked = settings.curvature
        self.approximated: list[str] = []
        params = _random_weights(network, key)
        prior = start_prior(network, settings.kinds)
        prior = settings.rule.start(prior, params, len(data.y))
        noise = settings.noise
        if noise is None:
            level = START_NOISE if settings.rule.learns_noise else 1.0
            noise = np.full(data.y.shape[1], level)
        self.rows = data
        self.descent = self._descent(network, data, State(params, prior, noise))

    def _descent(
        self, network: Network, data: Regression, state: State, **more: float
    ) -> Descent:
        s, asked = self.settings, self.asked
        self.structures += 1

        def curvature() -> Curvature:
            # Without a log-determinant a product bound of the variances serves too.
            product = "row+column" if s.rule.volume == 0.0 else "added"
            kinds = tuple(product if p.kind == "added" else p.kind for p in state.prior)
            rows = data.y.size
            chosen = choose(asked, s.form, network, kinds, rows, s.memory_limit)
            approximate = chosen.name in APPROXIMATE and s.curvature == "auto"
            if approximate and chosen.name not in self.approximated:
                self.approximated.append(chosen.name)
            return chosen

        return Descent(
            network,
            curvature,
            jax.tree.map(jnp.asarray, data),
            s.rule,
            jax.tree.map(jnp.asarray, state),
            evidence_steps=s.algorithm == "guarded",
            fixed_noise=s.noise is not None,
            **more,
        )

    def _here(self) -> tuple[Network, State]:
        """Return network and state as the moves want them, in NumPy."""
        return self.descent.network, jax.device_get(self.descent.state)

    # -- rows ----------------------------------------------------------------------

    @contextmanager
    def _part_of_rows(self, most: int) -> Iterator[None]:
        """Work on some of the rows, if there are many.

        The cost of a wide network grows with the square and cube of the rows.
        """
        self._use_rows(_spread(len(self.rows.y), most))
        try:
            yield
        finally:
            self._use_rows(np.arange(len(self.rows.y)))

    def _use_rows(self, chosen: NDArray[np.intp]) -> None:
        if len(chosen) == len(self.descent.data.y):
            return
        d = self.descent
        z, y = np.asarray(self.rows.z), np.asarray(self.rows.y)
        part = Regression(z[chosen][:, self.columns], y[chosen])
        self.descent = self._descent(d.network, part, d.state, damping=d.damping)

    def _some_rows(self) -> Regression:
        """Return the data that changes of structure are worked out on.

        Of very many rows, some spread over all; the evidence is asked about all.
        """
        data = self.descent.data
        chosen = _spread(len(data.y), self.settings.settling_rows)
        if len(chosen) < len(data.y):
            data = Regression(data.z[chosen], data.y[chosen])
        found: Regression = jax.device_get(data)
        return found

    # -- structure -----------------------------------------------------------------

    def _fold(self) -> None:
        """Fold redundant neurons into the others."""
        network, state = self._here()
        data = self._some_rows()
        tolerance = self.settings.fold_tolerance
        self._adopt(pruning.fold_redundant(network, state, data, tolerance))
        self._shrink()
        self.folded = True

    def _thresholded(self) -> State:
        network, state = self._here()
        settings = self.settings
        cut = pruning.threshold(state, settings.kappa_upsilon, settings.kappa_w)
        return pruning.clear_dead(network, cut)

    def _shrink(self) -> None:
        """Rebuild smaller arrays if that saves enough."""
        wide, state = self._here()
        network, state, chosen = pruning.shrink(wide, state)
        if _size(network) > WORTH_SHRINKING * _size(wide):
            return
        self.columns = self.columns[chosen[REGRESSORS]]
        data = self.descent.data
        data = Regression(data.z[:, chosen[REGRESSORS]], data.y)
        self.descent = self._descent(network, data, state, damping=self.descent.damping)

    def _adopt(self, state: State) -> bool:
        """Go on from a state with weights removed; return whether there are any."""
        d = self.descent
        before = pruning.live_weights(jax.device_get(d.state))
        after = pruning.live_weights(state)
        if all(np.array_equal(a, b) for a, b in zip(before, after, strict=True)):
            return False
        self.descent = self._descent(d.network, d.data, state, damping=d.damping)
        return True

    # -- figures -------------------------------------------------------------------

    @property
    def _curvature_name(self) -> str:
        return self.descent.problem.curvature.name

    @property
    def _tolerance(self) -> float:
        """The fall of the cost in a cycle that no longer counts."""
        samples = int(self.descent.data.y.size)
        return self.settings.tolerance * max(1.0, samples / MANY_SAMPLES)

    def _kept(self) -> int:
        network, state = self._here()
        return sum(pruning.kept_weights(network, state))

    def _full_cost(self) -> float:
        """Return the cost with the log-determinant, whatever the steps count."""
        d = self.descent
        extra = (d.rule.volume - d.weights.volume) * float(d.at.log_det)
        return d.cost + extra

    def _judged_cost(self) -> float:
        """Return the cost in units of -2 log likelihood, noise learnt or not.

        With noise and penalty in a fixed ratio the best noise for both has the cost
        ``N log(||r||^2 + penalty)``.
        """
        d = self.descent
        if d.rule.learns_noise or d.fixed_noise:
            return self._full_cost()
        constant = len(d.data.y) * float(np.log(2 * np.pi * d.state.noise).sum())
        return float(d.data.y.size * np.log(max(d.cost - constant, 1e-300)))


@partial(jax.jit, static_argnames="network", compiler_options=PLAINLY)
def _random_weights(network: Network, key: Array) -> Params:
    """Return the weights that a run begins with."""
    return network.init(key=key)


def _spread(rows: int, most: int) -> NDArray[np.intp]:
    """Return all rows, or so many spread over them."""
    return np.linspace(0, rows - 1, min(most, rows)).round().astype(np.intp)


def _size(network: Network) -> int:
    return sum(n * m for n, m in network.shapes)
