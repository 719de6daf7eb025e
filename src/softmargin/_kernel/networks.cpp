// Many small networks, each trained by one step while it is in cache: samples, layers with ReLU,
// head, loss, gradients, update.
//
// Activations are transposed, (units, samples): samples are the lanes of vectors, filled up to whole
// ones. The file is compiled once for every set of instructions, with WIDTH and NETWORKS.
#include "network_heads.h"

namespace {

// Where one layer's numbers of one model are.
template <class Real> struct Place {
  Real *values, *slots[2];
};

template <class Real> Place<Real> place(void *const (&data)[3], int64_t offset) {
  Place<Real> found{};
  found.values = static_cast<Real *>(data[0]) + offset;
  for (int i = 0; i < 2; i++)
    if (data[i + 1]) found.slots[i] = static_cast<Real *>(data[i + 1]) + offset;
  return found;
}

// Moves parameters as torch.optim does.
template <class Real> struct Update {
  int32_t rule;
  Real decay, rate, kept, momentum, size, by_root, clip = 1;
  static constexpr Real first = Real(0.1), second = Real(0.999), third = Real(1 - 0.999);

  Update(const Networks &call, int64_t model)
      : rule(call.rule), decay(Real(call.decay[model])), rate(Real(call.rate[model])),
        kept(Real(1 - call.rate[model] * call.decay[model])), momentum(Real(call.momentum)),
        size(Real(call.rate[model] / call.correction[0])), by_root(Real(1 / call.correction[1])) {}

  void adam(Real *__restrict p, Real *__restrict mean, Real *__restrict square,
            const Real *__restrict grad, int64_t count, bool decoupled) const {
    for (int64_t i = 0; i < count; i++) {
      const Real value = decoupled ? p[i] * kept : p[i];
      const Real g = decoupled ? grad[i] * clip : grad[i] * clip + value * decay;
      mean[i] += (g - mean[i]) * first;
      square[i] = square[i] * second + g * g * third;
      p[i] = value - size * (mean[i] / (std::sqrt(square[i]) * by_root + Real(1e-8)));
    }
  }

  void sgd(Real *__restrict p, const Real *__restrict grad, int64_t count) const {
    for (int64_t i = 0; i < count; i++) p[i] -= rate * (grad[i] * clip + p[i] * decay);
  }

  void sgd(Real *__restrict p, Real *__restrict moving, const Real *__restrict grad,
           int64_t count) const {
    for (int64_t i = 0; i < count; i++) {
      moving[i] = moving[i] * momentum + (grad[i] * clip + p[i] * decay);
      p[i] -= rate * moving[i];
    }
  }

  void move(const Place<Real> &to, int64_t offset, const Real *grad, int64_t count) const {
    Real *p = to.values + offset;
    if (rule != SGD) adam(p, to.slots[0] + offset, to.slots[1] + offset, grad, count, rule == ADAMW);
    else if (to.slots[0]) sgd(p, to.slots[0] + offset, grad, count);
    else sgd(p, grad, count);
  }
};

// One model after the other, with room for the activations and gradients of one.
template <class Real> struct Trainer {
  static constexpr int64_t N = Lanes<Real>::count;
  const Networks &call;
  Room<Real> room;
  const int64_t lanes, width;
  Real *samples, *activations[MOST_LAYERS], *gradients[MOST_LAYERS], *biases[MOST_LAYERS];
  Real *flow, *next, *turned; // gradients of activations, of those below, and by sample
  Classifier<Real> classifier;

  explicit Trainer(const Networks &call)
      : call(call), lanes(whole<Real>(call.batch)),
        width(call.layers ? call.layer[call.layers - 1].outputs : call.inputs),
        classifier(call, lanes, width) {
    // twice: the first time only the size is counted
    for (int round = 0; round < 2 && room.start(); round++) {
      int64_t widest = whole<Real>(width);
      samples = room.take(whole<Real>(call.inputs) * lanes);
      for (int64_t i = 0; i < call.layers; i++) {
        const int64_t padded = whole<Real>(call.layer[i].outputs);
        activations[i] = room.take(padded * lanes);
        gradients[i] = room.take(call.layer[i].inputs * padded);
        biases[i] = room.take(padded);
        widest = padded > widest ? padded : widest;
      }
      flow = room.take(widest * lanes);
      next = room.take(widest * lanes);
      turned = room.take(widest * lanes);
      classifier.take(room);
    }
  }

  int64_t offset(const Layer &layer, int64_t m, int64_t s) const {
    return m * layer.by_variant + s * layer.by_stream;
  }

  void gather(int64_t s) {
    const int64_t *rows = call.rows + s * call.row_stride;
    const Real *x = static_cast<const Real *>(call.x) + call.base[s] * call.inputs;
    for (int64_t b = 0; b < call.batch; b++)
      for (int64_t i = 0; i < call.inputs; i++) samples[i * lanes + b] = x[rows[b] * call.inputs + i];
    classifier.targets(s);
  }

  const Real *forward(int64_t m, int64_t s) {
    const Real *h = samples;
    for (int64_t i = 0; i < call.layers; i++) {
      const Layer &layer = call.layer[i];
      const Real *weight = static_cast<const Real *>(layer.weight[0]) + offset(layer, m, s);
      const Real *bias = static_cast<const Real *>(layer.bias[0]);
      bias += (m * call.streams + s) * layer.outputs;
      Real *out = activations[i];
      product<Real>({weight, 1, layer.row}, {h, lanes}, {out, lanes}, layer.outputs, layer.inputs,
                    lanes, {bias, layer.active != 0});
      h = out;
    }
    return h;
  }

  void backward(int64_t m, int64_t s) {
    for (int64_t i = call.layers - 1; i >= 0; i--) {
      const Layer &layer = call.layer[i];
      const Real *h = i ? activations[i - 1] : samples, *own = activations[i];
      if (layer.active)
        for (int64_t j = 0; j < layer.outputs * lanes; j++) flow[j] = own[j] <= 0 ? 0 : flow[j];
      const int64_t padded = whole<Real>(layer.outputs);
      transpose<Real>(flow, lanes, turned, padded, padded, lanes);
      product<Real>({h, lanes, 1}, {turned, padded}, {gradients[i], padded}, layer.inputs, call.batch,
                    padded);
      sum_rows<Real>(turned, padded, biases[i], call.batch);
      if (i == 0) break;
      const Real *weight = static_cast<const Real *>(layer.weight[0]) + offset(layer, m, s);
      product<Real>({weight, layer.row, 1}, {flow, lanes}, {next, lanes}, layer.inputs,
                    layer.outputs, lanes);
      Real *swapped = flow;
      flow = next;
      next = swapped;
    }
  }

  double square() const {
    double total = 0;
    for (int64_t i = 0; i < call.layers; i++) {
      const int64_t outputs = call.layer[i].outputs, padded = whole<Real>(outputs);
      for (int64_t r = 0; r < call.layer[i].inputs; r++)
        total += squares(gradients[i] + r * padded, outputs);
      total += squares(biases[i], outputs);
    }
    return total;
  }

  void update(int64_t m, int64_t s, int64_t own) {
    const int64_t model = m * call.streams + s;
    Update<Real> by(call, model);
    if (call.clip) {
      const double length = sqrt(square() + classifier.square());
      const double factor = call.clip[model] / (length + 1e-6);
      by.clip = Real(factor < 1 ? factor : factor >= 1 ? 1 : factor); // a NaN stays one
    }
    for (int64_t i = 0; i < call.layers; i++) {
      const Layer &layer = call.layer[i];
      const Place<Real> weight = place<Real>(layer.weight, offset(layer, m, s));
      for (int64_t r = 0; r < layer.inputs; r++)
        by.move(weight, r * layer.row, gradients[i] + r * whole<Real>(layer.outputs), layer.outputs);
      by.move(place<Real>(layer.bias, model * layer.outputs), 0, biases[i], layer.outputs);
    }
    if (call.head == NO_HEAD) return;
    const Place<Real> weight = place<Real>(call.weight, own * call.classes * width);
    for (int64_t c = 0; c < call.classes; c++)
      by.move(weight, c * width, classifier.of_weight + c * whole<Real>(width), width);
    if (call.bias[0])
      by.move(place<Real>(call.bias, own * call.classes), 0, classifier.of_bias, call.classes);
  }

  // model (m, s), which is number `own` of those that this call is about
  void train(int64_t m, int64_t s, int64_t own) {
    const Real *h = forward(m, s);
    const int64_t size = call.batch * width;
    if (call.features) {
      Real *to = static_cast<Real *>(call.features) + own * size;
      for (int64_t b = 0; b < call.batch; b++)
        for (int64_t d = 0; d < width; d++) to[b * width + d] = h[d * lanes + b];
      return;
    }
    if (call.head == NO_HEAD) {
      const Real *from = static_cast<const Real *>(call.grad) + own * size;
      for (int64_t b = 0; b < call.batch; b++)
        for (int64_t d = 0; d < width; d++) flow[d * lanes + b] = from[b * width + d];
    } else {
      transpose<Real>(h, lanes, turned, whole<Real>(width), whole<Real>(width), lanes);
      classifier.run(h, turned, flow, own);
    }
    backward(m, s);
    update(m, s, own);
  }

  bool all() {
    if (!room.memory) return false;
    for (int64_t s = 0; s < call.streams; s++) {
      gather(s);
      for (int64_t m = 0; m < call.variants; m++)
        train(call.first + m, s, m * call.streams + s);
    }
    return true;
  }
};

} // namespace

extern "C" __attribute__((visibility("hidden"))) bool NETWORKS(const Networks &call) {
  if (call.type == FLOAT64) return Trainer<double>(call).all();
  return Trainer<float>(call).all();
}
