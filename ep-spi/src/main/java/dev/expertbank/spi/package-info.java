/**
 * What an execution provider written in Java implements. The host in this module turns any {@link
 * dev.expertbank.spi.ExecutionProviderFactory} that {@link java.util.ServiceLoader} finds into an
 * ONNX Runtime plugin execution provider; a provider never sees a C structure.
 */
@NullMarked
package dev.expertbank.spi;

import org.jspecify.annotations.NullMarked;
