// The losses as functions of the log-odds ξ: value and derivative of several samples, in double.
#pragma once
#include "call.h"
#include "lanes.h"
#include <cmath>

namespace {

typedef Vector<double> Doubles;

// What is known of a few rows: one number per row each. The first ones are found row by row.
struct Batch {
  alignas(64) double gap[TILE]; // (rival - own logit)/τ, without the logarithm of the total
  alignas(64) double total[TILE]; // Σ e^((z - rival)/τ) over the others
  alignas(64) double parameter[TILE];
  alignas(64) double xi[TILE], log_total[TILE], loss[TILE], slope[TILE], odds[TILE];
  double rival[TILE];                 // the largest of the other logits
  double weighted[TILE], level[TILE]; // Σ e d / total, and Σ d
  double scale[TILE], weight[TILE];
  double plain[TILE], pull[TILE]; // with compensation: weight times sigmoid(ξ) and sigmoid(ξ - log β)
  int64_t target[TILE]; // the class, or where probabilities begin
  int64_t place[TILE];  // the class, or the largest one
  bool counted[TILE];
  bool good = true; // false if a row needs what only the other path does
};

inline Doubles log_one_plus(Doubles u) {
  const auto small = u < 0.4;
  const Doubles zero{};
  Split<double> parts = split<double>(1 + u);
  return logarithm<double>(Split<double>{small ? u : parts.f, small ? zero : parts.exponent});
}

inline Doubles magnitude(Doubles x) { return x > 0 ? x : -x; }

// log(β + e^ξ), or without log β: the derivative is sigmoid(ξ - log β), which does not cancel
inline void decay(Doubles xi, Doubles log_beta, bool floored, Doubles &loss, Doubles &slope) {
  const Doubles one = all<double>(1), zero{}, x = xi - log_beta;
  const Doubles small = exponential<double>(-magnitude(x));
  slope = (x >= 0 ? one : small) / (1 + small);
  loss = floored ? (x > 0 ? x : zero) : (x > 0 ? xi : log_beta);
  loss += log_one_plus(small) + 0 * small; // a NaN stays one
}

// (1 - p)^γ·(-log p), with 1 - p = sigmoid(ξ)
inline void focal(Doubles xi, double gamma, Doubles &loss, Doubles &slope) {
  const Doubles one = all<double>(1), zero{}, odds = exponential<double>(-magnitude(xi));
  const Doubles rest = log_one_plus(odds) + 0 * odds, share = 1 / (1 + odds);
  const Doubles entropy = (xi > 0 ? xi : zero) + rest;
  const Doubles sure = (xi >= 0 ? one : odds) * share, other = (xi >= 0 ? odds : one) * share;
  Doubles power = one;
  if (gamma == 2) power = sure * sure;
  else if (gamma != 0) power = exponential<double>(((xi > 0 ? zero : xi) - rest) * gamma);
  loss = power * entropy;
  // where the entropy is large, possibly infinite, `other` has long been 0
  slope = power * (other * smaller(entropy, all<double>(1e3)) * gamma + sure);
}

inline double sigmoid(double x) {
  const double small = exp(-fabs(x));
  return (x >= 0 ? 1 : small) / (1 + small);
}

// ξ, loss and slope from what the rows have found
inline void evaluate(Batch &batch, int32_t form, double gamma, int64_t rows, bool spread) {
  auto of = [](double *values, int64_t i) -> Doubles & {
    return *reinterpret_cast<Doubles *>(values + i);
  };
  for (int64_t i = 0; i < rows; i += Lanes<double>::count) {
    const Doubles total = of(batch.total, i), log_total = logarithm<double>(total) + 0 * total;
    const Doubles xi = of(batch.gap, i) + log_total;
    Doubles loss, slope;
    if (form == FOCAL) focal(xi, gamma, loss, slope);
    else decay(xi, of(batch.parameter, i), form == SOFTPLUS, loss, slope);
    of(batch.log_total, i) = log_total;
    of(batch.xi, i) = xi;
    of(batch.loss, i) = loss;
    of(batch.slope, i) = slope;
    // κ = e^(-lead), where the gap is that of the largest class, not above 0
    if (spread) of(batch.odds, i) = exponential<double>(of(batch.gap, i));
  }
}

} // namespace
