// Losses whose target is spread over the classes. A part of rows.cpp.

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

// With a divergence, what sums_of_divergence finds, the largest class taken for the target.
template <class Real>
void levels_of_spread(const Row<Real> &row, const Call &, Batch &batch, int64_t t) {
  double weighted = 0, level = 0;
  for (int64_t start = 0; start < row.padded; start += BLOCK) {
    Vector<Real> sum_ed{}, sum_d{};
    for (int64_t i = start; i < end_of_block(row, start); i += Lanes<Real>::count) {
      sum_ed += at(row.z, i) * at(row.d, i);
      sum_d += at(row.d, i);
    }
    weighted += sum<Real>(sum_ed);
    level += sum<Real>(sum_d);
  }
  batch.weighted[t] = weighted / batch.total[t];
  batch.level[t] = level;
  batch.good &= fabs(level) < 1e30; // not with masked classes
}

// How much β = 1 and β itself would pull, of the targets as given: not smoothed.
template <class Real>
void pulls_of_spread(const Row<Real> &row, const Call &call, Batch &batch, int64_t t) {
  const int64_t place = batch.place[t], target = batch.target[t];
  const double total = 1 + batch.odds[t] * batch.total[t], beta = exp(call.parameter);
  const double plain = sigmoid(batch.xi[t]), own = sigmoid(batch.xi[t] - batch.parameter[t]);
  auto add = [&](int64_t c, double share) {
    const double e = row.z[c] * batch.odds[t], rest = total - e;
    batch.plain[t] += share * (c == place ? plain : rest / total);
    batch.pull[t] += share * (c == place ? own : rest / (rest + e * (row.betas ? row.betas[c] : beta)));
  };
  batch.plain[t] = batch.pull[t] = 0;
  auto weight = [&](int64_t c) { return call.weight ? call.weight[c] : 1; };
  if (call.target_type >= INT64) return add(target, weight(target));
  for (int64_t c = 0; c < row.classes; c++) {
    const int64_t from = target + c * call.of_target.classes;
    add(c, weight(c) * element(call.target, call.target_type, from));
  }
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

// The same with λ·D of every class. Let a_i be exponentials in units of the largest one, l_i their
// logarithms, S_c the sum of a_i and W_c that of a_i l_i/S_c over the classes besides c. D(q‖u) is
// W_c - log(S_c/(C-1)), and D(u‖q) is log(S_c/(C-1)) less the mean of l_i. With b_c = y_c/S_c the
// derivatives are sums over the classes besides i: a_i (l_i Σ b - Σ b W) and a_i Σ b - Σ y/(C-1).
template <class Real>
void finish_spread_divergence(const Row<Real> &row, const Call &call, Batch &batch, int64_t t) {
  constexpr int N = Lanes<Real>::count;
  const int64_t place = batch.place[t];
  const double kappa = batch.odds[t], others = batch.total[t], total = 1 + kappa * others;
  const double lead = -batch.gap[t], number = double(row.classes - 1), share = row.shares[place];
  const double to = call.to_uniform, from = call.from_uniform, level = batch.level[t] / number;
  const double mass = batch.log_total[t] - log(number);
  const Spread<Real> of{Real(kappa), Real(total), Real(lead), 0, 0};
  const Real all_weighted = Real(kappa * (batch.weighted[t] - lead) * others);
  const Real each = Real(1 / number), mean = Real(level - lead);
  const Vector<Real> beta = all<Real>(Real(exp(call.parameter)));
  // with a class as the target: its share, S, 1/S, S + β a, W and l
  struct Of {
    Vector<Real> y, rest, per, sum_of_all, weighted, l;
  };
  auto with = [&](int64_t i) {
    const Vector<Real> e = at(row.z, i) * of.kappa, rest = of.total - e, per = 1 / rest;
    const Vector<Real> b = row.betas ? at(row.betas, i) : beta, l = at(row.d, i) - of.lead;
    return Of{at(row.shares, i), rest, per, rest + e * b, (all_weighted - e * l) * per, l};
  };
  double loss = share * (batch.loss[t] + to * (batch.weighted[t] - mass) + from * (mass - level));
  double sum_a = 0, sum_b = 0, sum_bw = 0, sum_y = 0;
  row.shares[place] = 0;
  for (int64_t start = 0; start < row.padded; start += BLOCK) {
    Vector<Real> losses{}, a{}, b{}, bw{}, ys{};
    for (int64_t i = start; i < end_of_block(row, start); i += N) {
      const Of c = with(i);
      const Vector<Real> log_fair = logarithm<Real>(c.rest * each);
      const Vector<Real> decay = logarithm<Real>(c.sum_of_all) - c.l;
      const Vector<Real> to_level = c.weighted - log_fair, from_level = log_fair - mean + c.l * each;
      losses += c.y * (decay + to_level * Real(to) + from_level * Real(from));
      a += c.y / c.sum_of_all;
      b += c.y * c.per;
      bw += c.y * c.per * c.weighted;
      ys += c.y;
    }
    loss += sum<Real>(losses);
    sum_a += sum<Real>(a);
    sum_b += sum<Real>(b);
    sum_bw += sum<Real>(bw);
    sum_y += sum<Real>(ys);
  }
  batch.loss[t] = loss;
  batch.good &= fabs(loss) < 1e30;
  if (!call.gradient) return;
  const double unit = over_tau(batch.scale[t], call), pull = share * batch.slope[t];
  const Real to_unit = Real(unit * to), from_unit = Real(unit * from), back = Real(-unit * total);
  const Real common = Real(unit * (pull / others + kappa * sum_a)), best = Real(share / others);
  const Real linear = Real(sum_b), constant = Real(sum_bw), center = Real(batch.weighted[t]);
  const Real shares = Real(share + sum_y);
  fill_gradient(row, [&](int64_t i) {
    const Of c = with(i);
    const Vector<Real> e = at(row.z, i), b = linear - c.y * c.per;
    const Vector<Real> bw = constant - c.y * c.per * c.weighted;
    const Vector<Real> to_level = (c.l * b - bw) * of.kappa + (at(row.d, i) - center) * best;
    const Vector<Real> from_level = e * (b * of.kappa + best) - (shares - c.y) * each;
    return e * (to_level * to_unit + common) + from_level * from_unit + c.y / c.sum_of_all * back;
  });
  const double rest = to * -sum_bw + from * (sum_b - sum_y / number);
  row.gradient[place] = Real(unit * (sum_a - pull + rest));
}
