"""Curvature of the fit: one factorised system that solver and evidence share.

Everything is in *whitened* coordinates: residuals and derivatives divided by the noise
standard deviation, weights by their prior standard deviation, ``w = V^1/2 x``. With
``X = J V^1/2 / sigma`` the curvature of the data term is ``B = X'X`` and

    log_det  = log|I + X'X| = log|I + X X'|
    step     : (B + t I) d = -g                     (t = penalty + damping)
    cotangent: d(log_det / 2) / dX = X (I + X'X)^-1 = (I + X X')^-1 X

The cotangent gives all the rest: summed against ``X`` it is ``gamma = upsilon alpha``
per weight, row, column or output, and pulled back through the model it is the gradient
of the evidence.

=========== =============================== =========================================
form        system                          when
=========== =============================== =========================================
primal      ``I + X'X`` (P x P)             few weights
blockwise   the same, summed over rows      few weights, very many samples
kronecker   two averages for each layer     nothing else fits; approximate, separable
diagonal    the diagonal of it, summed      nothing else fits; approximate
dual        ``I + X X'`` (N x N), X dense   few samples, any prior
gram        ``I + X X'`` without X          few samples, wide layers, separable
=========== =============================== =========================================
"""

from sparsid.bayes.curvature.choice import APPROXIMATE as APPROXIMATE
from sparsid.bayes.curvature.choice import CURVATURES as CURVATURES
from sparsid.bayes.curvature.choice import FORMS as FORMS
from sparsid.bayes.curvature.choice import WHOLE as WHOLE
from sparsid.bayes.curvature.choice import Curvature as Curvature
from sparsid.bayes.curvature.choice import block_rows as block_rows
from sparsid.bayes.curvature.choice import choose as choose
