// What Python hands over: one call of one loss. The layout is that of LAYOUT in library.py.
#pragma once
#include <cstdint>

enum Form : int32_t { DECAY, SOFTPLUS, FOCAL };
enum Reduction : int32_t { NONE, MEAN, SUM };
enum Type : int32_t { FLOAT32, FLOAT64, BFLOAT16, FLOAT16, INT64, UINT8 };
enum Status : int32_t { DONE, DECLINED, CLOSE };

// (number of samples, classes, samples within a sample, such as pixels), in elements
struct Strides {
  int64_t outer, classes, inner;
};

struct Call {
  const void *logits;
  const void *target;      // classes, or probabilities
  const double *weight;    // one per class, or null
  const double *log_betas; // one per class, or null
  const void *upstream;    // the gradient of the loss, or null where it is 1
  void *loss;              // or null
  void *gradient;          // or null
  int64_t outer, classes, inner;
  Strides of_logits, of_target, of_gradient;
  int64_t ignore_index;
  double parameter; // log β, or γ
  double tau, smoothing;
  double to_uniform, from_uniform; // λ times the shares of D(q‖u) and D(u‖q)
  int32_t form, reduction, compensate, threads;
  int32_t logits_type, target_type, loss_type;
  int32_t instructions; // which of the compiled copies
};

// What the metrics need of the rows of logits (rows, classes), MEASURE in library.py: lowest,
// highest, own logit, its rank, Σ e^(z - highest) and the sum of their squares, one row of `numbers`
// each. The rank is how many classes are above the target, or level with it and before it.
struct Measure {
  const void *logits;
  const int64_t *target; // classes, which are in range
  double *numbers;
  int64_t rows, classes, stride;
  int32_t logits_type, threads, instructions, unused;
};

// The same rows added up as `Sums` in _sums.py has it, TALLY in library.py.
struct Tally {
  const void *logits;
  const int64_t *target;
  const double *weight, *edges;    // of rows, and of bins
  double *cells, *moments, *totals; // (4, cells, 2), (6, 4) and (6): what is added to
  int64_t rows, classes, stride;
  int64_t of_weight; // the stride of the weights: 0 if one stands for all
  int64_t bins, cell_count, top_k;
  double tolerance; // of a sum of 1
  int32_t logits_type, threads, instructions, closed_left;
};

// Rows that are added up together, whatever the number of threads.
constexpr int64_t TALLIED = 256;
constexpr int VALUES = 4, MOMENTS = 6, PARTIAL = VALUES * MOMENTS + 6; // sums: moments, totals

// Cells of confidence as in binning.py: 2^7 for each halving of its distance from 1, down to 2^-32.
constexpr int CELL_BITS = 7;
constexpr int64_t LEAST = (int64_t(1023) - 32) << CELL_BITS;

// What a tally keeps of some rows until all of them are known to be good.
struct Tallied {
  const Tally *call;
  int64_t first;      // row
  double *partial;    // sums of every TALLIED rows: moments, then totals
  int32_t *place;     // of every row: twice its cell, and one more if it is right
  double *confidence; // of every row
};

// Cosines or angles between features and class weights, of float32 and contiguous, DIRECTIONS in
// library.py: what goes with the three products of matrices.
enum Step : int32_t { FORWARD, BACKWARD };
enum Margin : int32_t { NO_MARGIN, COSINE, ANGLE, ANGLE_IF_EASY, ANGLE_ALWAYS, MULTIPLE };

struct Directions {
  const float *features, *weight; // (samples, size) and (classes, size)
  float *logits;                  // products, and in their place cosines times the size of logits
  float *angles;                  // or null: arccosines of those times scale
  const int64_t *target;          // classes, or null
  float *x_inverse, *w_inverse;   // inverse lengths
  float *own, *slope, *rest;      // of every sample: its target's cosine, and how the margin goes on
  const float *grad;              // of the logits or angles
  float *of_products;             // the gradient of the products
  float *sums;                    // of gradient times cosine by class, for every block of rows
  float *of_features, *of_weight; // or null: what is to be added to products with of_products
  int64_t samples, classes, size, ignore_index;
  double scale;  // of cosines or angles; 0 for the length of the features
  double amount; // of the margin
  double anneal;
  int32_t step, margin, multiple, threads, instructions, unused;
};

