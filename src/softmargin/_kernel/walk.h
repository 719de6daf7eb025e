// From tensors to rows and back: strides, types, targets, weights. A part of rows.cpp.

template <class Real> struct Scratch {
  Real *memory = nullptr;
  int64_t padded;

  Scratch(int64_t classes, int64_t rows) {
    constexpr int64_t line = 64 / sizeof(Real);
    padded = (classes + line - 1) / line * line;
    void *found = nullptr;
    if (posix_memalign(&found, 64, size_t(padded * rows) * sizeof(Real)) == 0)
      memory = static_cast<Real *>(found);
  }
  ~Scratch() { free(memory); }
  Real *row(int64_t i) const { return memory + i * padded; }
};

template <class Real, class Element>
void load(const Element *from, int64_t stride, Real *to, int64_t count) {
  if (stride == 1) {
    for (int64_t i = 0; i < count; i++) to[i] = Real(widen(from[i]));
  } else {
    for (int64_t i = 0; i < count; i++) to[i] = Real(widen(from[i * stride]));
  }
}

template <class Real, class Element>
void store(const Real *from, Element *to, int64_t stride, int64_t count) {
  if (stride == 1) {
    for (int64_t i = 0; i < count; i++) narrow(from[i], to[i]);
  } else {
    for (int64_t i = 0; i < count; i++) narrow(from[i], to[i * stride]);
  }
}

// Probabilities as shares of the loss, smoothed and weighted by class; false if one is negative by
// more than rounding.
template <class Real> bool load_shares(const Call &call, int64_t place, Real *shares) {
  const int64_t stride = call.of_target.classes, classes = call.classes;
  switch (call.target_type) {
  case FLOAT64: load(static_cast<const double *>(call.target) + place, stride, shares, classes); break;
  case BFLOAT16: load(static_cast<const Brain *>(call.target) + place, stride, shares, classes); break;
  case FLOAT16: load(static_cast<const Half *>(call.target) + place, stride, shares, classes); break;
  default: load(static_cast<const float *>(call.target) + place, stride, shares, classes);
  }
  Real least = 0;
  for (int64_t c = 0; c < classes; c++) least = shares[c] < least ? shares[c] : least;
  if (least < Real(-1e-3)) return false;
  const Real kept = Real(1 - call.smoothing), extra = Real(call.smoothing / double(classes));
  if (call.smoothing > 0)
    for (int64_t c = 0; c < classes; c++) shares[c] = shares[c] * kept + extra;
  if (call.weight)
    for (int64_t c = 0; c < classes; c++) shares[c] = Real(shares[c] * call.weight[c]);
  return true;
}

// A class as shares of the loss.
template <class Real>
void class_shares(const Call &call, int64_t target, const Real *smooth, Real *shares) {
  memcpy(shares, smooth, size_t(call.classes) * sizeof(Real));
  double share = 1 - call.smoothing;
  shares[target] += Real(call.weight ? share * call.weight[target] : share);
}

// Where the targets are, what losses and gradients are multiplied by; false if one is not allowed.
// `first` and `step` are the place of the first target and the way to the next.
template <class Real>
bool prepare(const Plan &plan, const Row<Real> *rows, const Real *smooth, Batch &batch,
             int64_t number, int64_t count, int64_t first, int64_t step) {
  const Call &call = *plan.call;
  for (int64_t t = 0; t < TILE; t++) {
    batch.weight[t] = 1;
    batch.scale[t] = plan.scale;
    batch.parameter[t] = call.parameter;
    batch.counted[t] = true;
    batch.gap[t] = 0;
    batch.total[t] = 1;
  }
  for (int64_t t = 0; call.upstream && t < count; t++)
    batch.scale[t] *= element(call.upstream, call.loss_type, call.reduction == NONE ? number + t : 0);
  for (int64_t t = 0; t < count; t++) {
    const int64_t place = first + t * step;
    if (call.target_type < INT64) {
      batch.target[t] = place;
      if (!load_shares(call, place, rows[t].shares)) return false;
      continue;
    }
    const int64_t target = class_at(call.target, call.target_type, place);
    batch.place[t] = batch.target[t] = target;
    batch.counted[t] = target != call.ignore_index;
    if (!batch.counted[t]) continue;
    if (call.log_betas) batch.parameter[t] = call.log_betas[target];
    if (smooth) {
      class_shares(call, target, smooth, rows[t].shares);
    } else if (call.weight) {
      batch.weight[t] = call.weight[target];
      batch.scale[t] *= batch.weight[t];
    }
  }
  return true;
}

