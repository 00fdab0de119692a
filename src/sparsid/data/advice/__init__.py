"""A look at a record before any fit: what is wrong with it and what to do."""

from sparsid.data.advice.findings import Advice as Advice
from sparsid.data.advice.findings import Finding as Finding
from sparsid.data.advice.look import advise as advise
