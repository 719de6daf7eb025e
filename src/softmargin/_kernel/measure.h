// What the metrics of calibration need of every row of logits. A part of rows.cpp.

// As many numbers of any type as there are doubles in a vector.
template <class Element> struct Beside {
  typedef Element Vector __attribute__((vector_size(Lanes<double>::count * sizeof(Element))));
};

// The vectors of a row; what follows the last class is `filler`. With `read_on`, there is as much as
// a vector to read from any class on: that is quicker than to fill one by its numbers.
template <class Element, class Function>
inline void each_few(const Element *row, int64_t classes, bool read_on, Element filler,
                     Function function) {
  constexpr int64_t N = Lanes<double>::count;
  using Few = typename Beside<Element>::Vector;
  Few v;
  const int64_t whole = classes / N * N, rest = classes - whole;
  for (int64_t i = 0; i < whole; i += N) {
    memcpy(&v, row + i, sizeof v);
    function(v);
  }
  if (!rest) return;
  if (read_on) {
    auto lane = Few{} > Few{};
    for (int i = 0; i < N; i++) lane[i] = i;
    memcpy(&v, row + whole, sizeof v);
    v = lane < decltype(lane[0] + 0)(rest) ? v : filler - Few{};
  } else {
    for (int64_t i = 0; i < N; i++) v[i] = i < rest ? row[whole + i] : filler;
  }
  function(v);
}

// Comparisons are made in the logits' own precision, sums and exponentials in double. The numbers of
// a row are written `apart` from each other.
template <class Element, class Call>
void measure_row(const Call &call, const Element *row, int64_t r, double *to, int64_t apart) {
  constexpr int N = Lanes<double>::count;
  const int64_t target = call.target[r];
  const Element own = row[target];
  const bool read_on = (call.rows - 1 - r) * call.stride >= N; // rows may overlap, or be one row
  typename Beside<Element>::Vector low = own - typename Beside<Element>::Vector{}, high = low;
  auto above = low > high, from_own_on = above; // none yet
  each_few(row, call.classes, read_on, own, [&](auto v) {
    low = v < low ? v : low;
    high = v > high ? v : high;
    above += v > own; // true is -1
    from_own_on += v >= own;
  });
  auto next = [&](double value) {
    *to = value;
    to += apart;
  };
  Element lowest = low[0], highest = high[0];
  int64_t rank = 0, others = 0;
  for (int i = 0; i < N; i++) {
    lowest = low[i] < lowest ? low[i] : lowest;
    highest = high[i] > highest ? high[i] : highest;
    rank -= above[i];
    others -= from_own_on[i];
  }
  others -= (N - call.classes % N) % N; // without what follows the last class
  if (others - rank > 1) // of classes that are level with the target
    for (int64_t c = 0; c < target; c++) rank += row[c] == own;
  Vector<double> total{}, squares{};
  each_few(row, call.classes, read_on, Element(-INFINITY), [&](auto v) {
    const auto e = exponential<double>(__builtin_convertvector(v, Vector<double>) - double(highest));
    total += e;
    squares += e * e;
  });
  const double sum_of_all = sum<double>(total);
  const double nothing = sum_of_all - sum_of_all; // NaN if there is one in the row
  next(lowest + nothing);
  next(highest + nothing);
  next(own);
  next(double(rank));
  next(sum_of_all);
  next(sum<double>(squares));
}

constexpr int NUMBERS = 6; // of a row

// Which bin a confidence belongs to; those on an edge belong to the bin that it closes.
inline int64_t bin_of(const Tally &call, double confidence) {
  const int64_t nearest = int64_t(confidence * double(call.bins) + 0.5);
  const double edge = call.edges[nearest];
  const bool below = call.closed_left ? confidence < edge : confidence <= edge;
  const int64_t bin = nearest - below;
  return bin < 0 ? 0 : bin < call.bins ? bin : call.bins - 1;
}

