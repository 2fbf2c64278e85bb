/** What an application uses: find a provider and register it with ONNX Runtime. */
@NullMarked
package dev.expertbank.api;

import org.jspecify.annotations.NullMarked;
