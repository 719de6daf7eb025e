// Numbers of the four types of logits, to and from those that are computed with.
#pragma once
#include "call.h"
#include <cstring>

namespace {

struct Half {
  uint16_t bits;
};
struct Brain {
  uint16_t bits;
};

template <class To, class From> inline To same_bits(From from) {
  static_assert(sizeof(To) == sizeof(From), "the same bits");
  To to;
  memcpy(&to, &from, sizeof to);
  return to;
}

inline float widen(float x) { return x; }
inline double widen(double x) { return x; }
inline float widen(Brain x) { return same_bits<float>(uint32_t(x.bits) << 16); }
inline float widen(Half x) {
  uint32_t magnitude = uint32_t(x.bits & 0x7fff) << 13, sign = uint32_t(x.bits & 0x8000) << 16;
  // the exponents differ by 112, also for numbers that are not normal; 31 is infinity and NaN
  uint32_t finite = same_bits<uint32_t>(same_bits<float>(magnitude) * 0x1p112f);
  uint32_t special = magnitude | 0x7f800000;
  return same_bits<float>(((x.bits & 0x7c00) == 0x7c00 ? special : finite) | sign);
}

inline void narrow(double from, float &to) { to = float(from); }
inline void narrow(double from, double &to) { to = from; }
inline void narrow(float from, float &to) { to = from; }
inline void narrow(float from, Brain &to) {
  uint32_t bits = same_bits<uint32_t>(from);
  uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16; // to the nearest, ties to even
  to.bits = uint16_t(from != from ? (bits >> 16) | 0x40 : rounded);
}
inline void narrow(float from, Half &to) {
  uint32_t bits = same_bits<uint32_t>(from), sign = (bits >> 16) & 0x8000;
  bits &= 0x7fffffff;
  // added to a number of the right size, the last bit is that of the half: the sum is rounded
  uint32_t exponent = bits & 0x7f800000;
  exponent = exponent < 0x38800000 ? 0x38800000 : exponent;
  float size = same_bits<float>(exponent + (13u << 23));
  float rounded = (same_bits<float>(bits) + size) - size;
  uint32_t normal = (same_bits<uint32_t>(rounded) - (112u << 23)) >> 13;
  uint32_t small = uint32_t(rounded * 0x1p24f);
  uint32_t value = rounded < 0x1p-14f ? small : normal;
  value = rounded >= 65520.0f ? 0x7c00 : value;
  value = from != from ? 0x7e00 : value;
  to.bits = uint16_t(value | sign);
}
template <class Narrow> inline void narrow(double from, Narrow &to) { narrow(float(from), to); }

// One number of a type that is known only when it runs.
inline double element(const void *data, int32_t type, int64_t place) {
  switch (type) {
  case FLOAT64: return static_cast<const double *>(data)[place];
  case BFLOAT16: return widen(static_cast<const Brain *>(data)[place]);
  case FLOAT16: return widen(static_cast<const Half *>(data)[place]);
  default: return static_cast<const float *>(data)[place];
  }
}

inline void set_element(void *data, int32_t type, int64_t place, double value) {
  switch (type) {
  case FLOAT64: static_cast<double *>(data)[place] = value; break;
  case BFLOAT16: narrow(value, static_cast<Brain *>(data)[place]); break;
  case FLOAT16: narrow(value, static_cast<Half *>(data)[place]); break;
  default: static_cast<float *>(data)[place] = float(value);
  }
}

inline int64_t class_at(const void *target, int32_t type, int64_t place) {
  if (type == UINT8) return static_cast<const uint8_t *>(target)[place];
  return static_cast<const int64_t *>(target)[place];
}

} // namespace
