// RTNeural, whose sizes are known when it is compiled. PATH is the file of the weights.
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <RTNeural/RTNeural.h>

#include "engine.h"

constexpr int UNITS = 40;
static RTNeural::ModelT<float, 1, 1, RTNeural::LSTMLayerT<float, 1, UNITS>, RTNeural::DenseT<float, UNITS, 1>> model;

static std::vector<std::vector<float>> matrix(std::FILE *file, int rows, int columns)
{
    std::vector<std::vector<float>> found(rows, std::vector<float>(columns));
    for (auto &row : found)
        if (std::fread(row.data(), sizeof(float), row.size(), file) != row.size())
            std::exit(3);
    return found;
}

void start(const char *path)
{
    std::FILE *file = std::fopen(path, "rb");
    if (file == nullptr)
        std::exit(4);
    auto &lstm = model.get<0>();
    lstm.setWVals(matrix(file, 1, 4 * UNITS));
    lstm.setUVals(matrix(file, UNITS, 4 * UNITS));
    lstm.setBVals(matrix(file, 1, 4 * UNITS)[0]);
    model.get<1>().setWeights(matrix(file, 1, UNITS));
    const float bias[] = {0};
    model.get<1>().setBias(bias);
    std::fclose(file);
    model.reset();
}

void block(const float *x, float *y)
{
    for (int i = 0; i < BLOCK; i++)
        y[i] = x[i] + model.forward(x + i);
}
