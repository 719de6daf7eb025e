// Vectors of the width that this copy is compiled for, and exp and log on them.
#pragma once
#include <cstdint>
#include <cstring>
#include <utility>
#ifdef X86
#include <immintrin.h>
#endif

#ifndef WIDTH
#define WIDTH 16 // bytes
#endif

namespace {

template <class Real> struct Lanes;

template <> struct Lanes<float> {
  typedef float Vector __attribute__((vector_size(WIDTH)));
  typedef uint32_t Bits __attribute__((vector_size(WIDTH)));
  typedef int32_t Signed __attribute__((vector_size(WIDTH)));
  static constexpr int count = WIDTH / sizeof(float);
  static constexpr int mantissa = 23;
  static constexpr uint32_t bias = 127;
  static constexpr float rounding = 12582912.0f; // 1.5·2^23: adding it leaves a whole number
  static constexpr float smallest = -87.0f;      // below it e^x is taken for 0
  static constexpr float lowest = -3.40282347e38f;
  static constexpr float tiny = 1.17549435e-38f;
  static constexpr float ln2 = 0.693147182f, ln2_high = 0.693359375f, ln2_low = -2.12194440e-4f;
  static constexpr uint32_t root_half = 0x3f3504f3;
  // (e^r - 1 - r)/r² on |r| ≤ log(2)/2 for the least relative error of e^r, 1.1e-7; and
  // (atanh(s)/s - 1)/s² on |s| ≤ 0.2, at Chebyshev's points
  static constexpr float of_exp[] = {0.499992311f, 0.166671157f, 0.0418903306f, 0.00831250101f};
  static constexpr float of_atanh[] = {0.3333333314f, 0.200001561f, 0.1426633245f, 0.1187447186f};
};

template <> struct Lanes<double> {
  typedef double Vector __attribute__((vector_size(WIDTH)));
  typedef uint64_t Bits __attribute__((vector_size(WIDTH)));
  typedef int64_t Signed __attribute__((vector_size(WIDTH)));
  static constexpr int count = WIDTH / sizeof(double);
  static constexpr int mantissa = 52;
  static constexpr uint64_t bias = 1023;
  static constexpr double rounding = 6755399441055744.0;
  static constexpr double smallest = -745.0;
  static constexpr double lowest = -1.7976931348623157e308;
  static constexpr double tiny = 2.2250738585072014e-308;
  static constexpr double ln2 = 0.69314718055994530942;
  static constexpr double ln2_high = 0.693147180369123816490, ln2_low = 1.90821492927058770002e-10;
  static constexpr uint64_t root_half = 0x3fe6a09e667f3bcd;
  static constexpr double of_exp[] = {
      0.5, 0.16666666666666671, 0.04166666666666667, 0.0083333333333261351, 0.0013888888888883748,
      0.00019841269874820625, 2.4801587325547741e-5, 2.7557255400206424e-6, 2.7557273643110295e-7,
      2.5105217004720745e-8, 2.0914686968086877e-9};
  static constexpr double of_atanh[] = {
      0.33333333333333333, 0.19999999999999954, 0.14285714285744843,
      0.11111111103293009, 0.090909100915302199, 0.076922358964955964,
      0.066696826438049693, 0.058089922770035443, 0.06209994713549957};
};

template <class Real> using Vector = typename Lanes<Real>::Vector;
template <class Real> using Bits = typename Lanes<Real>::Bits; // unsigned: they may overflow
template <class Real> using Signed = typename Lanes<Real>::Signed;

template <class Real> inline Vector<Real> all(Real value) { return value - Vector<Real>{}; }

template <class To, class From> inline To bits_of(From from) {
  static_assert(sizeof(To) == sizeof(From), "the same bits");
  To to;
  memcpy(&to, &from, sizeof to);
  return to;
}

// 0, 1, 2, ...
template <class Real> inline Signed<Real> lanes() {
  Signed<Real> numbers;
  for (int i = 0; i < Lanes<Real>::count; i++) numbers[i] = i;
  return numbers;
}

// Of two numbers where one is NaN, the second: compilers do not see that there is an instruction.
#if defined(X86) && WIDTH == 64
#define INSTRUCTION(name) _mm512_##name
#elif defined(X86) && WIDTH == 32
#define INSTRUCTION(name) _mm256_##name
#elif defined(X86)
#define INSTRUCTION(name) _mm_##name
#endif
#ifdef INSTRUCTION
inline Vector<float> larger(Vector<float> a, Vector<float> b) { return INSTRUCTION(max_ps)(a, b); }
inline Vector<float> smaller(Vector<float> a, Vector<float> b) { return INSTRUCTION(min_ps)(a, b); }
inline Vector<double> larger(Vector<double> a, Vector<double> b) { return INSTRUCTION(max_pd)(a, b); }
inline Vector<double> smaller(Vector<double> a, Vector<double> b) { return INSTRUCTION(min_pd)(a, b); }
#else
template <class V> inline V larger(V a, V b) { return a > b ? a : b; }
template <class V> inline V smaller(V a, V b) { return a < b ? a : b; }
#endif

// The first numbers at a place, and another after them; the first lanes written to a place. Nothing
// else is read or written. A call of memcpy instead would cost a small problem a tenth of its time.
#if defined(X86) && WIDTH == 64
inline unsigned first_lanes(int64_t count) { return (1u << count) - 1; }
inline Vector<float> read_first(const float *from, int64_t count, float instead) {
  return _mm512_mask_loadu_ps(all<float>(instead), __mmask16(first_lanes(count)), from);
}
inline Vector<double> read_first(const double *from, int64_t count, double instead) {
  return _mm512_mask_loadu_pd(all<double>(instead), __mmask8(first_lanes(count)), from);
}
inline void write_first(float *to, int64_t count, Vector<float> v) {
  _mm512_mask_storeu_ps(to, __mmask16(first_lanes(count)), v);
}
inline void write_first(double *to, int64_t count, Vector<double> v) {
  _mm512_mask_storeu_pd(to, __mmask8(first_lanes(count)), v);
}
#elif defined(X86) && WIDTH == 32
inline Vector<float> read_first(const float *from, int64_t count, float instead) {
  const Signed<float> first = lanes<float>() < int32_t(count);
  return first ? _mm256_maskload_ps(from, bits_of<__m256i>(first)) : all<float>(instead);
}
inline Vector<double> read_first(const double *from, int64_t count, double instead) {
  const Signed<double> first = lanes<double>() < count;
  return first ? _mm256_maskload_pd(from, bits_of<__m256i>(first)) : all<double>(instead);
}
inline void write_first(float *to, int64_t count, Vector<float> v) {
  _mm256_maskstore_ps(to, bits_of<__m256i>(lanes<float>() < int32_t(count)), v);
}
inline void write_first(double *to, int64_t count, Vector<double> v) {
  _mm256_maskstore_pd(to, bits_of<__m256i>(lanes<double>() < count), v);
}
#else
template <class Real> inline Vector<Real> read_first(const Real *from, int64_t count, Real instead) {
  Vector<Real> v = all<Real>(instead);
  for (int64_t i = 0; i < count; i++) v[i] = from[i];
  return v;
}
template <class Real> inline void write_first(Real *to, int64_t count, Vector<Real> v) {
  for (int64_t i = 0; i < count; i++) to[i] = v[i];
}
#endif

// The lanes of a vector folded into one number, by halves: a chain of them would take longer than
// the row of a small problem.
template <class Real, int bytes, class V, class Fold> inline Real fold(V v, Fold of_two) {
  if constexpr (bytes == 2 * sizeof(Real)) {
    return of_two(v[0], v[1]);
  } else {
    typedef Real Half __attribute__((vector_size(bytes / 2)));
    Half halves[2];
    memcpy(halves, &v, sizeof v);
    return fold<Real, bytes / 2>(of_two(halves[0], halves[1]), of_two);
  }
}

template <class Real> inline double sum(Vector<Real> v) {
  return fold<Real, WIDTH>(v, [](auto a, auto b) { return a + b; });
}

template <class Real> inline Real maximum(Vector<Real> v) {
  return fold<Real, WIDTH>(v, [](auto a, auto b) { return a > b ? a : b; });
}

// Sums of neighbours, or whatever is made of two: those of a, then those of b.
template <class Real, class Fold, size_t... i>
inline Vector<Real> fold_neighbours(Vector<Real> a, Vector<Real> b, Fold of_two,
                                    std::index_sequence<i...>) {
#ifdef __clang__
  return of_two(__builtin_shufflevector(a, b, (2 * i)...),
                __builtin_shufflevector(a, b, (2 * i + 1)...));
#else
  return of_two(__builtin_shuffle(a, b, Signed<Real>{(2 * i)...}),
                __builtin_shuffle(a, b, Signed<Real>{(2 * i + 1)...}));
#endif
}

// Some vectors folded into a number each, which is in the lane of the vector's number: as many
// vectors as there are lanes take little longer than one, and nothing waits for them one by one.
template <class Real, int vectors, class Fold>
inline Vector<Real> fold_each(const Vector<Real> *v, int64_t count, Fold of_two) {
  if constexpr (vectors == 1) {
    return *v;
  } else {
    constexpr int half = vectors / 2;
    const Vector<Real> a = fold_each<Real, half>(v, count, of_two);
    const Vector<Real> b = half < count ? fold_each<Real, half>(v + half, count - half, of_two) : a;
    return fold_neighbours<Real>(a, b, of_two, std::make_index_sequence<Lanes<Real>::count>{});
  }
}

template <class Real, int terms>
inline Vector<Real> polynomial(Vector<Real> x, const Real (&coefficients)[terms]) {
  Vector<Real> value = all<Real>(coefficients[terms - 1]);
  for (int i = terms - 2; i >= 0; i--) value = value * x + coefficients[i];
  return value;
}

// e^x for x ≤ 0 or little above: 0 where that is as good as nothing; NaN stays NaN.
template <class Real> inline Vector<Real> exponential(Vector<Real> x) {
  using L = Lanes<Real>;
  const Real log2_e = Real(1.44269504088896340736);
  Vector<Real> shifted = x * log2_e + L::rounding;
  Vector<Real> whole = shifted - L::rounding;
#if defined(__FMA__) || defined(__aarch64__)
  const bool exact = sizeof(Real) == 4; // the product with log 2 is rounded after the subtraction
#else
  const bool exact = false;
#endif
  Vector<Real> r = exact ? x - whole * L::ln2 : x - whole * L::ln2_high - whole * L::ln2_low;
  Vector<Real> value = (polynomial<Real>(r, L::of_exp) * r + 1) * r + 1;
  // the low bits of the shifted number are the whole number: to the exponent with it
  Bits<Real> power = bits_of<Bits<Real>>(shifted);
  if constexpr (sizeof(Real) == 4) {
    value = bits_of<Vector<Real>>(bits_of<Bits<Real>>(value) + (power << L::mantissa));
  } else {
#if defined(X86) && WIDTH == 64
    value = _mm512_scalef_pd(value, whole);
#else
    // in two steps: the whole may be below what a normal number can be
    power -= bits_of<Bits<Real>>(all<Real>(L::rounding));
    const Bits<Real> half = bits_of<Bits<Real>>(bits_of<Signed<Real>>(power) >> 1);
    value *= bits_of<Vector<Real>>((half + L::bias) << L::mantissa);
    value *= bits_of<Vector<Real>>((power - half + L::bias) << L::mantissa);
#endif
  }
  return x < L::smallest ? Vector<Real>{} : value;
}

// log of a positive normal number is exponent·log(2) + log(1 + f): its two parts
template <class Real> struct Split {
  Vector<Real> f, exponent;
};

template <class Real> inline Split<Real> split(Vector<Real> x) {
  using L = Lanes<Real>;
  const Bits<Real> bits = bits_of<Bits<Real>>(x), above = bits - L::root_half;
  // so that 1 + f lies between √½ and √2
  const Signed<Real> exponent = bits_of<Signed<Real>>(above) >> L::mantissa;
  const Bits<Real> taken = bits_of<Bits<Real>>(exponent) << L::mantissa;
  return {bits_of<Vector<Real>>(bits - taken) - 1, __builtin_convertvector(exponent, Vector<Real>)};
}

template <class Real> inline Vector<Real> logarithm(Split<Real> of) {
  using L = Lanes<Real>;
  Vector<Real> s = of.f / (of.f + 2), t = s * s;
  // 2·atanh(s) = f - s·(f - 2t·(...)): the first term is exact
  Vector<Real> rest = of.f - 2 * t * polynomial<Real>(t, L::of_atanh);
  return of.exponent * L::ln2_high + (of.f + (of.exponent * L::ln2_low - s * rest));
}

template <class Real> inline Vector<Real> logarithm(Vector<Real> x) {
  return logarithm<Real>(split<Real>(x));
}

} // namespace
