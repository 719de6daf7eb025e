// A few rows of logits at a time, while they are in cache: losses, and gradients in their place.
//
// The file is compiled once for every set of instructions, with WIDTH and COPY.
#include "elements.h"
#include "forms.h"
#include "lanes.h"
#include <cmath>
#include <cstdlib>

namespace {

template <class Real> struct Row {
  const Real *logits; // where they are, or a copy of them in z
  Real *gradient;     // where it goes, or z
  Real *z;           // logits or exponentials, padded to whole vectors
  Real *d, *shares;  // more of the same size, where they are needed
  const Real *betas; // one per class, or null; and their logarithms
  const Real *log_betas;
  int64_t classes, padded; // padded: a multiple of the lanes
  int64_t step;            // from one row of logits to the next
};

template <class Real> inline Vector<Real> &at(Real *values, int64_t i) {
  return *reinterpret_cast<Vector<Real> *>(values + i);
}
template <class Real> inline const Vector<Real> &at(const Real *values, int64_t i) {
  return *reinterpret_cast<const Vector<Real> *>(values + i);
}

// Vectors anywhere in memory.
template <class Real> inline Vector<Real> read(const Real *values, int64_t i) {
  Vector<Real> v;
  memcpy(&v, values + i, sizeof v);
  return v;
}
template <class Real> inline void write(Real *values, int64_t i, Vector<Real> v) {
  memcpy(values + i, &v, sizeof v);
}

template <class Real> inline void pad(Real *values, const Row<Real> &row, Real value) {
  for (int64_t i = row.classes; i < row.padded; i++) values[i] = value;
}

// The logits as vectors, with others in the place of the target and after the last class: the
// function is given the place of each vector and the vector. Which vector has the target is not
// asked: the processor could not guess it. With `prefetch`, memory is asked for what comes next
// meanwhile: the logits of the next row, and the place of this row's gradient.
template <bool masked, bool prefetch, class Real, class Function>
inline void each_logit(const Row<Real> &row, int64_t begin, int64_t end, int64_t target,
                       Real instead, Function function) {
  constexpr int64_t N = Lanes<Real>::count;
  const int64_t whole = row.classes / N * N;
  using Lane = decltype(lanes<Real>()[0] + 0);
  Signed<Real> lane = lanes<Real>() + Lane(begin - target);
  auto without_target = [&](Vector<Real> v) {
    if (!masked) return v;
    v = lane == 0 ? all<Real>(instead) : v;
    lane += Lane(N);
    return v;
  };
  const Real *logits = row.logits, *gradient = row.gradient;
  const Vector<Real> last = read_first(logits + whole, row.classes - whole, instead);
  for (int64_t i = begin; i < end; i += N) {
    if (prefetch) {
      __builtin_prefetch(logits + i + row.step, 0, 3);
      __builtin_prefetch(gradient + i, 1, 2);
    }
    function(i, without_target(i < whole ? read(logits, i) : last));
  }
}

// The gradient as vectors: the function returns the one of a place.
template <class Real, class Function>
inline void fill_gradient(const Row<Real> &row, Function function) {
  constexpr int64_t N = Lanes<Real>::count;
  const int64_t whole = row.classes / N * N;
  for (int64_t i = 0; i < whole; i += N) write(row.gradient, i, function(i));
  if (whole < row.classes) write_first(row.gradient + whole, row.classes - whole, function(whole));
}

// Sums over a row: a block in vectors, the blocks in double.
constexpr int64_t BLOCK = 4096;

template <class Real> inline int64_t end_of_block(const Row<Real> &row, int64_t start) {
  return start + BLOCK < row.padded ? start + BLOCK : row.padded;
}

// A division takes as long as all else that a row has one of.
inline double over_tau(double value, const Call &call) {
  return call.tau == 1 ? value : value / call.tau;
}

// The vectors of some rows folded into a number each: the function is given row and number.
template <class Real, class Fold, class Function>
inline void fold_rows(const Vector<Real> *vectors, int64_t count, Fold of_two, Function function) {
  constexpr int N = Lanes<Real>::count;
  for (int64_t first = 0; first < count; first += N) {
    const int64_t left = count - first < N ? count - first : N;
    alignas(64) Real numbers[N];
    at(numbers, 0) = fold_each<Real, N>(vectors + first, left, of_two);
    for (int64_t t = 0; t < left; t++) function(first + t, numbers[t]);
  }
}

// A loss of one target class: with q the softmax over the others, the derivative is slope·q_i for
// the others and -slope for the target.
template <class Real>
void rivals_of_targets(const Row<Real> *rows, const Call &call, Batch &batch, int64_t count) {
  Vector<Real> best[TILE];
  for (int64_t t = 0; t < count; t++) {
    Vector<Real> own = all<Real>(Lanes<Real>::lowest);
    if (batch.counted[t])
      each_logit<true, false>(rows[t], 0, rows[t].padded, batch.place[t], Real(-INFINITY),
                              [&](int64_t, Vector<Real> z) { own = larger(z, own); });
    best[t] = own;
  }
  auto larger_one = [](auto a, auto b) { return larger(a, b); };
  fold_rows<Real>(best, count, larger_one, [&](int64_t t, Real rival) {
    if (!batch.counted[t]) return;
    batch.rival[t] = rival;
    batch.gap[t] = over_tau(batch.rival[t] - rows[t].logits[batch.place[t]], call);
  });
}

// Exponentials of all logits in z, e^0 at most. Returns their sums by lane in the last block, and
// adds those of other blocks to the total.
template <bool divided, class Real>
inline Vector<Real> exponentials(const Row<Real> &row, const Call &call, Real rival, double &total) {
  const Real divisor = Real(call.tau);
  Vector<Real> part{}, zero{};
  for (int64_t start = 0; start < row.padded; start += BLOCK) {
    if (start) total += sum<Real>(part);
    part = zero;
    each_logit<false, true>(row, start, end_of_block(row, start), 0, Real(-INFINITY),
                            [&](int64_t i, Vector<Real> z) {
                              Vector<Real> d = smaller(zero, z - rival); // NaN stays
                              if (divided) d /= divisor;
                              part += at(row.z, i) = exponential<Real>(d);
                            });
  }
  return part;
}

// The exponentials and their sum. Those of the others are not above 0 and one of them is 0: what is
// added for the target can be taken off again without loss.
template <bool divided, class Real>
void sums_of_targets(const Row<Real> *rows, const Call &call, Batch &batch, int64_t count) {
  Vector<Real> parts[TILE];
  double totals[TILE];
  for (int64_t t = 0; t < count; t++) {
    totals[t] = 0;
    parts[t] = Vector<Real>{};
    if (batch.counted[t])
      parts[t] = exponentials<divided>(rows[t], call, Real(batch.rival[t]), totals[t]);
  }
  auto sum_of_two = [](auto a, auto b) { return a + b; };
  fold_rows<Real>(parts, count, sum_of_two, [&](int64_t t, Real part) {
    if (!batch.counted[t]) return;
    const double total = totals[t] + part - rows[t].z[batch.place[t]];
    batch.total[t] = total < Lanes<Real>::tiny ? Lanes<Real>::tiny : total; // NaN stays
  });
}

template <class Real>
void gradient_of_target(const Row<Real> &row, const Call &call, Batch &batch, int64_t t) {
  const double pull = over_tau(batch.scale[t] * batch.slope[t], call);
  const Real factor = Real(pull / batch.total[t]);
  fill_gradient(row, [&](int64_t i) { return at(row.z, i) * factor; });
  row.gradient[batch.place[t]] = Real(-pull);
}

// The same with λ·D, how far the others are from level. With d_i = z_i - rival, the derivatives
// are q_i (d_i - Σ q d) for D(q‖u) and q_i - 1/(C-1) for D(u‖q). Not with masked classes.
template <class Real>
void sums_of_divergence(const Row<Real> &row, const Call &call, Batch &batch, int64_t t) {
  const int64_t target = batch.place[t];
  const Real rival = Real(batch.rival[t]), divisor = Real(call.tau);
  double total = 0, weighted = 0, level = 0;
  for (int64_t start = 0; start < row.padded; start += BLOCK) {
    Vector<Real> sum_e{}, sum_ed{}, sum_d{};
    // with the rival in the place of the target, e^0 and 0 are added to the sums
    each_logit<true, true>(row, start, end_of_block(row, start), target, rival,
                 [&](int64_t i, Vector<Real> z) {
                   Vector<Real> d = z - rival;
                   if (call.tau != 1) d /= divisor;
                   const Vector<Real> e = exponential<Real>(d);
                   at(row.z, i) = e;
                   at(row.d, i) = d;
                   sum_e += e;
                   sum_ed += e * d;
                   sum_d += d;
                 });
    total += sum<Real>(sum_e);
    weighted += sum<Real>(sum_ed);
    level += sum<Real>(sum_d);
  }
  batch.total[t] = total - double(row.padded - row.classes + 1);
  batch.weighted[t] = weighted / batch.total[t];
  batch.level[t] = level;
  batch.good &= fabs(level) < 1e30;
}

template <class Real>
void finish_divergence(const Row<Real> &row, const Call &call, Batch &batch, int64_t t) {
  const double others = double(row.classes - 1), mass = batch.log_total[t] - log(others);
  batch.loss[t] += call.to_uniform * (batch.weighted[t] - mass);
  batch.loss[t] += call.from_uniform * (mass - batch.level[t] / others);
  if (!call.gradient) return;
  const double unit = over_tau(batch.scale[t], call), each = unit / batch.total[t];
  const double pull = batch.slope[t] + call.from_uniform - call.to_uniform * batch.weighted[t];
  const Real constant = Real(each * pull), linear = Real(each * call.to_uniform);
  const Real less = Real(unit * call.from_uniform / others);
  fill_gradient(row, [&](int64_t i) {
    return at(row.z, i) * (at(row.d, i) * linear + constant) - less;
  });
  row.gradient[batch.place[t]] = Real(-unit * batch.slope[t]);
}

// A loss whose target is spread over the classes, Σ y_c·loss_c. With e_i in units of the largest
// logit's exponential, T their sum and S_c = T - e_c, ∂ξ_c/∂z_i is e_i/S_c, and -1 for i = c. So
// with a_c = y_c·slope_c/S_c the gradient is e_i Σ a - T a_i. For the largest class S_c is summed
// without it, since T - e_c would cancel; everything about that class is in the batch.
template <class Real>
void rival_of_best(const Row<Real> &row, const Call &call, Batch &batch, int64_t t) {
  constexpr int N = Lanes<Real>::count;
  Vector<Real> best = all<Real>(-INFINITY), next = best;
  each_logit<false, false>(row, 0, row.padded, 0, Real(-INFINITY), [&](int64_t, Vector<Real> z) {
    next = larger(smaller(z, best), next);
    best = larger(z, best);
  });
  const Real first = maximum<Real>(best);
  int64_t place = 0;
  while (place < row.classes - 1 && row.logits[place] != first) place++;
  // in its lane the second largest is the runner-up, in the others the best one
  best[place % N] = next[place % N];
  batch.rival[t] = maximum<Real>(best);
  batch.gap[t] = over_tau(batch.rival[t] - first, call);
  batch.place[t] = place;
  if (call.log_betas) batch.parameter[t] = call.log_betas[place];
}

template <class Real>
void sums_of_spread(const Row<Real> &row, const Call &call, Batch &batch, int64_t t) {
  const int64_t place = batch.place[t];
  const Real second = Real(batch.rival[t]), divisor = Real(call.tau);
  double total = 0;
  for (int64_t start = 0; start < row.padded; start += BLOCK) {
    Vector<Real> part{};
    each_logit<true, true>(row, start, end_of_block(row, start), place, Real(-INFINITY),
                 [&](int64_t i, Vector<Real> z) {
                   Vector<Real> d = z - second;
                   if (call.tau != 1) d /= divisor;
                   at(row.d, i) = d;
                   part += at(row.z, i) = exponential<Real>(d);
                 });
    total += sum<Real>(part);
  }
  batch.total[t] = total;
  row.d[place] = 0;
  pad(row.d, row, Real(0));
  pad(row.shares, row, Real(0));
}

template <class Real> struct Spread {
  Real kappa, total, lead, log_total, gamma;
};

// The loss of some classes, and slope/S_c: log p_c is d_c - lead - log T
template <class Real, int form>
inline Vector<Real> by_class(const Spread<Real> &of, Vector<Real> e, Vector<Real> d,
                             Vector<Real> beta, Vector<Real> log_beta, Vector<Real> &loss) {
  const Vector<Real> em = e * of.kappa, rest = of.total - em;
  if constexpr (form == FOCAL) {
    const Vector<Real> sure = rest / of.total, minus_log_p = of.lead + of.log_total - d;
    Vector<Real> power = sure * sure;
    if (of.gamma == 1) power = sure;
    else if (of.gamma != 2) power = exponential<Real>(logarithm<Real>(sure) * of.gamma);
    loss = minus_log_p * power;
    return power * (1 + minus_log_p * em / rest * of.gamma) / of.total;
  }
  const Vector<Real> sum_of_all = rest + em * beta, zero{};
  const Split<Real> parts = split<Real>(sum_of_all);
  if constexpr (form == SOFTPLUS) {
    // log(1 + u) with u = S_c/(β e_c): by u itself where it is small
    const Vector<Real> u = rest / (em * beta);
    const auto small = u < Real(0.4);
    const Split<Real> chosen{small ? u : parts.f, small ? zero : parts.exponent};
    loss = logarithm<Real>(chosen) + (small ? zero : of.lead - d - log_beta);
  } else {
    loss = logarithm<Real>(parts) + (of.lead - d);
  }
  return 1 / sum_of_all;
}

template <class Real, int form>
void finish_spread(const Row<Real> &row, const Call &call, Batch &batch, int64_t t) {
  constexpr int N = Lanes<Real>::count;
  const double kappa = batch.odds[t], others = batch.total[t], total = 1 + kappa * others;
  const double share = row.shares[batch.place[t]];
  double loss = share * batch.loss[t], sum_a = 0;
  row.shares[batch.place[t]] = 0;
  const Vector<Real> beta = all<Real>(form == FOCAL ? 1 : Real(exp(call.parameter)));
  const Vector<Real> log_beta = all<Real>(Real(call.parameter));
  const Spread<Real> of{Real(kappa), Real(total), Real(-batch.gap[t]),
                        Real(form == FOCAL ? log(total) : 0), Real(call.parameter)};
  for (int64_t start = 0; start < row.padded; start += BLOCK) {
    const int64_t end = end_of_block(row, start);
    Vector<Real> losses{}, sums{};
    for (int64_t i = start; i < end; i += N) {
      Vector<Real> each, y = at(row.shares, i);
      const Vector<Real> b = row.betas ? at(row.betas, i) : beta;
      const Vector<Real> log_b = row.betas ? at(row.log_betas, i) : log_beta;
      const Vector<Real> a = y * by_class<Real, form>(of, at(row.z, i), at(row.d, i), b, log_b, each);
      at(row.shares, i) = a;
      losses += y * each;
      sums += a;
    }
    loss += sum<Real>(losses);
    sum_a += sum<Real>(sums);
  }
  batch.loss[t] = loss;
  batch.good &= fabs(loss) < 1e30; // not with masked classes, infinities, NaN
  if (!call.gradient) return;
  const double unit = over_tau(batch.scale[t], call), pull = share * batch.slope[t];
  const Real common = Real(unit * (pull / others + kappa * sum_a)), back = Real(-unit * total);
  fill_gradient(row, [&](int64_t i) {
    return at(row.z, i) * common + at(row.shares, i) * back;
  });
  row.gradient[batch.place[t]] = Real(unit * (sum_a - pull));
}

#include "measure.h"
#include "walk.h"

} // namespace

