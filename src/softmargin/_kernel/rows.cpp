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

// Whether there is a λ·D.
inline bool diverges(const Call &call) { return call.to_uniform != 0 || call.from_uniform != 0; }

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

// How much β = 1 and β itself pull.
template <class Real>
void pulls_of_target(const Row<Real> &, const Call &, Batch &batch, int64_t t) {
  batch.plain[t] = batch.weight[t] * sigmoid(batch.xi[t]);
  batch.pull[t] = batch.weight[t] * sigmoid(batch.xi[t] - batch.parameter[t]);
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

#include "spread.h"
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
