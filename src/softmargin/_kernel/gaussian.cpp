// One Gaussian per class: what goes with the products of (x, x²) and the weights of the classes.
//
// The file is compiled once for every set of instructions, with WIDTH and GAUSSIAN.
#include "call.h"
#include "lanes.h"
#include <cmath>

namespace {

using Floats = Vector<float>;
constexpr int64_t N = Lanes<float>::count;
constexpr int64_t BLOCK = 4096;    // entries of a row whose sum is kept in float32
constexpr float MODERATE = 60;     // logarithms of variances that need no care

// A vector of a row, with zeros after its end.
inline Floats read(const float *row, int64_t i, int64_t size) {
  if (i + N > size) return read_first(row + i, size - i, 0.0f);
  Floats v;
  memcpy(&v, row + i, sizeof v);
  return v;
}

inline void write(float *row, int64_t i, int64_t size, Floats v) {
  if (i + N <= size) memcpy(row + i, &v, sizeof v);
  else write_first(row + i, size - i, v);
}

inline int64_t class_of(const Gaussian &call, int64_t r) {
  return call.target[r] == call.ignore_index ? 0 : call.target[r];
}

// Means times precisions and -½ precisions side by side, and what the products lack.
bool weights(const Gaussian &call, int64_t begin, int64_t end) {
  const int64_t size = call.size;
  for (int64_t c = begin; c < end; c++) {
    const float *mean = call.mean + c * size, *log_variance = call.log_variance + c * size;
    float *weighted = call.weights + c * call.row, *halves = weighted + size;
    double total = 0, log_det = 0;
    Floats worst{};
    for (int64_t start = 0; start < size; start += BLOCK) {
      const int64_t stop = start + BLOCK < size ? start + BLOCK : size;
      Floats sums{}, logs{};
      for (int64_t i = start; i < stop; i += N) {
        const Floats m = read(mean, i, size) - read(call.centre, i, size);
        const Floats v = read(log_variance, i, size);
        const Floats p = exponential<float>(-v), w = m * p;
        worst = larger(v * v, worst);
        sums += m * w;
        logs += v;
        write(weighted, i, size, w);
        write(halves, i, size, -0.5f * p);
      }
      total += sum<float>(sums);
      log_det += sum<float>(logs);
    }
    total += log_det;
    if (!(maximum<float>(worst) < MODERATE * MODERATE && fabs(total) < 1e30)) return false;
    call.constant[c] = float(-0.5 * total);
    call.constant[call.classes + c] = float(-0.5 * log_det);
  }
  return true;
}

// Features less the centre and their squares side by side.
bool inputs(const Gaussian &call, int64_t begin, int64_t end) {
  for (int64_t r = begin; r < end; r++) {
    if (class_of(call, r) < 0 || class_of(call, r) >= call.classes) return false;
    const float *x = call.features + r * call.size;
    float *__restrict apart = call.inputs + r * call.row, *__restrict squares = apart + call.size;
    for (int64_t i = 0; i < call.size; i++) {
      apart[i] = x[i] - call.centre[i];
      squares[i] = apart[i] * apart[i];
    }
  }
  return true;
}

// The targets' own logits: from the distance itself, times 1 + α.
bool own(const Gaussian &call, int64_t begin, int64_t end) {
  const int64_t size = call.size;
  for (int64_t r = begin; r < end; r++) {
    const int64_t c = class_of(call, r);
    const float *x = call.features + r * size, *mean = call.mean + c * size;
    const float *halves = call.weights + c * call.row + size;
    double distance = 0;
    for (int64_t start = 0; start < size; start += BLOCK) {
      const int64_t stop = start + BLOCK < size ? start + BLOCK : size;
      Floats sums{};
      for (int64_t i = start; i < stop; i += N) {
        const Floats e = read(x, i, size) - read(mean, i, size);
        sums -= e * e * read(halves, i, size);
      }
      distance += sum<float>(sums);
    }
    call.logits[r * call.classes + c] =
        float(call.constant[call.classes + c] - (1 + call.margin) * distance);
  }
  return true;
}

// The gradient of the logits without the targets' own, and its sums over the samples of a block.
bool others(const Gaussian &call, int64_t begin, int64_t end) {
  for (int64_t block = begin; block < end; block++) {
    const int64_t first = block * ROWS;
    const int64_t last = first + ROWS < call.samples ? first + ROWS : call.samples;
    float *__restrict sums = call.sums + block * call.classes;
    memset(sums, 0, size_t(call.classes) * sizeof(float));
    for (int64_t r = first; r < last; r++) {
      const float *__restrict grad = call.grad + r * call.classes;
      float *__restrict out = call.of_products + r * call.classes;
      const int64_t target = class_of(call, r);
      const float before = sums[target];
      for (int64_t c = 0; c < call.classes; c++) {
        out[c] = grad[c];
        sums[c] += grad[c];
      }
      out[target] = 0;
      sums[target] = before;
    }
  }
  return true;
}

// How much of (x - μ)/σ² the target adds to the features' gradient, and of its square to the
// logarithm of the variance.
inline float pull_of(const Gaussian &call, int64_t r) {
  return float(-(1 + call.margin) * call.grad[r * call.classes + class_of(call, r)]);
}

bool of_features(const Gaussian &call, int64_t begin, int64_t end) {
  const int64_t size = call.size;
  for (int64_t r = begin; r < end; r++) {
    const int64_t c = class_of(call, r);
    const float *__restrict x = call.features + r * size, *__restrict mean = call.mean + c * size;
    const float *__restrict halves = call.weights + c * call.row + size;
    const float *__restrict apart = call.inputs + r * call.row;
    const float *__restrict linear = call.of_inputs + r * 2 * size, *__restrict square = linear + size;
    float *__restrict to = call.of_features + r * size;
    const float pull = -2 * pull_of(call, r);
    for (int64_t i = 0; i < size; i++)
      to[i] = linear[i] + 2 * apart[i] * square[i] + pull * halves[i] * (x[i] - mean[i]);
  }
  return true;
}

// From the gradients of the weights, in their place, to those of means and log-variances.
bool of_classes(const Gaussian &call, int64_t begin, int64_t end) {
  const int64_t size = call.size;
  for (int64_t c = begin; c < end; c++) {
    const float *__restrict mean = call.mean + c * size, *__restrict centre = call.centre;
    const float *__restrict halves = call.weights + c * call.row + size;
    float *__restrict of_mean = call.of_mean + c * size;
    float *__restrict of_log = call.of_log_variance + c * size;
    const float all = float(over_blocks(call.sums, call.samples, call.classes, c));
    for (int64_t i = 0; i < size; i++) {
      const float m = mean[i] - centre[i], p = -2 * halves[i], pull = of_mean[i];
      of_mean[i] = p * (pull - all * m);
      of_log[i] = p * (0.5f * of_log[i] - m * (pull - 0.5f * all * m)) - 0.5f * all;
    }
  }
  return true;
}

// The targets' own part of them, by columns: several samples may have one class.
bool of_targets(const Gaussian &call, int64_t begin, int64_t end) {
  const int64_t size = call.size, first = begin * STRIPE;
  const int64_t last = end * STRIPE < size ? end * STRIPE : size;
  for (int64_t r = 0; r < call.samples; r++) {
    const int64_t c = class_of(call, r);
    const float *__restrict x = call.features + r * size, *__restrict mean = call.mean + c * size;
    const float *__restrict halves = call.weights + c * call.row + size;
    float *__restrict of_mean = call.of_mean + c * size;
    float *__restrict of_log = call.of_log_variance + c * size;
    const float pull = pull_of(call, r), half = 0.5f * call.grad[r * call.classes + c];
    for (int64_t i = first; i < last; i++) {
      const float e = x[i] - mean[i], pulled = pull * halves[i] * e;
      of_mean[i] += 2 * pulled;
      of_log[i] += pulled * e - half;
    }
  }
  return true;
}

} // namespace

extern "C" __attribute__((visibility("hidden"))) bool GAUSSIAN(const GaussianShare &share,
                                                              int64_t begin, int64_t end) {
  const Gaussian &call = *share.call;
  switch (share.part) {
  case WEIGHTS: return weights(call, begin, end);
  case INPUTS: return inputs(call, begin, end);
  case OWN: return own(call, begin, end);
  case OTHERS: return others(call, begin, end);
  case TO_FEATURES: return of_features(call, begin, end);
  case TO_CLASSES: return of_classes(call, begin, end);
  default: return of_targets(call, begin, end);
  }
}
