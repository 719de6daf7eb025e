// Products of matrices that fit in cache, and what goes with them. Rows of results are whole
// vectors: what is beyond their columns is there, and does not matter.
#pragma once
#include "lanes.h"
#include <cstdlib>
#include <utility>

namespace {

// So many numbers as fill whole vectors.
template <class Real> inline int64_t whole(int64_t count) {
  constexpr int64_t N = Lanes<Real>::count;
  return (count + N - 1) / N * N;
}

// One piece of memory for everything that a model needs: counted first, then given out.
template <class Real> struct Room {
  Real *memory = nullptr;
  int64_t used = 0;

  ~Room() { free(memory); }

  // Whether to go on: the second time with memory, if it can be had.
  bool start() {
    if (used) {
      void *found = nullptr;
      if (posix_memalign(&found, 64, size_t(used) * sizeof(Real))) return false;
      memory = static_cast<Real *>(found);
      memset(found, 0, size_t(used) * sizeof(Real));
    }
    used = 0;
    return true;
  }

  Real *take(int64_t count) {
    constexpr int64_t line = 64 / sizeof(Real);
    const int64_t begin = used;
    used += (count + line - 1) / line * line;
    return memory ? memory + begin : nullptr;
  }
};

template <class Real> inline Vector<Real> read(const Real *from) {
  Vector<Real> v;
  memcpy(&v, from, sizeof v);
  return v;
}

template <class Real> inline void write(Real *to, Vector<Real> v) { memcpy(to, &v, sizeof v); }

// What goes with a product: numbers to add to every entry of a row, or null, and ReLU.
template <class Real> struct Finish {
  const Real *start = nullptr;
  bool active = false;

  Finish from(int64_t row) const { return {start ? start + row : nullptr, active}; }
};

// Entry (r, k) is at r·row + k·column.
template <class Real> struct Left {
  const Real *data;
  int64_t row, column;
};

template <class Data> struct Lines {
  Data *data;
  int64_t stride;
};
template <class Real> using Right = Lines<const Real>;
template <class Real> using Result = Lines<Real>;

template <class Real, int rows, int vectors>
inline void block(Left<Real> a, Right<Real> b, Result<Real> out, int64_t depth, Finish<Real> finish) {
  constexpr int64_t N = Lanes<Real>::count;
  Vector<Real> sums[rows][vectors];
  for (int r = 0; r < rows; r++)
    for (int v = 0; v < vectors; v++) sums[r][v] = all<Real>(finish.start ? finish.start[r] : 0);
  for (int64_t k = 0; k < depth; k++) {
    Vector<Real> right[vectors];
    for (int v = 0; v < vectors; v++) right[v] = read(b.data + k * b.stride + v * N);
    for (int r = 0; r < rows; r++) {
      const Real left = a.data[r * a.row + k * a.column];
      for (int v = 0; v < vectors; v++) sums[r][v] += left * right[v];
    }
  }
  const Vector<Real> zero{};
  for (int r = 0; r < rows; r++)
    for (int v = 0; v < vectors; v++) {
      if (finish.active) sums[r][v] = sums[r][v] < zero ? zero : sums[r][v]; // a NaN stays one
      write(out.data + r * out.stride + v * N, sums[r][v]);
    }
}

template <class Real, int rows, int vectors>
inline int64_t blocks(Left<Real> a, Right<Real> b, Result<Real> out, int64_t r, int64_t count,
                      int64_t depth, Finish<Real> finish) {
  for (; r + rows <= count; r += rows)
    block<Real, rows, vectors>({a.data + r * a.row, a.row, a.column}, b,
                               {out.data + r * out.stride, out.stride}, depth, finish.from(r));
  return r;
}

template <class Real, int vectors>
inline void stripe(Left<Real> a, Right<Real> b, Result<Real> out, int64_t count, int64_t depth,
                   Finish<Real> finish) {
  int64_t r = 0;
  if (WIDTH == 64) r = blocks<Real, 8, vectors>(a, b, out, r, count, depth, finish);
  r = blocks<Real, 4, vectors>(a, b, out, r, count, depth, finish);
  r = blocks<Real, 2, vectors>(a, b, out, r, count, depth, finish);
  blocks<Real, 1, vectors>(a, b, out, r, count, depth, finish);
}

// (rows, columns) = (rows, depth)·(depth, columns). Columns are whole vectors.
template <class Real>
void product(Left<Real> a, Right<Real> b, Result<Real> out, int64_t rows, int64_t depth,
             int64_t columns, Finish<Real> finish = {}) {
  constexpr int64_t N = Lanes<Real>::count;
  int64_t c = 0;
  for (; c + 2 * N <= columns; c += 2 * N)
    stripe<Real, 2>(a, {b.data + c, b.stride}, {out.data + c, out.stride}, rows, depth, finish);
  for (; c < columns; c += N)
    stripe<Real, 1>(a, {b.data + c, b.stride}, {out.data + c, out.stride}, rows, depth, finish);
}

#if defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector)
#define SHUFFLES
#endif
#endif

#ifdef SHUFFLES
// Lanes of two rows that are exchanged when blocks of `half` beside the diagonal are.
template <int half, class V, int... lane>
inline void exchange(V &a, V &b, std::integer_sequence<int, lane...>) {
  constexpr int N = sizeof...(lane);
  const V upper = __builtin_shufflevector(a, b, (lane & half ? N + lane - half : lane)...);
  b = __builtin_shufflevector(a, b, (lane & half ? N + lane : lane + half)...);
  a = upper;
}

template <class Real, int half> inline void transpose_block(Vector<Real> *rows) {
  constexpr int N = Lanes<Real>::count;
  if constexpr (half > 0) {
    for (int r = 0; r < N; r++)
      if (!(r & half)) exchange<half>(rows[r], rows[r | half], std::make_integer_sequence<int, N>{});
    transpose_block<Real, half / 2>(rows);
  }
}
#endif

// Rows and columns are whole vectors.
template <class Real>
void transpose(const Real *from, int64_t stride, Real *to, int64_t to_stride, int64_t rows,
               int64_t columns) {
  constexpr int64_t N = Lanes<Real>::count;
  for (int64_t r = 0; r < rows; r += N)
    for (int64_t c = 0; c < columns; c += N) {
#ifdef SHUFFLES
      Vector<Real> square[N];
      for (int64_t i = 0; i < N; i++) square[i] = read(from + (r + i) * stride + c);
      transpose_block<Real, N / 2>(square);
      for (int64_t i = 0; i < N; i++) write(to + (c + i) * to_stride + r, square[i]);
#else
      for (int64_t i = 0; i < N; i++)
        for (int64_t j = 0; j < N; j++) to[(c + j) * to_stride + r + i] = from[(r + i) * stride + c + j];
#endif
    }
}

// The sum of so many rows of whole vectors.
template <class Real> void sum_rows(const Real *rows, int64_t width, Real *sums, int64_t count) {
  constexpr int64_t N = Lanes<Real>::count;
  for (int64_t c = 0; c < width; c += N) {
    Vector<Real> total{};
    for (int64_t r = 0; r < count; r++) total += read(rows + r * width + c);
    write(sums + c, total);
  }
}

template <class Real> double squares(const Real *values, int64_t count) {
  double total = 0;
  for (int64_t i = 0; i < count; i++) total += double(values[i]) * values[i];
  return total;
}

} // namespace
