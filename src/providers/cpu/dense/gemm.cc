#include "providers/cpu/dense/gemm.h"

#include <algorithm>
#include <cstring>

#include "core/checked.h"
#include "providers/cpu/dense/gemm_tile.h"
#include "providers/cpu/dense/tasks.h"

namespace ullage::dense {
namespace {

constexpr int64_t kLine = static_cast<int64_t>(kScratchAlignment / sizeof(float));

struct TileFloats {
  int64_t a, b, c;
  int64_t total() const { return a + b + c; }
};

TileFloats FloatsPerWorker(const GemmArgs& g) {
  const int64_t rows = std::min(AlignUp(g.m, kKernelRows), kTileRows);
  const int64_t cols = std::min(AlignUp(g.n, kPanel), kTileCols);
  const int64_t few = std::min(g.m <= 2 ? g.m : AlignUp(g.m, int64_t{4}), kKernelRows);
  TileFloats f;
  f.a = AlignUp(std::max(rows * std::min(g.k, kBlockK), few * std::min(g.k, kDeepK)), kLine);
  f.b = std::min(g.k, kBlockK) * kPanel;
  f.c = AlignUp((g.m <= 2 ? g.m : rows) * cols, kLine);
  return f;
}

int64_t Batches(const GemmArgs& g) {
  int64_t batches = 1;
  for (int i = 0; i < g.batch_rank; ++i) batches *= g.batch_dims[i];
  return batches;
}

/// Columns per task: as wide as the tile, less where there would be too few tasks for the team.
int64_t ColumnsPerTask(int64_t n, int64_t row_tiles, int threads) {
  int64_t cols = kTileCols;
  while (cols > kPanel && row_tiles * CeilDiv(n, cols) < 4 * int64_t{threads}) cols /= 2;
  return cols;
}

/// Rows [k0, k1) of columns n0… of a [k, n] source.
template <class T>
void PackPanelRows(const T* src, int64_t ld, int64_t n0, int64_t cols, int64_t k0, int64_t k1, T* panel) {
  for (int64_t kk = k0; kk < k1; ++kk) {
    std::memcpy(panel + kk * kPanel, src + kk * ld + n0, static_cast<size_t>(cols) * sizeof(T));
    std::memset(panel + kk * kPanel + cols, 0, static_cast<size_t>(kPanel - cols) * sizeof(T));
  }
}

template <class T>
void PackPanels(const T* src, bool transposed, int64_t ld, int64_t n, int64_t k, int64_t first, int64_t last,
                T* out) {
  for (int64_t p = first; p < last; ++p) {
    const int64_t n0 = p * kPanel, cols = std::min(kPanel, n - n0);
    T* panel = out + p * kPanel * k;
    if (!transposed) {
      PackPanelRows(src, ld, n0, cols, 0, k, panel);
      continue;
    }
    if (cols < kPanel) std::memset(panel, 0, static_cast<size_t>(kPanel * k) * sizeof(T));
    constexpr int64_t kSquare = 16;  // source lines that stay in the first-level cache
    for (int64_t k0 = 0; k0 < k; k0 += kSquare) {
      const int64_t k1 = std::min(k, k0 + kSquare);
      for (int64_t j = 0; j < cols; ++j) {
        const T* row = src + (n0 + j) * ld;
        for (int64_t kk = k0; kk < k1; ++kk) panel[kk * kPanel + j] = row[kk];
      }
    }
  }
}

}  // namespace

int64_t PackedBPanels(int64_t n) {
  return CeilDiv(n, kPanel);
}

size_t PackedBPanelBytes(int64_t k, DType dtype) {
  return CheckedMul(static_cast<size_t>(k), static_cast<size_t>(kPanel) * ElementBytes(dtype),
                    "packed weight");
}

size_t PackedBBytes(int64_t n, int64_t k, DType dtype) {
  return CheckedMul(static_cast<size_t>(PackedBPanels(n)), PackedBPanelBytes(k, dtype), "packed weight");
}

void PackB(ConstArray src, bool transposed, int64_t ld, int64_t n, int64_t k, int64_t first_panel,
           int64_t last_panel, void* packed) {
  if (ElementBytes(src.dtype) == 4) {
    PackPanels(static_cast<const uint32_t*>(src.data), transposed, ld, n, k, first_panel, last_panel,
               static_cast<uint32_t*>(packed));
  } else {
    PackPanels(static_cast<const uint16_t*>(src.data), transposed, ld, n, k, first_panel, last_panel,
               static_cast<uint16_t*>(packed));
  }
}

void PackBRows(ThreadTeam& team, ConstArray src, int64_t ld, int64_t n, int64_t k, int64_t first_row,
               int64_t last_row, void* packed) {
  constexpr int64_t kPanelsPerTask = 8;  // neighbours in a source row
  const auto pack = [&]<class T>(const T* from, T* out) {
    team.Run(CeilDiv(PackedBPanels(n), kPanelsPerTask), [&](int64_t task, int) {
      for (int64_t p = task * kPanelsPerTask; p < std::min(PackedBPanels(n), (task + 1) * kPanelsPerTask);
           ++p)
        PackPanelRows(from, ld, p * kPanel, std::min(kPanel, n - p * kPanel), first_row, last_row,
                      out + p * kPanel * k);
    });
  };
  if (ElementBytes(src.dtype) == 4)
    pack(static_cast<const uint32_t*>(src.data), static_cast<uint32_t*>(packed));
  else
    pack(static_cast<const uint16_t*>(src.data), static_cast<uint16_t*>(packed));
}

void PackB(ThreadTeam& team, ConstArray src, bool transposed, int64_t ld, int64_t n, int64_t k,
           void* packed) {
  team.Run(PackedBPanels(n), [&](int64_t p, int) { PackB(src, transposed, ld, n, k, p, p + 1, packed); });
}

size_t GemmScratchBytes(const GemmArgs& args, int threads) {
  return static_cast<size_t>(FloatsPerWorker(args).total()) * sizeof(float) * static_cast<size_t>(threads);
}

void Gemm(ThreadTeam& team, const GemmArgs& g, void* scratch) {
  const size_t a_bytes = ElementBytes(g.a.dtype), b_bytes = ElementBytes(g.b.dtype),
               c_bytes = ElementBytes(g.c.dtype);
  if (g.bias.data != nullptr) ElementBytes(g.bias.dtype);
  const int64_t batches = Batches(g);
  if (g.m == 0 || g.n == 0 || batches == 0) return;
  const TileFloats floats = FloatsPerWorker(g);
  const int64_t row_tiles = CeilDiv(g.m, kTileRows);
  const int64_t cols = ColumnsPerTask(g.n, row_tiles * batches, team.size());
  const int64_t col_tiles = CeilDiv(g.n, cols);
  const size_t b_matrix = g.b_packed ? PackedBBytes(g.n, g.k, g.b.dtype) : b_bytes;
  const double work = static_cast<double>(batches) * static_cast<double>(g.m) * static_cast<double>(g.n) *
                      static_cast<double>(g.k);
  RunTasks(team, batches * row_tiles * col_tiles, static_cast<int64_t>(std::min(work, 1e9)),
           [&](int64_t task, int worker) {
             int64_t batch = task / (row_tiles * col_tiles);
             const int64_t tile =
                 task % (row_tiles * col_tiles);  // the row tiles that share columns of B follow each other
             TileTask t;
             t.args = &g;
             t.m0 = tile % row_tiles * kTileRows;
             t.m1 = std::min(g.m, t.m0 + kTileRows);
             t.n0 = tile / row_tiles * cols;
             t.n1 = std::min(g.n, t.n0 + cols);
             int64_t a = 0, b = 0, c = 0;
             for (int i = g.batch_rank - 1; i >= 0; --i) {
               const int64_t index = batch % g.batch_dims[i];
               batch /= g.batch_dims[i];
               a += index * g.a_batch_strides[i];
               b += index * g.b_batch_strides[i];
               c += index * g.c_batch_strides[i];
             }
             t.a = static_cast<const std::byte*>(g.a.data) + a * static_cast<int64_t>(a_bytes);
             t.b = static_cast<const std::byte*>(g.b.data) + b * static_cast<int64_t>(b_matrix);
             t.c = static_cast<std::byte*>(g.c.data) + c * static_cast<int64_t>(c_bytes);
             t.bias = g.bias.data;
             t.scratch.a = static_cast<float*>(scratch) + worker * floats.total();
             t.scratch.b = t.scratch.a + floats.a;
             t.scratch.c = t.scratch.b + floats.b;
             RunGemmTile(t);
           });
}

}  // namespace ullage::dense
