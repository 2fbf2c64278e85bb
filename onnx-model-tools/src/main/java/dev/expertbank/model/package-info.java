/**
 * Reads ONNX files without loading external data, and writes them: single models from given tensors
 * and synthetic QMoE models of any size.
 */
@NullMarked
package dev.expertbank.model;

import org.jspecify.annotations.NullMarked;
