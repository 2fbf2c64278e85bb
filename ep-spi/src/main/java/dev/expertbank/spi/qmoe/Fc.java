package dev.expertbank.spi.qmoe;

/**
 * One fully connected layer of an expert: a matrix of N rows, each with K weights.
 *
 * <p>With hidden size H, intermediate size I and F = 2 for a fused SwiGLU, else 1: fc1 has N = F·I
 * and K = H, fc2 has N = H and K = I, fc3 has N = I and K = H.
 */
public enum Fc {
  FC1,
  FC2,
  FC3
}
