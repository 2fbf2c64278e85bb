/** Whole sessions of QMoE models through stock ONNX Runtime with the provider. */
@NullMarked
package dev.expertbank.tests.session;

import org.jspecify.annotations.NullMarked;
