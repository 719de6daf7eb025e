// Arcsine and arccosine.
#pragma once
#include <cmath>

namespace {

// asin x on x² = t ≤ 1/4: (asin x/x - 1)/x² has the least relative error of asin x.
inline float arcsine_of_small(float x, float t) {
  float p = 0.04216630073f;
  p = p * t + 0.02417951876f;
  p = p * t + 0.0454703753f;
  p = p * t + 0.07495297646f;
  p = p * t + 0.1666675248f;
  return x + x * (t * p);
}

inline float arcsine_of_small(float x) { return arcsine_of_small(x, x * x); }
inline double arcsine_of_small(double x) { return asin(x); }

// The arccosine of what lies between -1 and 1, to 2e-7: from the arcsine of x, or beyond one half
// of √((1 - |x|)/2).
inline float arccosine(float x) {
  const float size = fabsf(x), t = size > 0.5f ? (1 - size) * 0.5f : x * x;
  const float sine = arcsine_of_small(size > 0.5f ? sqrtf(t) : x, t);
  const float outer = x > 0 ? 2 * sine : 3.14159265f - 2 * sine;
  return size > 0.5f ? outer : 1.57079633f - sine;
}

inline double arccosine(double x) { return acos(x); }

} // namespace
