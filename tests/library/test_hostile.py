"""Callers that give what does not fit: a status, and nothing is written."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

import scanjit as sj
from tests.library.support import SANITIZED
from tests.scripts import printed

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
PROGRAM = """\
#include <stdio.h>
#include <string.h>
#include "model.h"

/* A call: what it returns is expected, and nothing is written but by one that goes well. */
#define EXPECT(status, call) do { \\
    int got; \\
    memset(result, 0x5a, sizeof(result)); \\
    memcpy(&before, &state, sizeof(state)); \\
    got = (call); \\
    if (got != (status)) { \\
        printf("line %d: %d (%s) instead of %d\\n", __LINE__, got, model_error(got), (int)(status)); \\
        return 1; \\
    } \\
    for (i = 0; got != 0 && i < sizeof(result); i++) \\
        if (((unsigned char *)result)[i] != 0x5a) \\
            return 2; \\
    if (got != 0 && memcmp(&before, &state, sizeof(state)) != 0) \\
        return 3; \\
} while (0)
#define RUN(n, m, o, s, memory, count) model_run(n, m, o, s, memory, count)

static double workspace[1 << 14] __attribute__((aligned(64)));

int main(void)
{
    model_sizes sizes = {4, 4};
    double x[12] = {0}, y[4] = {0}, result[4], zero = 0;
    model_inputs inputs = {x, y};
    model_outputs outputs = {result};
    model_state state, before;
    size_t room = model_workspace(&sizes), i;
    const int64_t large[] = {INT64_MIN, -1, INT64_C(1) << 40, INT64_C(1) << 59, INT64_C(1) << 62, INT64_MAX};

    if (room == 0 || room > sizeof(workspace) || model_state_init(&state) != 0 || model_state_init(NULL) != MODEL_NULL)
        return 4;
    if (model_state_size() != sizeof(state) || model_workspace(NULL) != 0)
        return 5;
    EXPECT(0, RUN(&sizes, &inputs, &outputs, &state, workspace, room));
    EXPECT(0, RUN(&sizes, &inputs, &outputs, &state, workspace, sizeof(workspace)));
    EXPECT(MODEL_NULL, RUN(NULL, &inputs, &outputs, &state, workspace, room));
    EXPECT(MODEL_NULL, RUN(&sizes, NULL, &outputs, &state, workspace, room));
    EXPECT(MODEL_NULL, RUN(&sizes, &inputs, NULL, &state, workspace, room));
    EXPECT(MODEL_NULL, RUN(&sizes, &inputs, &outputs, NULL, workspace, room));
    EXPECT(MODEL_NULL, RUN(&sizes, &inputs, &outputs, &state, NULL, room));
    EXPECT(MODEL_WORKSPACE, RUN(&sizes, &inputs, &outputs, &state, workspace, room - 1));
    EXPECT(MODEL_WORKSPACE, RUN(&sizes, &inputs, &outputs, &state, workspace, 0));
    EXPECT(MODEL_MISALIGNED, RUN(&sizes, &inputs, &outputs, &state, (char *)workspace + 8, room));
    for (i = 0; i < sizeof(large) / sizeof(large[0]); i++) {
        const size_t which = i;
        int got;
        sizes.T = sizes.B = large[i];
        got = RUN(&sizes, &inputs, &outputs, &state, workspace, sizeof(workspace));
        if (got != MODEL_SIZE && got != MODEL_WORKSPACE)
            return 6;
        if (got == MODEL_SIZE && model_workspace(&sizes) != 0)
            return 7;
        sizes.T = 4;
        got = RUN(&sizes, &inputs, &outputs, &state, workspace, sizeof(workspace));
        if (got != MODEL_SIZE && got != MODEL_WORKSPACE && got > -100)
            return 8;
        i = which;
    }
    sizes.T = 4;
    sizes.B = 5;
    EXPECT(-100, RUN(&sizes, &inputs, &outputs, &state, workspace, sizeof(workspace)));
    sizes.B = 4;
    inputs.x = NULL;
    EXPECT(MODEL_NULL, RUN(&sizes, &inputs, &outputs, &state, workspace, room));
    inputs.x = x;
    outputs.output = NULL;
    EXPECT(MODEL_NULL, RUN(&sizes, &inputs, &outputs, &state, workspace, room));
    outputs.output = result;
    for (i = 0; i < 12; i++)
        x[i] = zero / zero;
    EXPECT(0, RUN(&sizes, &inputs, &outputs, &state, workspace, room));
    if (result[0] == result[0] || state.total[0] == state.total[0])
        return 9;
    sizes.T = sizes.B = 0;
    inputs.x = inputs.y = NULL;
    outputs.output = NULL;
    EXPECT(0, RUN(&sizes, &inputs, &outputs, &state, workspace, sizeof(workspace)));
    return 0;
}
"""


def test_a_status_and_nothing_written(tmp_path: Path) -> None:
    x, y = sj.tensor(("T", 3), name="x"), sj.tensor(("B",), name="y")
    total = sj.shared(np.zeros(1), "total")
    h = sj.scan(lambda row, h: 0.5 * h + row.sum(), x, sj.constant(0.0))
    f = sj.function([x, y], h + y, updates={total: total + h.sum()})
    sj.export_library(f, tmp_path, kind="object")
    (tmp_path / "hostile.c").write_text(PROGRAM)
    printed("cc", *SANITIZED, "hostile.c", "model.c", "model_code.o", "-o", "hostile", folder=tmp_path)
    printed("./hostile", folder=tmp_path)