// The parts of it, by rows but for GRADIENT, which is by blocks of rows.
enum Part : int32_t { W_LENGTHS, LOGITS, GRADIENT, OF_WEIGHT };

struct Share {
  const Directions *call;
  int32_t part;
  mutable bool close; // whether a target's cosine is too coarse for its angle
};

// One Gaussian per class, GAUSSIAN in library.py: what goes with the products of matrices.
struct Gaussian {
  const float *features;            // (samples, size)
  const float *mean, *log_variance; // (classes, size)
  const float *centre;              // taken off features and means
  const int64_t *target;
  float *inputs, *weights, *constant; // (samples, row), (classes, row), (2, classes)
  float *logits;
  const float *grad;
  float *of_products, *sums; // without the targets' entries, and its sums over blocks of samples
  const float *of_inputs;
  float *of_features, *of_mean, *of_log_variance;
  int64_t samples, classes, size;
  int64_t row; // at least 2 size: from one row of inputs or weights to the next
  int64_t ignore_index;
  double margin; // α
  int32_t step, threads, instructions, unused;
};

enum GaussianStep : int32_t { PREPARE, TARGETS, SEPARATE, JOIN };
enum GaussianPart : int32_t { WEIGHTS, INPUTS, OWN, OTHERS, TO_FEATURES, TO_CLASSES, TO_TARGETS };

struct GaussianShare {
  const Gaussian *call;
  int32_t part;
};

// One step of many small networks of one kind, NETWORKS in library.py, followed by their layers. They
// are variants times streams; all numbers are contiguous, of the samples' type or double.
enum Head : int32_t { NO_HEAD, LINEAR, COSINES, ADAPTED_COSINES, LARGER_COSINES, LARGER_ANGLES, ANGLES };
enum Rule : int32_t { SGD, ADAM, ADAMW };

struct Layer {
  void *weight[3], *bias[3]; // with the optimiser's slots, or null
  int64_t inputs, outputs;
  int64_t by_variant, by_stream, row; // from one model's weight, or its row, to the next
  int64_t active;                     // whether ReLU follows
};

struct Networks {
  const void *x;               // (rows of all folds, inputs)
  const int64_t *base;         // of every stream: the first row of its fold
  const int64_t *rows, *y;     // (streams, row_stride) of which `batch` are taken, (streams, samples)
  const void *sample_weight;   // (streams, samples), or null
  void *features;              // or null: to be written, and nothing else
  const void *grad;            // of the features, where there is no head
  void *losses, *logits;       // (models) and (models, batch, classes), logits or null
  void *weight[3], *bias[3];   // of the heads, with slots
  double *scale;               // of the heads, from here on of every model or null
  const double *margin;        // of the heads
  const double *setting, *tau; // of the losses: β, a margin or γ
  const double *lam, *center_rate;
  void *centers; // (models, classes, features), or null
  const double *rate, *decay, *clip; // by variant and stream
  int64_t streams, first, variants, batch, row_stride, samples, inputs, classes, layers;
  double momentum;
  double correction[2]; // of Adam's two means: 1 - 0.9^t, and the root of 1 - 0.999^t
  int32_t head, beyond, form, is_beta, rule, type, instructions, unused;
  Layer layer[1]; // `layers` of them
};

constexpr int64_t MOST_LAYERS = 8;

// What is found before the rows are: the same for all of them.
struct Plan {
  const Call *call;
  double scale;    // what every gradient is multiplied by: 1/N for the mean
  double *losses;  // one per sample
  double *plain;   // with compensation: sigmoid(ξ) and sigmoid(ξ - log β) of every sample
  double *own;
};

// Rows from `begin` to `end` of outer·inner; false if one needs what only the other path does.
using Rows = bool (*)(const Plan &, int64_t begin, int64_t end);

// Rows that a thread takes at once: with pixels next to each other, so many are read together.
constexpr int64_t TILE = 16;

// Columns that are summed over at once.
constexpr int64_t STRIPE = 128;

// Rows of a block, whose sums by column are kept in float32.
constexpr int64_t ROWS = 32;

// The sum of a column over all blocks.
static inline double over_blocks(const float *sums, int64_t rows, int64_t columns, int64_t column) {
  double total = 0;
  for (int64_t r = 0; r < rows; r += ROWS) total += sums[r / ROWS * columns + column];
  return total;
}
