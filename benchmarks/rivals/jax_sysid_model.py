"""A residual recurrent network by jax-sysid, with the settings of its README.

``x+ = A x + B u + net(x, u)``, ``y = C x + net(x)``, five sigmoid neurons in each
network, 1000 iterations of Adam, then at most 1000 evaluations of L-BFGS, both
regularisations at 1e-4, scaled signals, starts as in the README. States: as many as
there are tanks. Several starts, one after the other; none is selected by the test
record. The first one includes compilation.
"""

from __future__ import annotations

import contextlib
import io
import statistics
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from common import (
    Array,
    Clock,
    arguments,
    peak_gigabytes,
    read,
    report,
    rmse,
    versions,
)
from jax_sysid.models import Model

NEURONS = 5
ADAM_EPOCHS = LBFGS_EPOCHS = 1000
RHO = 1e-4
# Outputs from which the start of the test run is settled, as for sparsid's.
START_SAMPLES = 20
SMOOTHER_EPOCHS = 10


@jax.jit
def next_state(x: Any, u: Any, params: Any) -> Any:
    """Return the state one sample on."""
    A, B, _, W1, W2, W3, b1, b2 = params[:8]
    return A @ x + B @ u + W3 @ jax.nn.sigmoid(W1 @ x + W2 @ u + b1) + b2


@jax.jit
def output(x: Any, u: Any, params: Any) -> Any:
    """Return the output at a state."""
    C, (W4, W5, b3, b4) = params[2], params[8:]
    return C @ x + W5 @ jax.nn.sigmoid(W4 @ x + b3) + b4


def start(states: int, seed: int) -> list[Array]:
    """Return random weights, of the sizes the README takes."""
    draw = np.random.default_rng(seed).normal
    n, m = states, NEURONS
    return [
        0.5 * np.eye(n),
        0.1 * draw(size=(n, 1)),
        0.1 * draw(size=(1, n)),
        0.1 * draw(size=(m, n)),
        0.5 * draw(size=(m, 1)),
        0.5 * draw(size=(n, m)),
        np.zeros(m),
        np.zeros(n),
        0.5 * draw(size=(m, n)),
        0.5 * draw(size=(1, m)),
        np.zeros(m),
        np.zeros(1),
    ]


def main() -> None:
    """Fit all starts, score each, print the line."""
    parser = arguments(__doc__)
    parser.add_argument("--states", type=int, default=2)
    parser.add_argument("--starts", type=int, default=8)
    options = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    data = read(options.data)
    u_mean, u_std = data.u.mean(), data.u.std()
    y_mean, y_std = data.y.mean(), data.y.std()
    u, y = ((data.u - u_mean) / u_std)[:, None], ((data.y - y_mean) / y_std)[:, None]

    fits, models, losses = [], [], []
    for k in range(options.starts):
        clock = Clock()
        with contextlib.redirect_stdout(io.StringIO()):
            model = Model(options.states, 1, 1, state_fcn=next_state, output_fcn=output)
            model.init(params=start(options.states, options.seed + k))
            model.loss(rho_x0=RHO, rho_th=RHO)
            model.optimization(
                adam_epochs=ADAM_EPOCHS, lbfgs_epochs=LBFGS_EPOCHS, iprint=-1
            )
            model.fit(y, u)
        fits.append(clock.read())
        models.append(model)
        losses.append(
            rmse(y_std * y, y_std * np.asarray(model.predict(model.x0, u)[0]))
        )

    # The finished models: the test record is looked at from here on.
    u_test = ((data.u_test - u_mean) / u_std)[:, None]
    y_start = ((data.y_test[:START_SAMPLES] - y_mean) / y_std)[:, None]
    from_start, settled = [], []
    for model in models:
        run = y_mean + y_std * np.asarray(model.predict(model.x0, u_test)[0])
        from_start.append(rmse(data.y_test, run))
        with contextlib.redirect_stdout(io.StringIO()):
            x0 = model.learn_x0(
                u_test[:START_SAMPLES], y_start, RTS_epochs=SMOOTHER_EPOCHS
            )
        run = y_mean + y_std * np.asarray(model.predict(jnp.asarray(x0), u_test)[0])
        settled.append(rmse(data.y_test[START_SAMPLES:], run[START_SAMPLES:]))
    best = int(np.argmin([np.inf if e is None else e for e in losses]))
    later = fits[1:] or fits
    report(
        {
            "rival": "jax-sysid",
            "settings": {
                "model": "residual recurrent network of the README",
                "states": options.states,
                "neurons": [NEURONS, NEURONS],
                "adam_epochs": ADAM_EPOCHS,
                "lbfgs_epochs": LBFGS_EPOCHS,
                "rho": RHO,
                "precision": "float64",
                "start_samples": START_SAMPLES,
                "seed": options.seed,
            },
            "versions": versions("jax-sysid", "jax", "numpy"),
            "starts": options.starts,
            "first_fit": fits[0],
            "fit": {k: statistics.median(f[k] for f in later) for k in fits[0]},
            "all_fits": {k: sum(f[k] for f in fits) for k in fits[0]},
            "estimation_rmse_by_start": losses,
            "free_run_A_by_start": from_start,
            "free_run_B_by_start": settled,
            "chosen_start": best,
            "free_run_A_rmse": from_start[best],
            "free_run_B_rmse": settled[best],
            "median_free_run_A_rmse": _median(from_start),
            "median_free_run_B_rmse": _median(settled),
            "peak_gigabytes": peak_gigabytes(),
        }
    )


def _median(errors: list[float | None]) -> float | None:
    middle = statistics.median(np.inf if e is None else e for e in errors)
    return middle if np.isfinite(middle) else None


if __name__ == "__main__":
    main()
