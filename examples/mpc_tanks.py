"""Model predictive control of simulated tanks with an identified model.

Run it with ``python examples/mpc_tanks.py`` after ``pip install "sparsid[mpc]"``. The
controller knows the model alone; the plant is the simulation that made the data.
"""

import tempfile
from pathlib import Path

import casadi
import do_mpc
import numpy as np

import sparsid
from sparsid.datasets import simulated_tanks

STEPS, TARGET = 30, 6.0


def controller(step: casadi.Function, dt: float) -> do_mpc.controller.MPC:
    """Return a controller that brings the level to the target, gently."""
    model = do_mpc.model.Model("discrete", "SX")
    x = model.set_variable("_x", "x", (step.size1_in(0), 1))
    pump = model.set_variable("_u", "pump")
    following, level = step(x, pump)
    model.set_rhs("x", following)
    model.set_expression("level", level)
    model.setup()
    mpc = do_mpc.controller.MPC(model)
    quiet = {"ipopt.print_level": 0, "ipopt.sb": "yes", "print_time": 0}
    mpc.set_param(n_horizon=15, t_step=dt, nlpsol_opts=quiet)
    error = (model.aux["level"] - TARGET) ** 2
    mpc.set_objective(mterm=casadi.DM(0), lterm=error)
    mpc.set_rterm(pump=0.1)
    mpc.bounds["lower", "_u", "pump"], mpc.bounds["upper", "_u", "pump"] = 0.0, 6.0
    mpc.setup()
    return mpc


def main() -> None:
    tanks = simulated_tanks.simulate(samples=400)
    train = tanks.benchmark.estimation
    model = sparsid.Simulator("cascade", states=2, neurons=4, budget=60).fit(train)
    print(model.summary())

    with tempfile.TemporaryDirectory() as room:
        # One member: a median would have kinks.
        folder = model.export("casadi", Path(room) / "model", combine="member:0")
        start, step, observe = (
            casadi.Function.load(str(folder / f"model_{key}.casadi"))
            for key in ("start", "step", "observe")
        )
    mpc = controller(step, train.dt)

    # The measured past settles the state.
    past = train.u[:40]
    x = start(past[0], model.members_.members[0].start)
    for u, y in zip(past, train.y[:40], strict=True):
        x = observe(x, u, y)
    mpc.x0 = x.full()
    mpc.set_initial_guess()
    pumped = past.copy()
    for k in range(STEPS):
        u = mpc.make_step(x.full()).ravel()
        pumped = np.vstack([pumped, u])
        level = tanks.true_response(pumped)[-1]
        print(f"{k * train.dt:5.0f} s   pump {u[0]:5.2f} V   level {level[0]:5.2f} V")
        x = observe(x, u, level)
    print(f"level {level[0]:.2f} V, target {TARGET:.2f} V")


if __name__ == "__main__":
    main()
