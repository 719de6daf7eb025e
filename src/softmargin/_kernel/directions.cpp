// Cosines and angles: what turns inner products of features and class weights into them, and the
// way back.
//
// The file is compiled once for every set of instructions, with WIDTH and DIRECTIONS.
#include "angle.h"
#include "call.h"
#include "lanes.h"
#include <cmath>

namespace {

using Floats = Vector<float>;
constexpr int64_t N = Lanes<float>::count;
constexpr int64_t BLOCK = 4096;   // entries of a row whose sum is kept in float32
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
bool lengths(const float *vectors, float *inverse, int64_t size, int64_t begin, int64_t end) {
  for (int64_t r = begin; r < end; r++) {
    const float *row = vectors + r * size;
    const double square = product(row, row, size);
    if (!(square > SHORT && square < LONG)) return false;
    inverse[r] = float(1 / sqrt(square));
  }
  return true;
}

// What a target's cosine becomes by the margin, and the derivative.
struct Moved {
  double value, slope;
};

// cos(θ + m) from cos θ, which is not close to 1 or -1.
inline Moved at_larger_angle(double c, double m) {
  const double sine = sqrt(1 - c * c);
  return {c * cos(m) - sine * sin(m), cos(m) + c / sine * sin(m)};
}

// (λ cos θ + ψ(θ))/(1 + λ) with ψ = (-1)^j cos(kθ) - 2j and j = floor(kθ/π).
Moved at_multiple(double c, int32_t k, double anneal) {
  double before = 1, now = c, slope_before = 0, slope = 1;
  int steps = 0;
  for (int i = 1; i < k; i++) {
    const double next = 2 * c * now - before, next_slope = 2 * (now + c * slope) - slope_before;
    before = now;
    now = next;
    slope_before = slope;
    slope = next_slope;
    steps += c <= cos(3.14159265358979323846 * i / k);
  }
  const double sign = steps % 2 ? -1 : 1;
  return {(anneal * c + sign * now - 2 * steps) / (1 + anneal), (anneal + sign * slope) / (1 + anneal)};
}

inline Moved moved(const Directions &call, double c) {
  const double m = call.amount;
  switch (call.margin) {
  case COSINE: return {c - m, 1};
  case ANGLE: return c >= -cos(m) ? at_larger_angle(c, m) : Moved{c - m * sin(m), 1};
  case ANGLE_IF_EASY: return c > 0 ? at_larger_angle(c, m) : Moved{c, 1};
  case ANGLE_ALWAYS: return at_larger_angle(c, m);
  case MULTIPLE: return at_multiple(c, call.multiple, call.anneal);
  default: return {c, 1};
  }
}

inline bool takes_angle(const Directions &call) {
  return call.angles || (call.margin >= ANGLE && call.margin <= ANGLE_ALWAYS);
}

double exact_cosine(const Directions &call, int64_t r, int64_t c) {
  const float *x = call.features + r * call.size, *w = call.weight + c * call.size;
  double both = 0, of_x = 0, of_w = 0;
  for (int64_t i = 0; i < call.size; i++) {
    both += double(x[i]) * w[i];
    of_x += double(x[i]) * x[i];
    of_w += double(w[i]) * w[i];
  }
  return both / sqrt(of_x * of_w);
}

// The target's class; an ignored sample has one, too, which does not matter.
inline int64_t class_of(const Directions &call, int64_t r) {
  return call.target[r] == call.ignore_index ? 0 : call.target[r];
}

inline double factor_of(const Directions &call, int64_t r) {
  return call.angles ? call.x_inverse[r] : call.scale == 0 ? 1 : call.scale * call.x_inverse[r];
}

// The target's entry of a row of logits, and what the way back needs of it.
bool at_target(const Share &share, int64_t r, float *row) {
  const Directions &call = *share.call;
  const int64_t target = class_of(call, r);
  if (target < 0 || target >= call.classes) return false;
  const double size = call.angles ? 1 : call.scale == 0 ? 1 / call.x_inverse[r] : call.scale;
  double cosine = row[target] / size;
  if (!(fabs(cosine) <= 0.9)) {
    if (takes_angle(call)) __atomic_store_n(&share.close, true, __ATOMIC_RELAXED);
    else if (call.margin != NO_MARGIN) cosine = exact_cosine(call, r, target);
  }
  call.own[r] = float(cosine);
  const Moved result = moved(call, cosine);
  call.slope[r] = float(result.slope);
  call.rest[r] = float((result.value - result.slope * cosine) * call.x_inverse[r]);
  if (call.margin != NO_MARGIN) row[target] = float(result.value * size);
  return true;
}

// Products to logits in their place, and the angles of which those are the cosines.
bool logits(const Share &share, int64_t begin, int64_t end) {
  const Directions &call = *share.call;
  const float *__restrict by = call.w_inverse;
  const float scale = float(call.scale);
  if (!lengths(call.features, call.x_inverse, call.size, begin, end)) return false;
  for (int64_t r = begin; r < end; r++) {
    float *__restrict row = call.logits + r * call.classes;
    const float factor = float(factor_of(call, r));
    for (int64_t c = 0; c < call.classes; c++) row[c] *= factor * by[c];
    if (call.target && !at_target(share, r, row)) return false;
    if (!call.angles) continue;
    float *__restrict angles = call.angles + r * call.classes;
    for (int64_t c = 0; c < call.classes; c++) {
      float x = row[c] < 1 ? row[c] : 1;
      x = x > -1 ? x : -1;
      const float angle = arccosine(x) * scale;
      angles[c] = row[c] == row[c] ? angle : row[c];
    }
  }
  return true;
}

// 1/√x: instructions for a root and a division take as long as all else that is done with a cosine.
inline Floats inverse_root(Floats x) {
#if defined(X86) && WIDTH == 64
  const Floats guess = _mm512_rsqrt14_ps(x);
  return guess + 0.5f * guess * (1.0f - x * guess * guess); // one step of Newton's
#else
  Floats root;
  for (int i = 0; i < N; i++) root[i] = sqrtf(x[i]);
  return 1.0f / root;
#endif
}

// A gradient of logits to one of products, for some columns of one row. The gradient times the
// cosines is added to the sums over samples; its sum over the columns is returned.
template <bool angle>
inline float gradient_of_row(const float *__restrict grad, const float *__restrict logits,
                             float *__restrict out, const float *__restrict by,
                             float *__restrict sums, float row, float scale, int64_t count) {
  float both[STRIPE] = {}, slopes[STRIPE];
  for (int64_t c = 0; angle && c < count; c += N) { // of the arccosine
    const Floats v = c + N <= count ? read(logits + c) : read_first(logits + c, count - c, 0.0f);
    write(slopes + c, -scale * inverse_root(larger(1.0f - v * v, all<float>(SMALLEST))));
  }
  for (int64_t c = 0; c < count; c++) {
    const float g = angle ? grad[c] * slopes[c] : grad[c];
    both[c] = g * logits[c];
    sums[c] += both[c];
    out[c] = g * (row * by[c]);
  }
  Floats total{};
  for (int64_t c = 0; c < STRIPE; c += N) total += read(both + c);
  return float(sum<float>(total));
}

inline void times(float *__restrict to, const float *__restrict vector, double factor, int64_t size) {
  for (int64_t i = 0; i < size; i++) to[i] = float(factor) * vector[i];
}

// What lies along the features is taken off, since their length counts for nothing; or it is the
// size of the logits, and only the margin changes it. `along` is the sum of gradient times cosine.
void of_features(const Directions &call, int64_t r, double along) {
  double factor = 0;
  if (call.scale != 0) factor = -along * call.x_inverse[r] * call.x_inverse[r];
  else if (call.target)
    factor = double(call.grad[r * call.classes + class_of(call, r)]) * call.rest[r];
  times(call.of_features + r * call.size, call.features + r * call.size, factor, call.size);
}

template <bool angle> void gradient_of_block(const Directions &call, int64_t block) {
  float grads[STRIPE], others[STRIPE], *sums = call.sums + block * call.classes;
  const int64_t first = block * ROWS, last = first + ROWS < call.samples ? first + ROWS : call.samples;
  memset(sums, 0, size_t(call.classes) * sizeof(float));
  for (int64_t r = first; r < last; r++) {
    const int64_t target = call.target ? class_of(call, r) : -1;
    double along = 0;
    for (int64_t begin = 0; begin < call.classes; begin += STRIPE) {
      const int64_t rest = call.classes - begin, count = rest < STRIPE ? rest : STRIPE;
      const int64_t place = r * call.classes + begin, own = target - begin;
      const float *grad = call.grad + place, *logits = call.logits + place;
      if (own >= 0 && own < count) { // there the logit is another function of the cosine
        const double size = angle ? 1 : call.scale == 0 ? 1 / call.x_inverse[r] : call.scale;
        memcpy(grads, grad, size_t(count) * sizeof(float));
        memcpy(others, logits, size_t(count) * sizeof(float));
        grads[own] *= call.slope[r];
        others[own] = float(call.own[r] * size);
        grad = grads;
        logits = others;
      }
      along += gradient_of_row<angle>(grad, logits, call.of_products + place, call.w_inverse + begin,
                                      sums + begin, float(factor_of(call, r)), float(call.scale), count);
    }
    if (call.of_features) of_features(call, r, along);
  }
}

bool gradient(const Directions &call, int64_t begin, int64_t end) {
  for (int64_t block = begin; block < end; block++) {
    if (call.angles) gradient_of_block<true>(call, block);
    else gradient_of_block<false>(call, block);
  }
  return true;
}

bool of_weight(const Directions &call, int64_t begin, int64_t end) {
  for (int64_t c = begin; c < end; c++) {
    const double along = over_blocks(call.sums, call.samples, call.classes, c);
    const double inverse = call.w_inverse[c];
    times(call.of_weight + c * call.size, call.weight + c * call.size, -along * inverse * inverse,
          call.size);
  }
  return true;
}

} // namespace

extern "C" __attribute__((visibility("hidden"))) bool DIRECTIONS(const Share &share, int64_t begin,
                                                                int64_t end) {
  const Directions &call = *share.call;
  switch (share.part) {
  case W_LENGTHS: return lengths(call.weight, call.w_inverse, call.size, begin, end);
  case LOGITS: return logits(share, begin, end);
  case GRADIENT: return gradient(call, begin, end);
  default: return of_weight(call, begin, end);
  }
}
