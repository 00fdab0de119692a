"""Short programs on one vector of numbers, compiled once for all models.

Each row of ``code`` is one operation: what it is, where its result begins and how long
it is, two places that it reads, and where its constants begin.

=========  =======================================================================
number     operation
=========  =======================================================================
SET        out = constants
ADD        out += matrix times (place, length); the matrix is among the constants
SCALE      out = (place - before) * factor + after
CLIP       out = place between low and high
COPY       out = place
MEDIAN     out[i] = the median over places i, i + length, ...; the second number
           says how many
ACTIVATE   out = phi(place); the second number is the kind
=========  =======================================================================
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sparsid.kernel.activations import activate
from sparsid.kernel.compiling import compiled

Values = NDArray[np.float64]
Whole = NDArray[np.int64]

SET, ADD, SCALE, CLIP, COPY, MEDIAN, ACTIVATE = range(7)
# Beyond the kinds of `activate`: a rectifier, of one-step networks alone.
RELU = 6


@compiled("void(i8[:,::1],f8[::1],f8[::1],f8[::1])")
def execute(code: Whole, constants: Values, v: Values, sorted_: Values) -> None:
    """Run a program on ``v``; ``sorted_`` has room for the longest median."""
    for row in range(len(code)):
        what, out, size = code[row, 0], code[row, 1], code[row, 2]
        a, b, c = code[row, 3], code[row, 4], code[row, 5]
        if what == 0:
            for i in range(size):
                v[out + i] = constants[c + i]
        elif what == 1:
            for i in range(size):
                total = v[out + i]
                for j in range(b):
                    total += constants[c + i * b + j] * v[a + j]
                v[out + i] = total
        elif what == 2:
            for i in range(size):
                moved = v[a + i] - constants[c + i]
                v[out + i] = (
                    moved * constants[c + size + i] + constants[c + 2 * size + i]
                )
        elif what == 3:
            for i in range(size):
                low, high = constants[c + i], constants[c + size + i]
                v[out + i] = min(max(v[a + i], low), high)
        elif what == 4:
            for i in range(size):
                v[out + i] = v[a + i]
        elif what == 5:
            for i in range(size):
                for k in range(b):
                    now, at = v[a + k * size + i], k
                    while at > 0 and sorted_[at - 1] > now:
                        sorted_[at] = sorted_[at - 1]
                        at -= 1
                    sorted_[at] = now
                v[out + i] = 0.5 * (sorted_[(b - 1) // 2] + sorted_[b // 2])
        else:
            for i in range(size):
                z = v[a + i]
                if b == 6:
                    v[out + i] = max(z, 0.0)
                else:
                    v[out + i] = activate(b, z, constants[c + i])[0]
