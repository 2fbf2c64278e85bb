/**
 * The host: makes Java {@link dev.expertbank.spi.ExecutionProvider}s an ONNX Runtime plugin
 * execution provider. C structures and addresses do not leave this package. Reading order: {@code
 * PluginLibrary} (what ONNX Runtime loads), {@code PluginFactory}, {@code PluginSession}, {@code
 * PluginNode}, then {@code OrtGraphReader} and {@code OrtKernelContext} for what they are given;
 * {@code OrtGpuMemory} and {@code CopyKernel} for providers on a GPU.
 */
@NullMarked
package dev.expertbank.ort;

import org.jspecify.annotations.NullMarked;