template <class Element> bool like_probabilities(const Tally &call, const Element *row) {
  double sum = 0;
  for (int64_t c = 0; c < call.classes; c++) sum += row[c];
  return fabs(sum - 1) <= call.tolerance;
}

// The next TALLIED rows; false if a number is not finite.
template <class Element> bool tally_rows(const Tallied &tallied, int64_t tile) {
  constexpr int64_t N = Lanes<double>::count;
  const Tally &call = *tallied.call;
  const int64_t begin = tallied.first + tile * TALLIED, left = call.rows - begin;
  const int64_t count = left < TALLIED ? left : TALLIED;
  const Element *logits = static_cast<const Element *>(call.logits) + begin * call.stride;
  double numbers[NUMBERS][TALLIED] = {}; // where there is no row, they are 0 and so is the weight
  double like = 0;
  for (int64_t i = 0; i < count; i++) {
    const Element *row = logits + i * call.stride;
    measure_row(call, row, begin + i, numbers[0] + i, TALLIED);
    if (!(numbers[0][i] > -INFINITY && numbers[1][i] < INFINITY)) return false;
    if (numbers[0][i] >= 0 && numbers[1][i] <= 1) like += like_probabilities(call, row);
  }
  Vector<double> moments[MOMENTS][VALUES] = {}, mass[3] = {}, high{};
  for (int64_t i = 0; i < count; i += N) {
    const int64_t rest = count - i < N ? count - i : N;
    const Signed<double> there = lanes<double>() < rest;
    const Vector<double> one = all<double>(1), none{};
    auto number = [&](int which) { return read(numbers[which], i); };
    const Vector<double> highest = number(1), rank = number(3), total = there ? number(4) : one;
    const Vector<double> below = number(2) - highest, confidence = 1.0 / total;
    const Vector<double> own = exponential<double>(below) * confidence;
    const Vector<double> nll = logarithm<double>(total) - below;
    const Vector<double> brier = number(5) * confidence * confidence - 2 * own + 1;
    const Vector<double> right = rank == 0 ? one : none;
    const Vector<double> values[] = {nll, larger(brier, none), confidence, confidence - right};
    Vector<double> weight = all<double>(*call.weight);
    if (call.of_weight) weight = read_first(call.weight + begin + i, rest, 0.0);
    weight = there ? weight : none;
    const Vector<double> square = weight * weight, cube = square * weight;
    for (int v = 0; v < VALUES; v++) {
      const Vector<double> x = values[v], x2 = x * x;
      const Vector<double> terms[] = {weight * x, square * x,  square * x2,
                                      cube * x,   cube * x2, cube * x2 * x};
      for (int m = 0; m < MOMENTS; m++) moments[m][v] += terms[m];
    }
    mass[0] += weight;
    mass[1] += square;
    mass[2] += cube;
    high += rank < double(call.top_k) ? weight : none;
    // the leading bits of 1 - confidence are a scale of its logarithm
    const int shift = 52 - CELL_BITS;
    const Signed<double> gap = bits_of<Signed<double>>(one - confidence) >> shift;
    for (int64_t j = 0; j < rest; j++) {
      const int64_t scale = gap[j] < LEAST ? LEAST : gap[j];
      const int64_t cell = (int64_t(1023) << CELL_BITS) - scale + bin_of(call, confidence[j]);
      tallied.place[tile * TALLIED + i + j] = int32_t(2 * cell + (rank[j] == 0));
    }
    write_first(tallied.confidence + tile * TALLIED + i, rest, confidence);
  }
  double *to = tallied.partial + tile * PARTIAL;
  for (auto &row : moments)
    for (auto &each : row) *to++ = sum<double>(each);
  const double totals[] = {double(count),      sum<double>(mass[0]), sum<double>(mass[1]),
                           sum<double>(high), like,                 sum<double>(mass[2])};
  for (double each : totals) *to++ = each;
  return true;
}
