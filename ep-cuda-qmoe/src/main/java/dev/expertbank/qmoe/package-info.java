/**
 * The CUDA-QMoE provider. The path of a token: {@code QMoeProvider} claims and compiles a node,
 * {@code QMoeNode} takes each execution, {@code device} computes it over the address table that
 * {@code bank} keeps.
 */
@NullMarked
package dev.expertbank.qmoe;

import org.jspecify.annotations.NullMarked;
