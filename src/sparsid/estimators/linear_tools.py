"""Linear tools of every model: linearisation, points of rest, static gain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sparsid.results.base import FittedModel

if TYPE_CHECKING:
    from sparsid.analysis.linearisation import Linearisation
    from sparsid.analysis.static_curve import StaticCurve
    from sparsid.analysis.steady_state import SteadyState


class LinearTools:
    """What a fitted model tells of linear control."""

    @property
    def _fitted(self) -> FittedModel:
        raise NotImplementedError

    def linearise(
        self, at: Any = None, *, states: Any = None, draws: int = 100, seed: int = 0
    ) -> Linearisation:
        """Return the model as a linear one around an operating point.

        Parameters
        ----------
        at
            Inputs of the operating point: one number for each, a mapping by name, or
            a `SteadyState`. Inputs that a mapping leaves out have their means over the
            estimation records, and so have all by default. States are those at which
            the model comes to rest with these inputs.
        states
            Other states, (member, state), as `SteadyState.states` has them; the inputs
            are then those that act there, dead times behind them.
        draws
            Draws of the parameters, over all members, for the spread; 0 for none.
        """
        from sparsid.analysis.linearisation import linearise

        return linearise(self._fitted, at, states=states, draws=draws, seed=seed)

    def steady_state(
        self, u: Any = None, *, draws: int = 100, seed: int = 0
    ) -> SteadyState:
        """Return where the model comes to rest with its inputs held.

        Of several such points it is the one that a run from the middle of the
        estimation records leads to.

        Parameters
        ----------
        u
            Inputs, as for `linearise`.
        draws
            Draws of the parameters, over all members, for the spread; 0 for none.
        """
        from sparsid.analysis.steady_state import steady_state

        return steady_state(self._fitted, u, draws=draws, seed=seed)

    def static_gain(
        self,
        input_name: str | None = None,
        *,
        over: tuple[float, float] | None = None,
        points: int = 25,
        at: Any = None,
        draws: int = 100,
        seed: int = 0,
    ) -> StaticCurve:
        """Return outputs at rest over one input, and the gain there.

        Parameters
        ----------
        input_name
            The input that moves; may be left out if there is one.
        over
            Ends of the curve in its unit; by default its range in the estimation
            records.
        at
            The other inputs, as for `linearise`.
        draws
            Draws of the parameters, over all members, for the spread; 0 for none.
        """
        from sparsid.analysis.static_curve import static_curve

        return static_curve(
            self._fitted,
            input_name,
            over=over,
            points=points,
            at=at,
            draws=draws,
            seed=seed,
        )
