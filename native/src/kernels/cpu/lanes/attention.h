// Attention over a cache: keys in blocks of 16 positions, values in rows.
#pragma once

#include "kernels/cpu/lanes/normalize.h"
#include "kernels/cpu/lanes/vector.h"

namespace kael::kernels::KAEL_INSTRUCTION_SET {
namespace {

static_assert(kKeyBlock == kLanes);

void store_key(const float* key, Index head_dimension, Index position, float* key_blocks) {
    float* column =
        key_blocks + position / kKeyBlock * kKeyBlock * head_dimension + position % kKeyBlock;
    for (Index d = 0; d < head_dimension; ++d) {
        column[d * kKeyBlock] = key[d];
    }
}

// Scores of `Rows` queries with `Blocks` blocks of keys, the lanes being positions. Meanwhile the
// keys `ahead` floats further are fetched: the blocks are too short for the processor's own
// prefetching (.83 of the bandwidth without, .93 with).
template <int Rows, int Blocks>
inline void score_blocks(const float* queries, Index ldq, const float* key_blocks,
                         Index head_dimension, Index ahead, float scale, float* scores, Index lds) {
    Vector sums[Rows][Blocks][kParts] = {};
    for (Index d = 0; d < head_dimension; ++d) {
        Vector keys[Blocks][kParts];
        KAEL_UNROLLED
        for (int block = 0; block < Blocks; ++block) {
            const float* const place = key_blocks + (block * head_dimension + d) * kKeyBlock;
            if constexpr (Rows == 1) {
                prefetch(place + ahead);
            }
            KAEL_UNROLLED
            for (int part = 0; part < kParts; ++part) {
                keys[block][part] = load(place + part * kWidth);
            }
        }
        KAEL_UNROLLED
        for (int row = 0; row < Rows; ++row) {
            const Vector query = broadcast(queries[row * ldq + d]);
            KAEL_UNROLLED
            for (int block = 0; block < Blocks; ++block) {
                KAEL_UNROLLED
                for (int part = 0; part < kParts; ++part) {
                    sums[row][block][part] =
                        fused(query, keys[block][part], sums[row][block][part]);
                }
            }
        }
    }
    const Vector factor = broadcast(scale);
    KAEL_UNROLLED
    for (int row = 0; row < Rows; ++row) {
        KAEL_UNROLLED
        for (int block = 0; block < Blocks; ++block) {
            KAEL_UNROLLED
            for (int part = 0; part < kParts; ++part) {
                store(scores + row * lds + block * kKeyBlock + part * kWidth,
                      sums[row][block][part] * factor);
            }
        }
    }
}

template <int Rows, int AtOnce>
inline void score_positions(const float* queries, Index ldq, const float* key_blocks,
                            Index head_dimension, Index positions, float scale, float* scores,
                            Index lds) {
    const Index size = kKeyBlock * head_dimension;
    const Index blocks = (positions + kKeyBlock - 1) / kKeyBlock;
    Index block = 0;
    for (; block + AtOnce <= blocks; block += AtOnce) {
        const bool more = (blocks - block) / AtOnce > 1;
        score_blocks<Rows, AtOnce>(queries, ldq, key_blocks + block * size, head_dimension,
                                   more ? size * AtOnce : 0, scale, scores + block * kKeyBlock,
                                   lds);
    }
    if constexpr (AtOnce > 1) {
        if (block < blocks) {
            score_positions<Rows, AtOnce / 2>(queries, ldq, key_blocks + block * size,
                                              head_dimension, positions - block * kKeyBlock, scale,
                                              scores + block * kKeyBlock, lds);
        }
    }
}

void attention_scores(const float* query, const float* key_blocks, Index head_dimension,
                      Index positions, float scale, float* scores) {
    constexpr int kBlocksAtOnce = kWidth == 4 && !kManyRegisters ? 2 : 4;
    score_positions<1, kBlocksAtOnce>(query, 0, key_blocks, head_dimension, positions, scale,
                                      scores, 0);
}

// One strip of outputs of `Rows` queries: the chains over the positions [begin, end), which go on
// from what `out` holds when begin is not 0.
template <int Rows, int Vectors, typename Get, typename Put>
inline void mix_strip(const float* weights, Index ldw, const float* values, Index ldv, Index begin,
                      Index end, float* out, Index ldo, Get get, Put put) {
    Vector sums[Rows][Vectors] = {};
    if (begin > 0) {
        KAEL_UNROLLED
        for (int row = 0; row < Rows; ++row) {
            KAEL_UNROLLED
            for (int v = 0; v < Vectors; ++v) {
                sums[row][v] = get(out + row * ldo + v * kWidth);
            }
        }
    }
    for (Index t = begin; t < end; ++t) {
        Vector value[Vectors];
        KAEL_UNROLLED
        for (int v = 0; v < Vectors; ++v) {
            value[v] = get(values + t * ldv + v * kWidth);
        }
        KAEL_UNROLLED
        for (int row = 0; row < Rows; ++row) {
            const Vector weight = broadcast(weights[row * ldw + t]);
            KAEL_UNROLLED
            for (int v = 0; v < Vectors; ++v) {
                sums[row][v] = fused(weight, value[v], sums[row][v]);
            }
        }
    }
    KAEL_UNROLLED
    for (int row = 0; row < Rows; ++row) {
        KAEL_UNROLLED
        for (int v = 0; v < Vectors; ++v) {
            put(out + row * ldo + v * kWidth, sums[row][v]);
        }
    }
}

template <int Rows, int Vectors>
inline void mix(const float* weights, Index ldw, const float* values, Index ldv,
                Index head_dimension, Index begin, Index end, float* out, Index ldo) {
    const auto get = [](const float* p) { return load(p); };
    const auto put = [](float* p, Vector v) { store(p, v); };
    Index d = 0;
    for (; d + Vectors * kWidth <= head_dimension; d += Vectors * kWidth) {
        mix_strip<Rows, Vectors>(weights, ldw, values + d, ldv, begin, end, out + d, ldo, get, put);
    }
    for (; d + kWidth <= head_dimension; d += kWidth) {
        mix_strip<Rows, 1>(weights, ldw, values + d, ldv, begin, end, out + d, ldo, get, put);
    }
    if (const Index rest = head_dimension - d; rest > 0) {
        mix_strip<Rows, 1>(
            weights, ldw, values + d, ldv, begin, end, out + d, ldo,
            [rest](const float* p) { return load_first(p, rest); },
            [rest](float* p, Vector v) { store_first(p, v, rest); });
    }
}

constexpr int kMixAlone = kWidth == 4 && !kManyRegisters ? 8 : 64 / kWidth;

void attention_mix(const float* weights, const float* values, Index ldv, Index head_dimension,
                   Index positions, float* out) {
    mix<1, kMixAlone>(weights, 0, values, ldv, head_dimension, 0, positions, out, 0);
}

// Consecutive queries go through in tiles of up to kQueryRows.
constexpr int kQueryRows = kWidth == 16 ? 8 : (kWidth == 8 || kManyRegisters ? 6 : 2);
constexpr int kMixTogether = kWidth == 4 && !kManyRegisters ? 4 : 2;
constexpr int kScoreBlocks = kWidth == 16 ? 2 : 1;

struct QueryTile {
    const float* queries;
    Index ldq;
    Index first; // position of the first query of the tile
    const float* key_blocks;
    const float* values;
    Index ldv;
    Index head_dimension;
    float scale;
    float* out;
    Index ldo;
    float* scores;
};

// Rows of scores do not lie a multiple of 4 KB apart: they would throw each other out of the cache.
constexpr Index score_stride(Index positions) {
    return round_up(positions, kKeyBlock) + kKeyBlock;
}

template <int Rows>
struct AttendTile {
    static void run(const QueryTile& tile) {
        const Index most = tile.first + Rows; // positions that the last row sees
        const Index lds = score_stride(most);
        score_positions<Rows, kScoreBlocks>(tile.queries, tile.ldq, tile.key_blocks,
                                            tile.head_dimension, most, tile.scale, tile.scores,
                                            lds);
        for (int row = 0; row < Rows; ++row) {
            softmax(tile.scores + row * lds, tile.first + 1 + row);
        }
        const Index common = tile.first + 1; // positions that every row sees
        mix<Rows, kMixTogether>(tile.scores, lds, tile.values, tile.ldv, tile.head_dimension, 0,
                                common, tile.out, tile.ldo);
        for (int row = 1; row < Rows; ++row) {
            mix<1, kMixAlone>(tile.scores + row * lds, 0, tile.values, tile.ldv,
                              tile.head_dimension, common, common + row, tile.out + row * tile.ldo,
                              0);
        }
    }
};

Index attention_scratch(Index positions) {
    return kQueryRows * score_stride(positions);
}

void attention_rows(const float* queries, Index ldq, Index rows, Index first,
                    const float* key_blocks, const float* values, Index ldv, Index head_dimension,
                    float scale, float* out, Index ldo, float* scratch) {
    for (Index row = 0; row < rows; row += kQueryRows) {
        run_tile<AttendTile, kQueryRows>(
            rows - row, QueryTile{queries + row * ldq, ldq, first + row, key_blocks, values, ldv,
                                  head_dimension, scale, out + row * ldo, ldo, scratch});
    }
}

} // namespace
} // namespace kael::kernels::KAEL_INSTRUCTION_SET
