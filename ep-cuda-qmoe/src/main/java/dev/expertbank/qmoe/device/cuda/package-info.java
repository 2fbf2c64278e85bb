/** The GPU: one device of NVIDIA's driver, through {@code libcuda.so.1}. */
@NullMarked
package dev.expertbank.qmoe.device.cuda;

import org.jspecify.annotations.NullMarked;
