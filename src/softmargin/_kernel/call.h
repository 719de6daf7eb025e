// What Python hands over: one call of one loss. The layout is that of LAYOUT in library.py.
#pragma once
#include <cstdint>

enum Form : int32_t { DECAY, SOFTPLUS, FOCAL };
enum Reduction : int32_t { NONE, MEAN, SUM };
enum Type : int32_t { FLOAT32, FLOAT64, BFLOAT16, FLOAT16, INT64, UINT8 };
enum Status : int32_t { DONE, DECLINED };

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
// highest, own logit, how many are above it, how many are at least it, Σ e^(z - highest) and the
// sum of their squares, one row of `numbers` each.
struct Measure {
  const void *logits;
  const int64_t *target; // classes, which are in range
  double *numbers;
  int64_t rows, classes, stride;
  int32_t logits_type, threads, instructions, unused;
};

// One pass over matrices of float32 beside the products of features and class weights, PASS in
// library.py. All of them are contiguous.
enum Step : int32_t { LENGTHS, SPREAD, COLLECT, AWAY };

struct Pass {
  const float *left;          // vectors, or the gradient of logits
  const float *right;         // logits
  float *out, *angles;        // what is written; angles only where there are some
  const float *of_rows;       // one factor per row, or null for 1
  const float *of_columns;    // one factor per column
  const int64_t *index;       // the target's column of every row, or null
  float *own;                 // of every row, its entry at the target
  const float *own_left;      // what counts at the target in the place of left and right
  const float *own_right;
  float *sums;                // one per column
  int64_t rows, columns;
  double scale;               // of angles
  int32_t step, angle, threads, instructions;
};

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
