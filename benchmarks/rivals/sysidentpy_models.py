"""Two documented models of SysIdentPy.

``polynomial``: FROLS with the setting of its tutorial on a benchmark of the same
collection (Coupled Electric Drives): degree 2, lags 7, terms by AIC out of 120.
``neural``: the NARX network of its how-to page: lags 2, 30-30 tanh neurons, Adam, mean
squared error, 2000 epochs, here on standardised signals as a network wants them.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from common import Array, Clock, arguments, peak_gigabytes, read, report, rmse, versions
from sysidentpy.basis_function import Polynomial

POLYNOMIAL = {"degree": 2, "lag": 7, "n_info_values": 120, "info_criteria": "aic"}
NEURAL = {"lag": 2, "neurons": [30, 30], "epochs": 2000, "optimiser": "Adam"}


def polynomial() -> Any:
    """Return the polynomial model, not fitted."""
    from sysidentpy.model_structure_selection import FROLS
    from sysidentpy.parameter_estimation import LeastSquares

    return FROLS(
        xlag=POLYNOMIAL["lag"],
        ylag=POLYNOMIAL["lag"],
        basis_function=Polynomial(degree=POLYNOMIAL["degree"]),
        estimator=LeastSquares(),
        info_criteria=POLYNOMIAL["info_criteria"],
        n_info_values=POLYNOMIAL["n_info_values"],
    )


def neural(seed: int) -> Any:
    """Return the neural model, not fitted."""
    import torch
    from sysidentpy.neural_network import NARXNN
    from torch import nn

    torch.manual_seed(seed)
    lag, (first, second) = NEURAL["lag"], NEURAL["neurons"]
    network = nn.Sequential(
        nn.Linear(2 * lag, first),
        nn.Tanh(),
        nn.Linear(first, second),
        nn.Tanh(),
        nn.Linear(second, 1),
    )
    return NARXNN(
        net=network,
        ylag=lag,
        xlag=lag,
        basis_function=Polynomial(degree=1),
        model_type="NARMAX",
        loss_func="mse_loss",
        optimizer=NEURAL["optimiser"],
        epochs=NEURAL["epochs"],
        verbose=False,
        optim_params={"betas": (0.9, 0.999), "eps": 1e-5},
    )


def main() -> None:
    """Fit one model, score it, print the line."""
    parser = arguments(__doc__)
    parser.add_argument("--model", choices=("polynomial", "neural"), required=True)
    options = parser.parse_args()
    data, is_neural = read(options.data), options.model == "neural"
    settings = NEURAL if is_neural else POLYNOMIAL
    lag = settings["lag"]
    u_mean, u_std, y_mean, y_std = 0.0, 1.0, 0.0, 1.0
    if is_neural:
        u_mean, u_std = data.u.mean(), data.u.std()
        y_mean, y_std = data.y.mean(), data.y.std()

    def column(values: Array, mean: float, std: float) -> Array:
        return ((values - mean) / std)[:, None]

    clock = Clock()
    model = neural(options.seed) if is_neural else polynomial()
    ready = clock.read()
    clock = Clock()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X=column(data.u, u_mean, u_std), y=column(data.y, y_mean, y_std))
    fit = clock.read()

    # The finished model: the test record is looked at from here on.
    u, y = column(data.u_test, u_mean, u_std), column(data.y_test, y_mean, y_std)
    with np.errstate(all="ignore"):
        one_step = y_mean + y_std * np.ravel(model.predict(X=u, y=y, steps_ahead=1))
        run = y_mean + y_std * np.ravel(model.predict(X=u, y=y[:lag]))
    report(
        {
            "rival": "SysIdentPy",
            "settings": {"model": options.model, **settings, "seed": options.seed},
            "versions": versions("sysidentpy", "numpy", *["torch"] * is_neural),
            "starts": 1,
            "imports": ready,
            "fit": fit,
            "terms": None if is_neural else len(model.final_model),
            "one_step_rmse": rmse(data.y_test[lag:], one_step[lag:]),
            "free_run_B_rmse": rmse(data.y_test[lag:], run[lag:]),
            "peak_gigabytes": peak_gigabytes(),
        }
    )


if __name__ == "__main__":
    main()
