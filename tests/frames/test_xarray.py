"""Compiled functions go over the chunks of xarray's arrays: `xr.apply_ufunc(..., dask="parallelized")`."""

import numpy as np
import pytest

import scanjit as sj


@sj.jit
def smooth(x, rate):
    """Along the last axis, for all others side by side."""
    return sj.vmap(lambda row: sj.scan(lambda v, h: h + rate * (v - h), row, row[0]))(
        x.reshape(-1, x.shape[-1])
    ).reshape(x.shape)


def test_chunks_are_the_whole():
    xr, dask = pytest.importorskip("xarray"), pytest.importorskip("dask")
    values = np.random.default_rng(0).normal(size=(4, 6, 50))
    grid = xr.DataArray(values, dims=["lat", "lon", "day"], coords={"lat": [10, 20, 30, 40]}, name="rain")
    whole = smooth(values, 0.3)
    expected = values[..., 0]
    for day in range(50):
        expected = expected + 0.3 * (values[..., day] - expected)
    np.testing.assert_allclose(whole[..., -1], expected, rtol=1e-12)
    for array in (grid, grid.chunk(lat=2, lon=3), grid.chunk(lat=1)):
        found = xr.apply_ufunc(
            smooth, array, 0.3, input_core_dims=[["day"], []], output_core_dims=[["day"]],
            dask="parallelized", output_dtypes=[float],
        )  # fmt: skip
        assert found.dims == grid.dims and list(found["lat"]) == [10, 20, 30, 40]
        assert (found.chunks is None) == (array is grid)
        with dask.config.set(scheduler="threads"):  # a linear recurrence of few rows is rounded otherwise
            np.testing.assert_allclose(found.to_numpy(), whole, rtol=1e-12, atol=1e-14)
