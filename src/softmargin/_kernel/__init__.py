"""The fused kernel: C++ without PyTorch's headers, and what finds, loads and builds it."""
