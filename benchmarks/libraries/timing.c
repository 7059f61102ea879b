/* Times an engine: timing PATH SIGNAL BLOCKS FOUND. Prints microseconds, writes the first outputs into FOUND. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "engine.h"

#define SAMPLES 4096

static double now(clockid_t clock)
{
    struct timespec found;
    clock_gettime(clock, &found);
    return 1e6 * (double)found.tv_sec + 1e-3 * (double)found.tv_nsec;
}

/* How often this thread had to wait for others. */
static long disturbed(void)
{
    struct rusage found;
    getrusage(RUSAGE_THREAD, &found);
    return found.ru_nivcsw + found.ru_minflt + found.ru_majflt;
}

static int ascending(const void *a, const void *b)
{
    const double one = *(const double *)a, other = *(const double *)b;
    return (one > other) - (one < other);
}

int main(int count, char **arguments)
{
    static float x[SAMPLES], y[SAMPLES];
    const long blocks = count == 5 ? atol(arguments[3]) : 0;
    double *wall = calloc((size_t)blocks + 1, sizeof(double)), *quiet = calloc((size_t)blocks + 1, sizeof(double));
    double began, first, cpu;
    long i, kept = 0;
    FILE *file = count == 5 ? fopen(arguments[2], "rb") : NULL;
    if (file == NULL || wall == NULL || quiet == NULL || fread(x, sizeof(x), 1, file) != 1)
        return 2;
    fclose(file);
    began = now(CLOCK_MONOTONIC);
    start(arguments[1]);
    block(x, y);
    first = now(CLOCK_MONOTONIC) - began;
    for (i = 1; i < SAMPLES / BLOCK; i++)
        block(x + i * BLOCK, y + i * BLOCK);
    file = fopen(arguments[4], "wb");
    fwrite(y, sizeof(y), 1, file);
    fclose(file);
    cpu = now(CLOCK_THREAD_CPUTIME_ID);
    for (i = 0; i < blocks; i++) {
        const long at = i % (SAMPLES / BLOCK) * BLOCK, before = disturbed();
        const double begin = now(CLOCK_MONOTONIC);
        block(x + at, y + at);
        wall[i] = now(CLOCK_MONOTONIC) - begin;
        if (disturbed() == before)
            quiet[kept++] = wall[i];
    }
    cpu = (now(CLOCK_THREAD_CPUTIME_ID) - cpu) / (double)blocks;
    qsort(wall, (size_t)blocks, sizeof(double), ascending);
    qsort(quiet, (size_t)kept, sizeof(double), ascending);
    printf("{\"first\": %.1f, \"cpu\": %.2f, \"median\": %.2f, \"p999\": %.2f, \"worst\": %.1f, \"alone\": %.1f, "
           "\"disturbed\": %ld}\n",
        first, cpu, wall[blocks / 2], wall[blocks - 1 - blocks / 1000], wall[blocks - 1],
        kept > 0 ? quiet[kept - 1] : 0.0, blocks - kept);
    return 0;
}
