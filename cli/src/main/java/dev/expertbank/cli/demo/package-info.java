/**
 * {@code qmoe demo}: one model, opened by stock ONNX Runtime as it comes, without prepacking, and
 * with the provider; all measured in one process.
 */
@NullMarked
package dev.expertbank.cli.demo;

import org.jspecify.annotations.NullMarked;