extern "C" __attribute__((visibility("hidden"))) void MEASURE(const Measure &call, int64_t begin,
                                                             int64_t end) {
  auto each = [&](auto *logits) {
    for (int64_t r = begin; r < end; r++)
      measure_row(call, logits + r * call.stride, r, call.numbers + r, call.rows);
  };
  if (call.logits_type == FLOAT64) each(static_cast<const double *>(call.logits));
  else each(static_cast<const float *>(call.logits));
}

extern "C" __attribute__((visibility("hidden"))) bool TALLY(const Tallied &tallied, int64_t begin,
                                                           int64_t end) {
  const auto tally = tallied.call->logits_type == FLOAT64 ? tally_rows<double> : tally_rows<float>;
  for (int64_t tile = begin; tile < end; tile++)
    if (!tally(tallied, tile)) return false;
  return true;
}

extern "C" __attribute__((visibility("hidden"))) bool COPY(const Plan &plan, int64_t begin,
                                                          int64_t end) {
  switch (plan.call->logits_type) {
  case FLOAT64: return walk<double, double>(plan, begin, end);
  case BFLOAT16: return walk<float, Brain>(plan, begin, end);
  case FLOAT16: return walk<float, Half>(plan, begin, end);
  default: return walk<float, float>(plan, begin, end);
  }
}
