// Passes over matrices that go with the products of features and class weights: what turns inner
// products into cosines or angles, and the way back.
//
// The file is compiled once for every set of instructions, with WIDTH and PASS.
#include "call.h"
#include "lanes.h"
#include <cmath>

namespace {

using Floats = Vector<float>;
constexpr int64_t N = Lanes<float>::count;
constexpr int64_t BLOCK = 4096;   // entries of a row whose sum is kept in float32
constexpr int64_t ROWS = 64;      // rows of a column for which that holds
constexpr double SHORT = 1e-18, LONG = 1e18; // squares of lengths that need no care
constexpr float SMALLEST = 2.384185791015625e-7f; // sin² of what a float32 cosine resolves

inline Floats read(const float *from) {
  Floats v;
  memcpy(&v, from, sizeof v);
  return v;
}

inline void write(float *to, Floats v) { memcpy(to, &v, sizeof v); }

double product(const float *a, const float *b, int64_t count) {
  double total = 0;
  int64_t i = 0;
  while (i + 4 * N <= count) {
    Floats sums[4] = {};
    const int64_t end = i + BLOCK < count ? i + BLOCK : count;
    for (; i + 4 * N <= end; i += 4 * N)
      for (int k = 0; k < 4; k++) sums[k] += read(a + i + k * N) * read(b + i + k * N);
    total += sum<float>((sums[0] + sums[1]) + (sums[2] + sums[3]));
  }
  for (; i < count; i++) total += double(a[i]) * b[i];
  return total;
}

// The inverse lengths of rows; false if one is so short or long that squares might be lost.
bool lengths(const Pass &pass, int64_t begin, int64_t end) {
  for (int64_t r = begin; r < end; r++) {
    const float *row = pass.left + r * pass.columns;
    const double square = product(row, row, pass.columns);
    if (!(square > SHORT && square < LONG)) return false;
    pass.out[r] = float(1 / sqrt(square));
  }
  return true;
}

// The arccosine of what lies between -1 and 1, to 2e-7: from the arcsine of x, or beyond one half
// of √((1 - |x|)/2). (asin x/x - 1)/x² on x² ≤ 1/4 has the least relative error of asin x.
inline float arccosine(float x) {
  const float size = fabsf(x), t = size > 0.5f ? (1 - size) * 0.5f : x * x;
  const float base = size > 0.5f ? sqrtf(t) : x;
  float p = 0.04216630073f;
  p = p * t + 0.02417951876f;
  p = p * t + 0.0454703753f;
  p = p * t + 0.07495297646f;
  p = p * t + 0.1666675248f;
  const float sine = base + base * (t * p);
  const float outer = x > 0 ? 2 * sine : 3.14159265f - 2 * sine;
  return size > 0.5f ? outer : 1.57079633f - sine;
}

// Products times factors of rows and columns in their place, and the angles of which those are
// the cosines.
bool spread(const Pass &pass, int64_t begin, int64_t end) {
  const int64_t columns = pass.columns;
  const float *by = pass.of_columns;
  const float scale = float(pass.scale);
  for (int64_t r = begin; r < end; r++) {
    float *row = pass.out + r * columns;
    const float factor = pass.of_rows ? pass.of_rows[r] : 1;
    for (int64_t c = 0; c < columns; c++) row[c] *= factor * by[c];
    if (pass.index) pass.own[r] = row[pass.index[r]];
    if (!pass.angle) continue;
    float *__restrict angles = pass.angles + r * columns;
    for (int64_t c = 0; c < columns; c++) {
      float x = row[c] < 1 ? row[c] : 1; // NaN becomes 1 here, and is put back below
      x = x > -1 ? x : -1;
      const float angle = arccosine(x) * scale;
      angles[c] = row[c] == row[c] ? angle : row[c];
    }
  }
  return true;
}

// A gradient of logits to one of inner products, with the sums over samples of the gradient times
// the cosines, for some columns of one row.
template <bool angle>
inline void collect_row(const float *grad, const float *logits, float *out, const float *by,
                        float *sums, float row, float scale, int64_t count) {
  for (int64_t c = 0; c < count; c++) {
    float g = grad[c];
    if (angle) {
      const float square = 1 - logits[c] * logits[c];
      g *= -scale / sqrtf(square > SMALLEST ? square : SMALLEST);
    }
    sums[c] += g * logits[c];
    out[c] = g * (row * by[c]);
  }
}

template <bool angle> void collect_stripe(const Pass &pass, int64_t begin, int64_t count) {
  double totals[STRIPE] = {};
  float sums[STRIPE], grads[STRIPE], others[STRIPE];
  for (int64_t start = 0; start < pass.rows; start += ROWS) {
    const int64_t end = start + ROWS < pass.rows ? start + ROWS : pass.rows;
    for (int64_t c = 0; c < count; c++) sums[c] = 0;
    for (int64_t r = start; r < end; r++) {
      const int64_t place = r * pass.columns + begin;
      const float *grad = pass.left + place, *logits = pass.right + place;
      const int64_t target = pass.index ? pass.index[r] - begin : -1;
      if (target >= 0 && target < count) {
        memcpy(grads, grad, size_t(count) * sizeof(float));
        memcpy(others, logits, size_t(count) * sizeof(float));
        grads[target] = pass.own_left[r];
        others[target] = pass.own_right[r];
        grad = grads;
        logits = others;
      }
      collect_row<angle>(grad, logits, pass.out + place, pass.of_columns + begin, sums,
                         pass.of_rows ? pass.of_rows[r] : 1, float(pass.scale), count);
    }
    for (int64_t c = 0; c < count; c++) totals[c] += sums[c];
  }
  for (int64_t c = 0; c < count; c++) pass.sums[begin + c] = float(totals[c]);
}

bool collect(const Pass &pass, int64_t begin, int64_t end) {
  for (int64_t stripe = begin; stripe < end; stripe++) {
    const int64_t start = stripe * STRIPE, rest = pass.columns - start;
    const int64_t count = rest < STRIPE ? rest : STRIPE;
    if (pass.angle) collect_stripe<true>(pass, start, count);
    else collect_stripe<false>(pass, start, count);
  }
  return true;
}

// To each row of out, so much of the same row of left: given, or such that nothing is left along
// it, with its inverse length in of_rows.
bool away(const Pass &pass, int64_t begin, int64_t end) {
  for (int64_t r = begin; r < end; r++) {
    float *out = pass.out + r * pass.columns;
    const float *along = pass.left + r * pass.columns;
    float factor;
    if (pass.own_left) {
      factor = pass.own_left[r];
    } else {
      const double inverse = pass.of_rows[r];
      factor = float(-product(out, along, pass.columns) * inverse * inverse);
    }
    for (int64_t c = 0; c < pass.columns; c++) out[c] += factor * along[c];
  }
  return true;
}

} // namespace

extern "C" __attribute__((visibility("hidden"))) bool PASS(const Pass &pass, int64_t begin,
                                                          int64_t end) {
  switch (pass.step) {
  case LENGTHS: return lengths(pass, begin, end);
  case SPREAD: return spread(pass, begin, end);
  case COLLECT: return collect(pass, begin, end);
  default: return away(pass, begin, end);
  }
}