// The steps of each kind of loss: the largest logit besides the target's, sums with it, what follows
// from them for all rows of the batch at once, gradients. Every step is taken by all rows before the
// next one is, so that no row waits for its own number.
template <auto step, class Real>
inline void each_row(const Row<Real> *rows, const Call &call, Batch &batch, int64_t count) {
  for (int64_t t = 0; t < count; t++)
    if (batch.counted[t]) step(rows[t], call, batch, t);
}

template <class Real>
void sums(const Row<Real> *rows, const Call &call, Batch &batch, int64_t count, bool soft) {
  if (soft) {
    each_row<rival_of_best<Real>>(rows, call, batch, count);
    each_row<sums_of_spread<Real>>(rows, call, batch, count);
    if (diverges(call)) each_row<levels_of_spread<Real>>(rows, call, batch, count);
    return;
  }
  rivals_of_targets(rows, call, batch, count);
  if (diverges(call)) each_row<sums_of_divergence<Real>>(rows, call, batch, count);
  else if (call.tau == 1) sums_of_targets<false>(rows, call, batch, count);
  else sums_of_targets<true>(rows, call, batch, count);
}

template <class Real>
void finish(const Row<Real> *rows, const Call &call, Batch &batch, int64_t count, bool soft) {
  if (call.compensate && soft) each_row<pulls_of_spread<Real>>(rows, call, batch, count);
  else if (call.compensate) each_row<pulls_of_target<Real>>(rows, call, batch, count);
  if (soft && diverges(call)) each_row<finish_spread_divergence<Real>>(rows, call, batch, count);
  else if (soft && call.form == FOCAL) each_row<finish_spread<Real, FOCAL>>(rows, call, batch, count);
  else if (soft && call.form == SOFTPLUS)
    each_row<finish_spread<Real, SOFTPLUS>>(rows, call, batch, count);
  else if (soft) each_row<finish_spread<Real, DECAY>>(rows, call, batch, count);
  else if (diverges(call)) each_row<finish_divergence<Real>>(rows, call, batch, count);
  else if (call.gradient) each_row<gradient_of_target<Real>>(rows, call, batch, count);
}

inline void record(const Plan &plan, const Batch &batch, int64_t t, int64_t number) {
  const double weight = batch.weight[t], loss = batch.loss[t];
  plan.losses[number] = weight == 0 && loss == INFINITY ? 0 : weight * loss;
  if (plan.plain) {
    plan.plain[number] = batch.plain[t];
    plan.own[number] = batch.pull[t];
  }
}

// Finds the logits of some samples and the places of their gradients. Where their type or strides
// do not let them be used as they are, they are copied; those that lie next to each other in
// memory are read and written together, a line of cache at a time.
template <class Real, class Element> struct Exchange {
  const Call &call;
  const Scratch<Real> &scratch;
  const Strides &strides;
  int64_t start, step, count;

  Exchange(const Call &call, const Scratch<Real> &scratch, const Strides &strides, int64_t outer,
           int64_t inner, int64_t count)
      : call(call), scratch(scratch), strides(strides), count(count) {
    start = outer * strides.outer + inner * strides.inner;
    step = call.inner > 1 ? strides.inner : strides.outer;
  }

  // whether the rows can be used where they are
  bool direct() const { return sizeof(Real) == sizeof(Element) && strides.classes == 1; }

  // the places of the rows
  template <class Data> auto *place(Data *data, int64_t t) const {
    return data + start + t * step;
  }

  void read_rows() const {
    auto *from = static_cast<const Element *>(call.logits);
    if (step != 1 || count == 1) {
      for (int64_t t = 0; t < count; t++)
        load(place(from, t), strides.classes, scratch.row(t), call.classes);
      return;
    }
    for (int64_t c = 0; c < call.classes; c++)
      for (int64_t t = 0; t < count; t++)
        scratch.row(t)[c] = Real(widen(from[start + c * strides.classes + t]));
  }

  void write_rows() const {
    auto *to = static_cast<Element *>(call.gradient);
    if (step != 1 || count == 1) {
      for (int64_t t = 0; t < count; t++)
        store(scratch.row(t), place(to, t), strides.classes, call.classes);
      return;
    }
    for (int64_t c = 0; c < call.classes; c++)
      for (int64_t t = 0; t < count; t++)
        narrow(scratch.row(t)[c], to[start + c * strides.classes + t]);
  }
};

