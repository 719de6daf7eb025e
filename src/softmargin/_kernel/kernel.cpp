// The library's entry points: which compiled copy, how many threads, what comes before the rows
// and after them. Nothing of PyTorch is needed to compile or link it.
#include "elements.h"
#include <cmath>
#include <cstdlib>
#include <dlfcn.h>
#include <sys/mman.h>

extern "C" {
bool rows_baseline(const Plan &, int64_t, int64_t);
void measure_baseline(const Measure &, int64_t, int64_t);
bool tally_baseline(const Tallied &, int64_t, int64_t);
bool gaussian_baseline(const GaussianShare &, int64_t, int64_t);
bool directions_baseline(const Share &, int64_t, int64_t);
bool networks_baseline(const Networks &);
#ifdef X86
bool networks_avx2(const Networks &);
bool networks_avx512(const Networks &);
bool gaussian_avx2(const GaussianShare &, int64_t, int64_t);
bool gaussian_avx512(const GaussianShare &, int64_t, int64_t);
bool directions_avx2(const Share &, int64_t, int64_t);
bool directions_avx512(const Share &, int64_t, int64_t);
void measure_avx2(const Measure &, int64_t, int64_t);
void measure_avx512(const Measure &, int64_t, int64_t);
bool tally_avx2(const Tallied &, int64_t, int64_t);
bool tally_avx512(const Tallied &, int64_t, int64_t);
bool rows_avx2(const Plan &, int64_t, int64_t);
bool rows_avx512(const Plan &, int64_t, int64_t);
#endif
}

