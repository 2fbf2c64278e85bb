/** What crosses modules: oracle parity and whole sessions on a real ONNX Runtime. */
@NullMarked
package dev.expertbank.tests;

import org.jspecify.annotations.NullMarked;