// The gradient of a sample that does not count: 0, but NaN where PyTorch's is, too.
template <class Real> void ignore(const Row<Real> &row) {
  Real nothing = 0;
  for (int64_t i = 0; i < row.classes; i++) nothing += row.logits[i] < INFINITY ? 0 : NAN;
  for (int64_t i = 0; i < row.classes; i++) row.gradient[i] = nothing;
}

// What all rows of a stretch share.
template <class Real> struct Constants {
  Real *smooth, *betas, *log_betas;

  Constants(const Call &call, const Scratch<Real> &scratch, int64_t first, bool soft) {
    smooth = scratch.row(first);
    betas = scratch.row(first + 1);
    log_betas = scratch.row(first + 2);
    if (!soft) return;
    const double share = call.smoothing / double(call.classes);
    for (int64_t c = 0; c < call.classes; c++)
      smooth[c] = Real(call.weight ? share * call.weight[c] : share);
    for (int64_t c = 0; call.log_betas && c < scratch.padded; c++) {
      log_betas[c] = c < call.classes ? Real(call.log_betas[c]) : 0;
      betas[c] = c < call.classes ? Real(exp(call.log_betas[c])) : 1;
    }
  }
};

// Rows that are done together: as many as fit into the cache beside their gradients.
inline int64_t rows_together(const Call &call) {
  if (call.inner > 1 && call.of_logits.classes != 1) return TILE;
  const int64_t fit = 4096 / call.classes;
  return fit < 1 ? 1 : fit < TILE ? fit : TILE;
}

// Some rows that are done together; false if one cannot be.
template <class Real, class Element>
bool together(const Plan &plan, const Scratch<Real> &scratch, Row<Real> *rows, const Real *smooth,
              int64_t first, int64_t count) {
  const Call &call = *plan.call;
  const int64_t outer = first / call.inner, inner = first % call.inner;
  const Exchange<Real, Element> in(call, scratch, call.of_logits, outer, inner, count);
  const Exchange<Real, Element> out(call, scratch, call.of_gradient, outer, inner, count);
  if (!in.direct()) in.read_rows();
  Batch batch;
  for (int64_t t = 0; t < count; t++) {
    Row<Real> &row = rows[t];
    row.logits = in.direct() ? in.place(static_cast<const Real *>(call.logits), t) : row.z;
    row.gradient = out.direct() ? out.place(static_cast<Real *>(call.gradient), t) : row.z;
    row.step = in.direct() ? in.step : 0;
  }
  const Strides &of_target = call.of_target;
  const int64_t start = outer * of_target.outer + inner * of_target.inner;
  const int64_t step = call.inner > 1 ? of_target.inner : of_target.outer;
  if (!prepare(plan, rows, smooth, batch, first, count, start, step)) return false;
  sums(rows, call, batch, count, smooth);
  if (!batch.good) return false;
  evaluate(batch, call.form, call.parameter, count, smooth);
  finish(rows, call, batch, count, smooth);
  if (!batch.good) return false;
  for (int64_t t = 0; t < count; t++) {
    if (batch.counted[t]) {
      record(plan, batch, t, first + t);
    } else {
      if (call.gradient) ignore(rows[t]);
      plan.losses[first + t] = 0;
      if (plan.plain) plan.plain[first + t] = plan.own[first + t] = 0;
    }
  }
  if (call.gradient && !out.direct()) out.write_rows();
  return true;
}

template <class Real, class Element> bool walk(const Plan &plan, int64_t begin, int64_t end) {
  const Call &call = *plan.call;
  const int64_t tile = rows_together(call);
  const bool soft = call.smoothing > 0 || call.target_type < INT64;
  const Scratch<Real> scratch(call.classes, 3 * tile + 3);
  if (!scratch.memory) return false;
  const Constants<Real> constants(call, scratch, 3 * tile, soft);
  constexpr int64_t N = Lanes<Real>::count;
  Row<Real> rows[TILE];
  for (int64_t t = 0; t < tile; t++)
    rows[t] = {nullptr,
               nullptr,
               scratch.row(t),
               scratch.row(tile + t),
               scratch.row(2 * tile + t),
               call.log_betas ? constants.betas : nullptr,
               constants.log_betas,
               call.classes,
               (call.classes + N - 1) / N * N,
               0};
  for (int64_t r = begin; r < end;) {
    const int64_t left = call.inner > 1 ? call.inner - r % call.inner : end - r;
    int64_t count = left < end - r ? left : end - r;
    count = count < tile ? count : tile;
    const Real *smooth = soft ? constants.smooth : nullptr;
    if (!together<Real, Element>(plan, scratch, rows, smooth, r, count)) return false;
    r += count;
  }
  return true;
}