namespace {

Rows copy_for(int32_t instructions) {
#ifdef X86
  if (instructions == 2) return rows_avx512;
  if (instructions == 1) return rows_avx2;
#endif
  (void)instructions;
  return rows_baseline;
}

// The OpenMP that PyTorch has loaded, whichever it is: its threads are there already, and nobody
// starts others beside them.
using Parallel = void (*)(void (*)(void *), void *, unsigned, unsigned);
using Number = int (*)();

struct Pool {
  Parallel parallel;
  Number thread, threads, inside;
};

Pool pool{};

// Something to do with each of so many units: every thread takes one stretch of them.
struct Work {
  bool (*part)(const void *, int64_t, int64_t);
  const void *data;
  int64_t units;
  bool good;
};

void share_of_a_thread(void *data) {
  Work &work = *static_cast<Work *>(data);
  const int64_t threads = pool.threads(), thread = pool.thread();
  const int64_t begin = work.units * thread / threads, end = work.units * (thread + 1) / threads;
  if (begin < end && !work.part(work.data, begin, end))
    __atomic_store_n(&work.good, false, __ATOMIC_RELAXED);
}

bool in_parallel(Work work, int64_t threads) {
  threads = threads < work.units ? threads : work.units;
  if (threads < 2 || !pool.parallel || pool.inside())
    return work.part(work.data, 0, work.units);
  pool.parallel(share_of_a_thread, &work, unsigned(threads), 0);
  return work.good;
}

bool rows_of(const void *data, int64_t begin, int64_t end) {
  const Plan &plan = *static_cast<const Plan *>(data);
  return copy_for(plan.call->instructions)(plan, begin, end);
}

bool measure_of(const void *data, int64_t begin, int64_t end) {
  const Measure &call = *static_cast<const Measure *>(data);
#ifdef X86
  if (call.instructions == 2) return measure_avx512(call, begin, end), true;
  if (call.instructions == 1) return measure_avx2(call, begin, end), true;
#endif
  return measure_baseline(call, begin, end), true;
}

bool tally_of(const void *data, int64_t begin, int64_t end) {
  const Tallied &tallied = *static_cast<const Tallied *>(data);
#ifdef X86
  if (tallied.call->instructions == 2) return tally_avx512(tallied, begin, end);
  if (tallied.call->instructions == 1) return tally_avx2(tallied, begin, end);
#endif
  return tally_baseline(tallied, begin, end);
}

bool share_of(const void *data, int64_t begin, int64_t end) {
  const Share &share = *static_cast<const Share *>(data);
#ifdef X86
  if (share.call->instructions == 2) return directions_avx512(share, begin, end);
  if (share.call->instructions == 1) return directions_avx2(share, begin, end);
#endif
  return directions_baseline(share, begin, end);
}

bool gaussian_of(const void *data, int64_t begin, int64_t end) {
  const GaussianShare &share = *static_cast<const GaussianShare *>(data);
#ifdef X86
  if (share.call->instructions == 2) return gaussian_avx512(share, begin, end);
  if (share.call->instructions == 1) return gaussian_avx2(share, begin, end);
#endif
  return gaussian_baseline(share, begin, end);
}

int64_t stripes_of(int64_t columns) { return (columns + STRIPE - 1) / STRIPE; }
int64_t blocks_of(int64_t rows) { return (rows + ROWS - 1) / ROWS; }

// Targets that name no class, and settings or probabilities that are not allowed, are for the
// other path, which knows what to say. Returns what the mean divides by.
bool check(const Call &call, double &norm) {
  for (int64_t c = 0; call.log_betas && c < call.classes; c++)
    if (!(fabs(call.log_betas[c]) < 80)) return false;
  const int64_t count = call.outer * call.inner;
  norm = double(count);
  if (call.target_type < INT64) return true;
  norm = 0;
  const bool in_a_row = call.inner == 1 && call.of_target.outer == 1;
  if (in_a_row && call.target_type == INT64 && !call.weight) { // by far the most: no branches
    const int64_t *target = static_cast<const int64_t *>(call.target);
    int64_t wrong = 0, counted = 0;
    for (int64_t r = 0; r < count; r++) {
      const int64_t counts = target[r] != call.ignore_index;
      wrong |= counts & int64_t(uint64_t(target[r]) >= uint64_t(call.classes));
      counted += counts;
    }
    norm = double(counted);
    return !wrong;
  }
  for (int64_t outer = 0; outer < call.outer; outer++) {
    for (int64_t inner = 0; inner < call.inner; inner++) {
      const int64_t place = outer * call.of_target.outer + inner * call.of_target.inner;
      const int64_t target = class_at(call.target, call.target_type, place);
      if (target == call.ignore_index) continue;
      if (target < 0 || target >= call.classes) return false;
      norm += call.weight ? call.weight[target] : 1;
    }
  }
  return true;
}

struct Scaling {
  const Call *call;
  double factor;
};

template <class Element>
void scale_row(Element *gradient, const Call &call, double factor) {
  for (int64_t c = 0; c < call.classes; c++) {
    Element &value = gradient[c * call.of_gradient.classes];
    value = Element(value * factor);
  }
}

bool scale_rows(const void *data, int64_t begin, int64_t end) {
  const Scaling &scaling = *static_cast<const Scaling *>(data);
  const Call &call = *scaling.call;
  const bool each = call.upstream && call.reduction == NONE;
  for (int64_t r = begin; r < end; r++) {
    const int64_t outer = r / call.inner, inner = r % call.inner;
    const int64_t start = outer * call.of_gradient.outer + inner * call.of_gradient.inner;
    const double factor = each ? element(call.upstream, call.loss_type, r) : scaling.factor;
    if (call.logits_type == FLOAT64)
      scale_row(static_cast<double *>(call.gradient) + start, call, factor);
    else scale_row(static_cast<float *>(call.gradient) + start, call, factor);
  }
  return true;
}

// Four sums at once: each would have to wait for the one before.
double total(const double *values, int64_t count) {
  double sums[4] = {};
  int64_t i = 0;
  for (; i + 4 <= count; i += 4)
    for (int k = 0; k < 4; k++) sums[k] += values[i + k];
  for (; i < count; i++) sums[0] += values[i];
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

bool half(const Call &call) { return call.logits_type == BFLOAT16 || call.logits_type == FLOAT16; }

// The number that gives the batch the mean gradient at the targets that β = 1 would have.
double compensation(const Plan &plan, int64_t count) {
  const double own = total(plan.own, count);
  return own > 0 ? total(plan.plain, count) / own : 1;
}

// A gradient this large is new memory that the system has to clear page by page: by larger pages it
// takes half the time. Memory of this size has a mapping of its own, so that no other is concerned.
constexpr int64_t LARGE = 32 << 20, PAGE = 2 << 20;

void ask_for_large_pages(const Call &call) {
#ifdef MADV_HUGEPAGE
  const int64_t size = call.logits_type == FLOAT64 ? 8 : call.logits_type == FLOAT32 ? 4 : 2;
  const int64_t bytes = call.outer * call.classes * call.inner * size;
  if (!call.gradient || bytes < LARGE || call.of_gradient.classes != 1) return;
  const uintptr_t begin = reinterpret_cast<uintptr_t>(call.gradient), end = begin + bytes;
  const uintptr_t first = (begin + PAGE - 1) / PAGE * PAGE, last = end / PAGE * PAGE;
  madvise(reinterpret_cast<void *>(first), last - first, MADV_HUGEPAGE);
#else
  (void)call;
#endif
}

void finish(const Call &call, const Plan &plan, double norm) {
  const int64_t count = call.outer * call.inner;
  double factor = 1;
  if (call.compensate) {
    factor = compensation(plan, count);
    if (call.gradient && !half(call)) {
      Call alone = call;
      alone.upstream = nullptr;
      const Scaling scaling{&alone, factor};
      in_parallel({scale_rows, &scaling, count, true}, call.threads);
    }
  }
  if (!call.loss) return;
  if (call.reduction == NONE) {
    for (int64_t i = 0; i < count; i++)
      set_element(call.loss, call.loss_type, i, plan.losses[i] * factor);
    return;
  }
  double loss = total(plan.losses, count) * factor;
  set_element(call.loss, call.loss_type, 0, call.reduction == MEAN ? loss / norm : loss);
}

void add(double *to, const double *from, int64_t count) {
  for (int64_t i = 0; i < count; i++) to[i] += from[i];
}

// The table of cells of some rows, one after the other: so the threads have no say in it.
void add_cells(const Tallied &tallied, int64_t rows, double *table, int64_t width) {
  const Tally &call = *tallied.call;
  double *counts = table, *mass = table + width, *squares = mass + width, *sums = squares + width;
  if (!call.of_weight) {
    for (int64_t r = 0; r < rows; r++) {
      counts[tallied.place[r]] += 1;
      sums[tallied.place[r]] += tallied.confidence[r];
    }
    return;
  }
  for (int64_t r = 0; r < rows; r++) {
    const int32_t place = tallied.place[r];
    const double weight = call.weight[tallied.first + r];
    counts[place] += 1;
    mass[place] += weight;
    squares[place] += weight * weight;
    sums[place] += weight * tallied.confidence[r];
  }
}

// One weight for all rows.
void weigh_cells(double *table, int64_t width, double weight) {
  for (int64_t i = 0; i < width; i++) {
    table[width + i] = table[i] * weight;
    table[2 * width + i] = table[width + i] * weight;
    table[3 * width + i] *= weight;
  }
}

// Rows of which places and confidences are kept at a time: few enough for the cache.
constexpr int64_t AT_ONCE = 128 * TALLIED;

// `room` is for the table of cells, the sums of all rows, and what is kept of some.
bool tally(const Tally &call, double *room) {
  const int64_t width = 2 * call.cell_count, most = call.rows < AT_ONCE ? call.rows : AT_ONCE;
  double *table = room, *sums = table + 4 * width, *partial = sums + PARTIAL;
  double *confidence = partial + PARTIAL * (AT_ONCE / TALLIED);
  int32_t *place = reinterpret_cast<int32_t *>(confidence + most);
  Tallied tallied{&call, 0, partial, place, confidence};
  for (int64_t first = 0; first < call.rows; first += AT_ONCE) {
    const int64_t left = call.rows - first, rows = left < AT_ONCE ? left : AT_ONCE;
    const int64_t tiles = (rows + TALLIED - 1) / TALLIED;
    tallied.first = first;
    if (!in_parallel({tally_of, &tallied, tiles, true}, call.threads)) return false;
    for (int64_t tile = 0; tile < tiles; tile++) add(sums, partial + tile * PARTIAL, PARTIAL);
    add_cells(tallied, rows, table, width);
  }
  if (!call.of_weight) weigh_cells(table, width, *call.weight);
  add(call.cells, table, 4 * width);
  add(call.moments, sums, VALUES * MOMENTS);
  add(call.totals, sums + VALUES * MOMENTS, PARTIAL - VALUES * MOMENTS);
  return true;
}

} // namespace

extern "C" {

__attribute__((visibility("default"))) int32_t softmargin_layout() { return int32_t(sizeof(Call)); }

// 0: what every processor of this kind has; 1: AVX2; 2: AVX-512
__attribute__((visibility("default"))) int32_t softmargin_instructions() {
#ifdef X86
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
    return 2;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return 1;
#endif
  return 0;
}

// Looks for PyTorch's threads, once; returns whether they were found.
__attribute__((visibility("default"))) int32_t softmargin_find_threads() {
  // PyTorch's wheels for ARM keep OpenMP to themselves: there it is where PyTorch looks
  void *own = dlopen("libtorch_cpu.so", RTLD_LAZY | RTLD_NOLOAD);
  auto find = [own](const char *name) {
    void *everywhere = dlsym(RTLD_DEFAULT, name);
    return everywhere || !own ? everywhere : dlsym(own, name);
  };
  Pool found;
  found.parallel = reinterpret_cast<Parallel>(find("GOMP_parallel"));
  found.thread = reinterpret_cast<Number>(find("omp_get_thread_num"));
  found.threads = reinterpret_cast<Number>(find("omp_get_num_threads"));
  found.inside = reinterpret_cast<Number>(find("omp_in_parallel"));
  if (!found.parallel || !found.thread || !found.threads || !found.inside) return 0;
  pool = found;
  return 1;
}

__attribute__((visibility("default"))) int32_t softmargin_loss(const Call *given) {
  const Call &call = *given;
  double norm = 0;
  if (!check(call, norm)) return DECLINED;
  const int64_t count = call.outer * call.inner, rooms = call.compensate ? 3 : 1;
  double *room = static_cast<double *>(malloc(sizeof(double) * size_t(count * rooms + 1)));
  if (!room) return DECLINED;
  Plan plan{&call, call.reduction == MEAN ? 1 / norm : 1, room, nullptr, nullptr};
  if (call.compensate) {
    plan.plain = room + count;
    plan.own = room + 2 * count;
  }
  ask_for_large_pages(call);
  bool good = true;
  if (call.compensate && half(call) && call.gradient) {
    // a gradient that is rounded once has to know its factor before
    Call before = call;
    before.gradient = nullptr;
    Plan first = plan;
    first.call = &before;
    good = in_parallel({rows_of, &first, count, true}, call.threads);
    plan.scale *= good ? compensation(plan, count) : 1;
  }
  good = good && in_parallel({rows_of, &plan, count, true}, call.threads);
  if (good) finish(call, plan, norm);
  free(room);
  return good ? DONE : DECLINED;
}

// The gradient of a forward pass times that of the loss, in its place.
__attribute__((visibility("default"))) int32_t softmargin_scale(const Call *given) {
  const Call &call = *given;
  const double factor = call.reduction == NONE ? 1 : element(call.upstream, call.loss_type, 0);
  if (call.reduction != NONE && factor == 1) return DONE;
  const Scaling scaling{&call, factor};
  in_parallel({scale_rows, &scaling, call.outer * call.inner, true}, call.threads);
  return DONE;
}

__attribute__((visibility("default"))) int32_t softmargin_measure(const Measure *call) {
  in_parallel({measure_of, call, call->rows, true}, call->threads);
  return DONE;
}

// Nothing is added if a number is not finite.
__attribute__((visibility("default"))) int32_t softmargin_tally(const Tally *call) {
  const int64_t most = call->rows < AT_ONCE ? call->rows : AT_ONCE;
  const int64_t doubles = 8 * call->cell_count + PARTIAL * (1 + AT_ONCE / TALLIED) + 2 * most;
  double *room = static_cast<double *>(calloc(size_t(doubles), sizeof(double)));
  if (!room) return DECLINED;
  const bool good = tally(*call, room);
  free(room);
  return good ? DONE : DECLINED;
}

__attribute__((visibility("default"))) int32_t softmargin_directions(const Directions *call) {
  Share share{call, 0, false};
  auto run = [&](Part part, int64_t units) {
    share.part = part;
    return in_parallel({share_of, &share, units, true}, call->threads);
  };
  if (call->step == FORWARD) {
    if (!run(W_LENGTHS, call->classes) || !run(LOGITS, call->samples)) return DECLINED;
    return share.close ? CLOSE : DONE;
  }
  // sums over samples are made by blocks of rows, so that the number of threads does not change them
  run(GRADIENT, blocks_of(call->samples));
  if (call->of_weight) run(OF_WEIGHT, call->classes);
  return DONE;
}

__attribute__((visibility("default"))) int32_t softmargin_gaussian(const Gaussian *call) {
  GaussianShare share{call, 0};
  auto run = [&](GaussianPart part, int64_t units) {
    share.part = part;
    return in_parallel({gaussian_of, &share, units, true}, call->threads);
  };
  switch (call->step) {
  case PREPARE: return run(WEIGHTS, call->classes) && run(INPUTS, call->samples) ? DONE : DECLINED;
  case TARGETS: run(OWN, call->samples); break;
  case SEPARATE: run(OTHERS, blocks_of(call->samples)); break;
  default:
    if (call->of_features) run(TO_FEATURES, call->samples);
    if (call->of_mean) run(TO_CLASSES, call->classes);
    if (call->of_mean) run(TO_TARGETS, stripes_of(call->size));
  }
  return DONE;
}

// One step of every network, on the thread that calls: other threads call for other networks.
__attribute__((visibility("default"))) int32_t softmargin_networks(const Networks *call) {
  auto step = networks_baseline;
#ifdef X86
  if (call->instructions == 2) step = networks_avx512;
  if (call->instructions == 1) step = networks_avx2;
#endif
  return call->layers <= MOST_LAYERS && step(*call) ? DONE : DECLINED;
}
}
