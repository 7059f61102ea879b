"""Libraries for several levels of a processor, for several threads, and for other machines."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import scanjit as sj
from scanjit.errors import ArgumentError
from scanjit.runtime import host
from scanjit.target import NAMES
from tests.library.support import STRICT, Built, same
from tests.library.undefined import needed
from tests.scripts import printed

needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
x86 = pytest.mark.skipif(not host.target().is_x86, reason="needs a processor of the family x86-64")
THREADS = """\
#define _POSIX_C_SOURCE 200112L
#include <pthread.h>
#include <stdio.h>
#include "model.h"

typedef struct task {
    void (*work)(void *, int);
    void *argument;
    int thread;
} task;

static void *start(void *given)
{
    task *one = given;
    one->work(one->argument, one->thread);
    return NULL;
}

static int parallel_for(void *context, int threads, void (*work)(void *, int), void *argument)
{
    pthread_t started[MODEL_THREADS];
    task tasks[MODEL_THREADS];
    int i;
    ++*(int *)context;
    for (i = 0; i < threads; i++) {
        tasks[i].work = work;
        tasks[i].argument = argument;
        tasks[i].thread = i;
        if (pthread_create(&started[i], NULL, start, &tasks[i]) != 0)
            return 1;
    }
    for (i = 0; i < threads; i++)
        pthread_join(started[i], NULL);
    return 0;
}

static float x[200 * 16 * 64], w[64 * 64], result[200 * 16 * 64];
static unsigned char workspace[1 << 24] __attribute__((aligned(64)));

int main(void)
{
    const model_sizes sizes = {200, 16};
    const model_inputs inputs = {x, w};
    const model_outputs outputs = {result};
    int calls = 0, threads, i;
    FILE *file = fopen("given", "rb");
    if (file == NULL || fread(x, sizeof(x), 1, file) != 1 || fread(w, sizeof(w), 1, file) != 1)
        return 2;
    fclose(file);
    file = fopen("found", "wb");
    for (threads = 1; threads <= 3; threads++) {
        for (i = 0; i < 20; i++)
            if (model_run_parallel(&sizes, &inputs, &outputs, NULL, workspace, sizeof(workspace), threads,
                    parallel_for, &calls) != 0)
                return 3;
        fwrite(result, sizeof(result), 1, file);
    }
    if (model_run(&sizes, &inputs, &outputs, NULL, workspace, sizeof(workspace)) != 0)
        return 4;
    fwrite(result, sizeof(result), 1, file);
    fclose(file);
    if (model_run_parallel(&sizes, &inputs, &outputs, NULL, workspace, sizeof(workspace), 4, parallel_for, &calls)
        != MODEL_TEAM)
        return 5;
    return calls == 60 ? 0 : 6;
}
"""


def recurrence() -> Any:
    x, w = sj.tensor(("T", "B", 64), "float32", "x"), sj.tensor((64, 64), "float32", "w")
    zero = sj.zeros((x.shape[1], 64), dtype="float32")
    return sj.function([x, w], sj.scan(lambda row, h: sj.tanh(row + h @ w), x, zero))


@needs_compiler
def test_threads_of_the_caller(tmp_path: Path) -> None:
    f, random = recurrence(), np.random.default_rng(0)
    sj.export_library(f, tmp_path, threads=3, kind="object")
    x, w = random.normal(size=(200, 16, 64)).astype("f4"), (random.normal(size=(64, 64)) * 0.1).astype("f4")
    (tmp_path / "given").write_bytes(x.tobytes() + w.tobytes())
    (tmp_path / "threads.c").write_text(THREADS)
    printed("cc", *STRICT, "threads.c", "model.c", "model_code.o", "-lpthread", "-o", "threads", folder=tmp_path)
    printed("./threads", folder=tmp_path)
    held = (tmp_path / "found").read_bytes()
    for i in range(4):
        same(np.frombuffer(held[i * x.nbytes : (i + 1) * x.nbytes], "f4").reshape(x.shape), f(x, w))


@needs_compiler
@x86
def test_the_best_level_is_chosen(tmp_path: Path) -> None:
    f, random = recurrence(), np.random.default_rng(0)
    x, w = random.normal(size=(5, 3, 64)).astype("f4"), (random.normal(size=(64, 64)) * 0.1).astype("f4")
    several = Built(f, tmp_path / "several", target=["x86-64-v2", "x86-64-v3"])
    (found,), _ = several.call(x, w)
    best = "x86-64-v3" if host.target().has("avx2", "fma", "bmi2") else "x86-64-v2"
    (wanted,), _ = Built(f, tmp_path / "one", target=best).call(x, w)
    same(found, wanted)
    assert np.allclose(found, f(x, w), rtol=1e-5, atol=1e-6)


@pytest.mark.quick(2)
@pytest.mark.parametrize("name", NAMES)
def test_other_machines_need_nothing(tmp_path: Path, name: str) -> None:
    x, w = sj.tensor(("T", "B", 5), "float32", "x"), sj.shared(np.eye(5, dtype="float32"), "w")
    h = sj.scan(lambda row, h: sj.tanh(row + h @ w), x, sj.zeros((x.shape[1], 5), dtype="float32"))
    loss = (h * h).sum()
    f = sj.function([x], [loss], updates={w: w - 0.1 * sj.grad(loss, w)}, mode="emulate")
    try:
        sj.export_library(f, tmp_path, target=name, kind="object")
    except ArgumentError as error:
        pytest.skip(f"this LLVM has no {name}: {error}")
    assert not needed(tmp_path, name)


def test_targets_that_are_none(tmp_path: Path) -> None:
    f = sj.function([], sj.constant(1.0), mode="emulate")
    for given in ("z80", ["x86-64-v2", "aarch64-linux"], [], "x86-64-v9"):
        with pytest.raises(ArgumentError):
            sj.export_library(f, tmp_path, target=given, kind="object")
    with pytest.raises(ArgumentError, match="threads"):
        sj.export_library(f, tmp_path, target="cortex-m4", threads=2, kind="object")
    assert not list(tmp_path.iterdir())
