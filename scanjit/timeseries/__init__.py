"""Recurrences of time series and of reinforcement learning, as plain functions of symbols: to use, and to read."""

from scanjit.timeseries.arma import Innovations, arma, expanded
from scanjit.timeseries.densities import normal, skew_t, student_t
from scanjit.timeseries.ets import Smoothing, ets
from scanjit.timeseries.kalman import Filtered, Smoothed, StateSpace, kalman_filter, kalman_smoother
from scanjit.timeseries.regimes import Regimes, regime_filter, regime_smoother
from scanjit.timeseries.rewards import VTrace, advantages, discounted_returns, v_trace
from scanjit.timeseries.variances import egarch, garch

__all__ = [
    "Filtered",
    "Innovations",
    "Regimes",
    "Smoothed",
    "Smoothing",
    "StateSpace",
    "VTrace",
    "advantages",
    "arma",
    "discounted_returns",
    "egarch",
    "ets",
    "expanded",
    "garch",
    "kalman_filter",
    "kalman_smoother",
    "normal",
    "regime_filter",
    "regime_smoother",
    "skew_t",
    "student_t",
    "v_trace",
]
