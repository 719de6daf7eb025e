// The last layer of small networks and its loss, with samples as lanes: logits (classes, samples),
// losses, and the gradients of features and weights.
#pragma once
#include "angle.h"
#include "call.h"
#include "forms.h"
#include "small_products.h"
#include <algorithm>
#include <cmath>

namespace {

enum Beyond : int32_t { MONOTONE, EASY, ALWAYS };

template <class Real> struct Classifier {
  const Networks &call;
  const int64_t lanes, size, padded; // samples in whole vectors, features, those in whole vectors
  Real *logits, *cosines, *classes, *shares; // by class and sample; of every sample
  Real *inverse, *along, *own, *chord;       // of every sample
  Real *directions, *lengths;                // unit vectors of classes, and their inverse lengths
  Real *of_weight, *of_bias, *sums;

  Classifier(const Networks &call, int64_t lanes, int64_t size)
      : call(call), lanes(lanes), size(size), padded(whole<Real>(size)) {}

  void take(Room<Real> &room) {
    const int64_t all = call.classes;
    logits = room.take(whole<Real>(all) * lanes);
    cosines = room.take(whole<Real>(all) * lanes);
    for (Real **each : {&classes, &shares, &inverse, &along, &own, &chord}) *each = room.take(lanes);
    directions = room.take(all * padded);
    lengths = room.take(all);
    of_weight = room.take(all * padded);
    of_bias = room.take(all);
    sums = room.take(all * (size + 1));
  }

  // The classes of a batch, and each sample's share of the loss: 0 for what only fills vectors.
  void targets(int64_t s) {
    const int64_t *rows = call.rows + s * call.row_stride, *y = call.y + s * call.samples;
    const Real *weight = static_cast<const Real *>(call.sample_weight);
    for (int64_t b = 0; b < call.batch; b++) {
      classes[b] = Real(y[rows[b]]);
      shares[b] = 1 / Real(call.batch);
      if (weight) shares[b] *= weight[s * call.samples + rows[b]];
    }
  }

  double setting(const double *values, int64_t model, double otherwise) const {
    return values ? values[model] : otherwise;
  }

  // The loss and gradients of a model: features (size, samples), and the same by sample.
  void run(const Real *h, const Real *turned, Real *of_features, int64_t model) {
    const Real *weight = static_cast<const Real *>(call.weight[0]) + model * call.classes * size;
    const Real *bias = static_cast<const Real *>(call.bias[0]);
    if (call.head == LINEAR)
      product<Real>({weight, size, 1}, {h, lanes}, {logits, lanes}, call.classes, size, lanes,
                    {bias ? bias + model * call.classes : nullptr});
    else angular_logits(weight, h, model);
    if (call.logits) keep_logits(model);
    double total = losses(model);
    if (call.head == LINEAR) {
      spread(weight, size, turned, of_features);
      for (int64_t c = 0; c < call.classes; c++) {
        of_bias[c] = 0;
        for (int64_t b = 0; b < call.batch; b++) of_bias[c] += logits[c * lanes + b];
      }
    } else {
      angular_gradient(h, turned, of_features, model);
    }
    if (call.centers) total += center(turned, of_features, model);
    static_cast<Real *>(call.losses)[model] = Real(total);
  }

  void keep_logits(int64_t model) const {
    Real *to = static_cast<Real *>(call.logits) + model * call.batch * call.classes;
    for (int64_t b = 0; b < call.batch; b++)
      for (int64_t c = 0; c < call.classes; c++) to[b * call.classes + c] = logits[c * lanes + b];
  }

  // From gradients in the place of the logits those of the features, and of the weights.
  void spread(const Real *weight, int64_t stride, const Real *turned, Real *of_features) {
    if (call.layers)
      product<Real>({weight, 1, stride}, {logits, lanes}, {of_features, lanes}, size, call.classes,
                    lanes);
    product<Real>({logits, lanes, 1}, {turned, padded}, {of_weight, padded}, call.classes, call.batch,
                  padded);
  }

  // --- losses: functions of the log-odds ξ of each sample

  // Returns the sum of the losses, and puts the gradients in the place of the logits.
  double losses(int64_t model) {
    const double tau = setting(call.tau, model, 1), given = setting(call.setting, model, 1);
    const double parameter = call.form == FOCAL ? 0 : call.is_beta ? log(given) : -given;
    double total = 0;
    for (int64_t b = 0; b < lanes; b += TILE) total += tile(b, Real(1 / tau), parameter, given);
    return total;
  }

  // Few enough samples for what is known of them to be at hand.
  double tile(int64_t begin, Real by, double parameter, double gamma) {
    constexpr int64_t N = Lanes<Real>::count;
    const int64_t end = begin + TILE < lanes ? begin + TILE : lanes, count = end - begin;
    Batch batch;
    alignas(64) Real rivals[TILE], totals[TILE], at_target[TILE];
    std::fill(batch.gap, batch.gap + TILE, 0);
    std::fill(batch.total, batch.total + TILE, 1);
    std::fill(batch.parameter, batch.parameter + TILE, parameter);
    for (int64_t i = 0; i < count; i += N) {
      const Vector<Real> target = read(classes + begin + i);
      Vector<Real> rival = all<Real>(Lanes<Real>::lowest), total{}, mine{};
      for (int64_t c = 0; c < call.classes; c++) {
        const Vector<Real> z = read(logits + c * lanes + begin + i);
        const auto is_target = target == all<Real>(Real(c));
        mine = is_target ? z : mine;
        rival = is_target ? rival : larger(z, rival);
      }
      for (int64_t c = 0; c < call.classes; c++) {
        Real *place = logits + c * lanes + begin + i;
        const auto is_target = target == all<Real>(Real(c));
        const Vector<Real> e = exponential<Real>((read(place) - rival) * by);
        const Vector<Real> counted = is_target ? Vector<Real>{} : e;
        write(place, counted);
        total += counted;
      }
      write(rivals + i, rival);
      write(at_target + i, mine);
      write(totals + i, larger(total, all<Real>(Lanes<Real>::tiny)) + 0 * total);
    }
    for (int64_t i = 0; i < count; i++) {
      batch.gap[i] = double(rivals[i] - at_target[i]) * by;
      batch.total[i] = totals[i];
    }
    evaluate(batch, call.form, gamma, TILE, false);
    double sum = 0;
    alignas(64) Real slopes[TILE], pulls[TILE];
    for (int64_t i = 0; i < count; i++) {
      const Real share = shares[begin + i];
      if (begin + i < call.batch) sum += batch.loss[i] * share;
      slopes[i] = Real(batch.slope[i]) * share * by;
      pulls[i] = slopes[i] / totals[i];
    }
    for (int64_t c = 0; c < call.classes; c++)
      for (int64_t i = 0; i < count; i++) {
        Real &place = logits[c * lanes + begin + i];
        place = classes[begin + i] == Real(c) ? -slopes[i] : place * pulls[i];
      }
    return sum;
  }

  // --- heads of cosines and angles

  void angular_logits(const Real *weight, const Real *h, int64_t model) {
    for (int64_t c = 0; c < call.classes; c++) {
      const double length = sqrt(squares(weight + c * size, size));
      lengths[c] = Real(length > 0 ? 1 / length : length == 0 ? 1 : length);
      for (int64_t d = 0; d < size; d++) directions[c * padded + d] = weight[c * size + d] * lengths[c];
    }
    for (int64_t b = 0; b < lanes; b++) inverse[b] = 0;
    for (int64_t d = 0; d < size; d++)
      for (int64_t b = 0; b < lanes; b++) inverse[b] += h[d * lanes + b] * h[d * lanes + b];
    for (int64_t b = 0; b < lanes; b++) {
      Real square = inverse[b];
      if (!(square > Real(1e-30) && square < Real(1e30))) square = 0;
      inverse[b] = square > 0 ? 1 / std::sqrt(square) : 0;
    }
    for (int64_t b = 0; b < lanes; b++)
      if (inverse[b] == 0) inverse[b] = careful_inverse(h + b);
    product<Real>({directions, padded, 1}, {h, lanes}, {cosines, lanes}, call.classes, size, lanes);
    for (int64_t c = 0; c < call.classes; c++)
      for (int64_t b = 0; b < lanes; b++) cosines[c * lanes + b] *= inverse[b];
    if (call.head == ADAPTED_COSINES) adapt(call.scale[model]);
    if (call.head == LARGER_ANGLES || call.head == ANGLES) chords(h);
    const Real scale = Real(setting(call.scale, model, 1));
    if (call.head == ANGLES) angles(scale);
    else with_margin(scale, setting(call.margin, model, 0));
  }

  // The inverse length of a feature that is 0, or whose square is not to be had; NaN stays NaN.
  Real careful_inverse(const Real *h) const {
    double square = 0;
    for (int64_t d = 0; d < size; d++) square += double(h[d * lanes]) * h[d * lanes];
    return Real(square == 0 ? 1 : 1 / sqrt(square));
  }

  // The lengths of what lies between the unit vectors of features and their classes, halved.
  void chords(const Real *h) {
    for (int64_t b = 0; b < lanes; b++) chord[b] = own[b] = 0;
    for (int64_t c = 0; c < call.classes; c++) {
      for (int64_t b = 0; b < lanes; b++) along[b] = 0;
      for (int64_t d = 0; d < size; d++) {
        const Real w = directions[c * padded + d];
        for (int64_t b = 0; b < lanes; b++) {
          const Real gap = h[d * lanes + b] * inverse[b] - w;
          along[b] += gap * gap;
        }
      }
      for (int64_t b = 0; b < lanes; b++) {
        const bool is_target = classes[b] == Real(c);
        chord[b] = is_target ? std::sqrt(along[b]) / 2 : chord[b];
        own[b] = is_target ? cosines[c * lanes + b] : own[b];
      }
    }
  }

  // The sine that goes with a cosine, held above what the cosine resolves.
  static Real sine_of(Real cosine) {
    constexpr Real smallest = sizeof(Real) == 4 ? Real(2.384185791015625e-7) : Real(4.44089209850062616e-16);
    const Real square = 1 - cosine * cosine;
    return std::sqrt(square > smallest ? square : smallest);
  }

  void angles(Real scale) {
    for (int64_t c = 0; c < call.classes; c++)
      for (int64_t b = 0; b < lanes; b++) {
        const Real given = cosines[c * lanes + b];
        Real x = given < 1 ? given : 1;
        x = x > -1 ? x : -1;
        const bool near = classes[b] == Real(c) && given > Real(0.5);
        Real angle = near ? 2 * arcsine_of_small(chord[b]) : arccosine(x);
        angle = given == given ? angle : given;
        logits[c * lanes + b] = angle * -scale;
      }
  }

  // The target's cosine and sine, precise where the angle is small.
  struct Turn {
    Real cosine, sine, safe;
  };

  Turn turn(int64_t b) const {
    if (own[b] > Real(0.5)) {
      const Real half = chord[b], sine = 2 * half * std::sqrt(1 - half * half);
      return {1 - 2 * half * half, sine, sine};
    }
    const Real cosine = own[b] > -1 ? own[b] : own[b] <= -1 ? Real(-1) : own[b];
    const Real square = 1 - cosine * cosine;
    return {cosine, std::sqrt(square > 0 ? square : 0), sine_of(own[b])};
  }

  // Scaled cosines, the targets' with a margin; `own` is then the derivative by the target's cosine.
  void with_margin(Real scale, double margin) {
    for (int64_t c = 0; c < call.classes; c++)
      for (int64_t b = 0; b < lanes; b++) {
        const bool lower = call.head == LARGER_COSINES && classes[b] == Real(c);
        logits[c * lanes + b] = (cosines[c * lanes + b] - (lower ? Real(margin) : 0)) * scale;
      }
    if (call.head != LARGER_ANGLES) return;
    const Real by_cosine = Real(cos(margin)), by_sine = Real(sin(margin));
    const bool never = call.beyond == MONOTONE && margin > 3.14159265358979323846;
    for (int64_t b = 0; b < call.batch; b++) {
      const Turn at = turn(b);
      const bool within = call.beyond == ALWAYS || (call.beyond == EASY && at.cosine > 0) ||
                          (call.beyond == MONOTONE && !never && at.cosine >= -by_cosine);
      const Real rest = call.beyond == MONOTONE ? Real(margin * sin(margin)) : 0;
      const Real value = within ? at.cosine * by_cosine - at.sine * by_sine : at.cosine - rest;
      const Real slope = within ? at.sine * by_cosine + at.cosine * by_sine : at.sine;
      logits[int64_t(classes[b]) * lanes + b] = value * scale;
      own[b] = at.safe == 0 ? 0 : slope / at.safe;
    }
  }

  // AdaCos's scale, from the batch (AG eq. 10).
  void adapt(double &scale) {
    const Real before = Real(scale);
    double total = 0, largest = -INFINITY;
    bool sound = true;
    for (int64_t b = 0; b < call.batch; b++) {
      own[b] = cosines[int64_t(classes[b]) * lanes + b];
      for (int64_t c = 0; c < call.classes; c++) {
        const Real z = cosines[c * lanes + b] * before;
        sound = sound && z == z;
        if (classes[b] != Real(c) && z > largest) largest = z;
      }
    }
    if (!sound) return;
    for (int64_t b = 0; b < call.batch; b++)
      for (int64_t c = 0; c < call.classes; c++)
        if (classes[b] != Real(c)) total += exp(double(cosines[c * lanes + b] * before) - largest);
    // the lower median of the angles
    Real *middle = own + (call.batch - 1) / 2;
    std::nth_element(own, middle, own + call.batch, [](Real a, Real b) { return a > b; });
    const double cosine = *middle < 1 ? double(*middle) : 1, least = sqrt(0.5);
    const double next = (log(total / double(call.batch)) + largest) / (cosine > least ? cosine : least);
    if (next > 0) scale = next;
  }

  // From gradients of the logits those of features and weights, whose lengths count for nothing.
  void angular_gradient(const Real *h, const Real *turned, Real *of_features, int64_t model) {
    const Real scale = Real(setting(call.scale, model, 1));
    for (int64_t b = 0; b < lanes; b++) along[b] = 0;
    for (int64_t c = 0; c < call.classes; c++)
      for (int64_t b = 0; b < lanes; b++) {
        const int64_t i = c * lanes + b;
        Real g = logits[i] * scale;
        const bool is_target = classes[b] == Real(c);
        if (call.head == ANGLES) {
          const bool near = is_target && cosines[i] > Real(0.5);
          const Real half = chord[b], sine = 2 * half * std::sqrt(1 - half * half);
          g *= near ? (sine > 0 ? 1 / sine : 0) : 1 / sine_of(cosines[i]);
        } else if (call.head == LARGER_ANGLES) {
          g *= is_target ? own[b] : 1;
        }
        along[b] += g * cosines[i];
        logits[i] = g * inverse[b];
      }
    for (int64_t b = 0; b < lanes; b++) along[b] *= inverse[b] * inverse[b];
    spread(directions, padded, turned, of_features);
    for (int64_t d = 0; call.layers && d < size; d++)
      for (int64_t b = 0; b < lanes; b++) of_features[d * lanes + b] -= h[d * lanes + b] * along[b];
    for (int64_t c = 0; c < call.classes; c++) {
      double both = 0;
      Real *grad = of_weight + c * padded;
      const Real *w = directions + c * padded;
      for (int64_t d = 0; d < size; d++) both += double(grad[d]) * w[d];
      for (int64_t d = 0; d < size; d++) grad[d] = (grad[d] - w[d] * Real(both)) * lengths[c];
    }
  }

  // --- center loss, whose centers move with every batch

  double center(const Real *turned, Real *of_features, int64_t model) {
    Real *centers = static_cast<Real *>(call.centers) + model * call.classes * size;
    const Real lam = Real(call.lam[model]), rate = Real(call.center_rate[model]);
    std::fill(sums, sums + call.classes * (size + 1), Real(0));
    double total = 0;
    for (int64_t b = 0; b < call.batch; b++) {
      const int64_t c = int64_t(classes[b]);
      const Real *mine = centers + c * size;
      Real *sum = sums + c * (size + 1), square = 0;
      for (int64_t d = 0; d < size; d++) {
        const Real gap = turned[b * padded + d] - mine[d];
        square += gap * gap;
        sum[d] += gap;
        of_features[d * lanes + b] += gap * lam / Real(call.batch);
      }
      sum[size] += 1;
      total += double(square);
    }
    for (int64_t c = 0; c < call.classes; c++)
      for (int64_t d = 0; d < size; d++)
        centers[c * size + d] += rate * sums[c * (size + 1) + d] / (1 + sums[c * (size + 1) + size]);
    return total * lam / (2 * double(call.batch));
  }

  double square() const {
    double total = 0;
    for (int64_t c = 0; c < call.classes; c++) total += squares(of_weight + c * padded, size);
    return total + (call.bias[0] ? squares(of_bias, call.classes) : 0);
  }
};

} // namespace
