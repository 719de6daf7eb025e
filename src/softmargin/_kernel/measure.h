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

// Comparisons are made in the logits' own precision, sums and exponentials in double.
template <class Element>
void measure_row(const Measure &call, const Element *row, int64_t r) {
  constexpr int N = Lanes<double>::count;
  const Element own = row[call.target[r]];
  const bool read_on = (call.rows - 1 - r) * call.stride >= N; // rows may overlap, or be one row
  typename Beside<Element>::Vector low = own - typename Beside<Element>::Vector{}, high = low;
  auto above = low > high, from_own_on = above; // none yet
  each_few(row, call.classes, read_on, own, [&](auto v) {
    low = v < low ? v : low;
    high = v > high ? v : high;
    above += v > own; // true is -1
    from_own_on += v >= own;
  });
  double *to = call.numbers + r;
  auto next = [&](double value) {
    *to = value;
    to += call.rows;
  };
  Element lowest = low[0], highest = high[0];
  int64_t larger_ones = 0, others = 0;
  for (int i = 0; i < N; i++) {
    lowest = low[i] < lowest ? low[i] : lowest;
    highest = high[i] > highest ? high[i] : highest;
    larger_ones -= above[i];
    others -= from_own_on[i];
  }
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
  next(double(larger_ones));
  next(double(others - (N - call.classes % N) % N)); // without what follows the last class
  next(sum_of_all);
  next(sum<double>(squares));
}
