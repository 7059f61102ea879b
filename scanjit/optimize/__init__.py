"""Fit parameters: `minimize` one loss or thousands at once, and say how sure the result is."""

from scanjit.optimize.minimize import for_scipy, minimize
from scanjit.optimize.result import Result
from scanjit.optimize.uncertainty import covariance, delta_method, standard_errors

__all__ = ["Result", "covariance", "delta_method", "for_scipy", "minimize", "standard_errors"]
