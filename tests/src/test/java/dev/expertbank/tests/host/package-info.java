/** The host with real ONNX Runtime sessions and providers that are not QMoE. */
@NullMarked
package dev.expertbank.tests.host;

import org.jspecify.annotations.NullMarked;
